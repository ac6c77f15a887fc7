-- Which offsets were committed (record types 0 and 1, without aborted transactions)?
CREATE SILVER TABLE offset_commits (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  append_ts timestamp,  -- timestamp of the record; null when it has none
  base_offset bigint NOT NULL,  -- first offset of the batch that held the record
  size_bytes int NOT NULL,  -- size of the record's key and value
  group_id string NOT NULL,  -- ID of the group
  topic string NOT NULL,  -- name of the topic
  partition int NOT NULL,  -- partition of the topic
  committed_offset bigint NOT NULL,  -- offset of the next record to read; a negative
    -- one is no committed offset
  leader_epoch int,  -- leader epoch of the last consumed record; null when the client
    -- sent none
  metadata string,  -- metadata string of the commit, often empty
  commit_ts timestamp,  -- commit time by the coordinator's clock (K-09a)
  expire_ts timestamp,  -- explicit expiration; value version 1 only (K-09b)
  topic_id string,  -- ID of the topic as 32 hex digits; null when unknown
  value_version smallint NOT NULL,  -- schema version of the value
  is_transactional boolean NOT NULL,  -- true for a transactional commit
  producer_id bigint,  -- producer ID of the transaction; null without one
  PRIMARY KEY (log_partition, log_offset)
) WITH (day_of = append_ts)
