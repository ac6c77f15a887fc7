-- What were the log start offset and the end offset of each partition over time?
--
-- No query builds it: sources take samples, or a file has them.
CREATE TABLE partition_end_samples (
  topic string NOT NULL,  -- name of the topic
  topic_id string,  -- ID of the topic as 32 hex digits; null when unknown
  partition int NOT NULL,  -- partition of the topic
  sample_ts timestamp NOT NULL,  -- time of the sample
  log_start_offset bigint NOT NULL,  -- first offset that exists
  high_watermark bigint NOT NULL,  -- high watermark
  last_stable_offset bigint,  -- end offset for read_committed readers
  leader_id int,  -- broker ID of the partition's leader
  leader_epoch int,  -- leader epoch
  partition_count int,  -- number of partitions of the topic
  round_trip_ms bigint,  -- time that the broker took to respond
  PRIMARY KEY (topic, partition, sample_ts)
) WITH (day_of = sample_ts)
