-- What was deleted, and when?
CREATE SILVER TABLE tombstones (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  append_ts timestamp,  -- timestamp of the record; null when it has none
  base_offset bigint NOT NULL,  -- first offset of the batch that held the record
  size_bytes int NOT NULL,  -- size of the record's key and value
  record_type smallint NOT NULL,  -- record type of the key: 0 to 8, or 16
  group_id string NOT NULL,  -- ID of the group
  topic string,  -- 0, 1: topic of the deleted offset
  partition int,  -- 0, 1: partition of the deleted offset
  member_id string,  -- 5, 7, 8: member ID
  regex string,  -- 16: regular expression
  PRIMARY KEY (log_partition, log_offset)
)
