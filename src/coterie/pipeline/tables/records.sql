-- Which records does the log contain?
--
-- Records as they were read from the log.
CREATE BRONZE TABLE records (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  append_ts timestamp,  -- timestamp of the record; null when it has none
  base_offset bigint NOT NULL,  -- first offset of the batch that held the record
  size_bytes int NOT NULL,  -- size of the record's key and value
  is_append_time boolean NOT NULL,  -- true when the broker set append_ts
    -- (LogAppendTime), false when the producer did
  key binary,  -- key bytes
  value binary,  -- value bytes; null for a tombstone
  headers array<struct<name: string, value: binary>>,  -- record headers, usually empty
  leader_epoch int NOT NULL,  -- leader epoch of the log partition; or -1
  producer_id bigint NOT NULL,  -- producer ID of the batch; -1 without one
  producer_epoch smallint NOT NULL,  -- producer epoch of the batch; or -1
  is_transactional boolean NOT NULL,  -- true in a transactional batch
  is_control boolean NOT NULL,  -- true for a transaction marker
  outcome string,  -- outcome of the record's transaction: committed or aborted; null
    -- for a record outside a transaction
  PRIMARY KEY (log_partition, log_offset)
) WITH (day_of = append_ts)
