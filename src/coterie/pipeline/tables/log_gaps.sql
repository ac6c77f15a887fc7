-- Which offsets of the log are missing?
CREATE SILVER TABLE log_gaps (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  from_offset bigint NOT NULL,  -- first missing offset
  until_offset bigint NOT NULL,  -- next offset that exists
  reason string NOT NULL,  -- log_start (the log begins after offset 0), missing
    -- (removed by compaction, or a segment was not given), unreadable
  PRIMARY KEY (log_partition, from_offset)
)
