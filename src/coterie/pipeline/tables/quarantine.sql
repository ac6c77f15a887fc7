-- Which records could not be decoded, and why?
--
-- A record that cannot be decoded never fails a run (K-01b): it is counted and kept.
CREATE SILVER TABLE quarantine (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint,  -- offset of the record; null for a malformed batch
  append_ts timestamp,  -- timestamp of the record
  source string,  -- file or cluster with bytes that are no record batch
  position bigint,  -- byte in the file, or base offset in the cluster
  reason string NOT NULL,  -- unknown_type (K-01b: 9 to 15 are share groups, 17 and more
    -- streams groups), bad_key, bad_value, unknown_version, no_key, bad_batch
  message string,  -- explanation of the reason
  record_type smallint,  -- record type, when the key could be decoded
  key binary,  -- key bytes
  value binary,  -- value bytes
  PRIMARY KEY (log_partition, log_offset, source, position)
)
