-- What was the end offset of each partition on the last two days with samples?
--
-- For tables that need no older samples. For each topic ID of a partition it has the
-- last two days (UTC) with samples, each with its newest sample and the range of its
-- end offsets. Samples may arrive in any order.
CREATE INTERNAL TABLE newest_partition_ends (
  topic string NOT NULL,  -- name of the topic
  topic_id string,  -- ID of the topic as 32 hex digits; null when unknown
  partition int NOT NULL,  -- partition of the topic
  day_number int NOT NULL,  -- days since 1970 in UTC
  sample_ts timestamp NOT NULL,  -- time of the newest sample of the day
  log_start_offset bigint NOT NULL,  -- its log start offset
  high_watermark bigint NOT NULL,  -- its high watermark
  leader_id int,  -- broker ID of the leader
  lowest_end bigint NOT NULL,  -- lowest high watermark of the day
  highest_end bigint NOT NULL,  -- highest high watermark of the day
  queried_ts timestamp,  -- time of the newest sample taken from a broker
  first_ts timestamp NOT NULL,  -- time of the first sample with this topic ID
  PRIMARY KEY (topic, topic_id, partition, day_number)
) AS
WITH samples AS (
  SELECT topic, topic_id, partition, day_number, sample_ts, high_watermark,
    log_start_offset, leader_id, lowest_end, highest_end, queried_ts, first_ts
  FROM {newest_partition_ends}
  UNION ALL
  SELECT topic, topic_id, partition, int(floor(unix_seconds(sample_ts) / 86400)),
    sample_ts, high_watermark, log_start_offset, leader_id, high_watermark,
    high_watermark, if(round_trip_ms IS NULL, NULL, sample_ts), sample_ts
  FROM {new_partition_end_samples}
), days AS (
  SELECT topic, topic_id, partition, day_number,
    max(struct(sample_ts, high_watermark, log_start_offset, leader_id)) AS newest,
    min(lowest_end) AS lowest_end,
    max(highest_end) AS highest_end,
    max(queried_ts) AS queried_ts,
    min(first_ts) AS first_ts
  FROM samples GROUP BY topic, topic_id, partition, day_number
), of_ids AS (
  SELECT *,
    max(day_number) OVER of_id AS newest_day,
    min(first_ts) OVER of_id AS first_of_id_ts
  FROM days WINDOW of_id AS (PARTITION BY topic, topic_id, partition)
)
SELECT * EXCEPT (newest, first_ts), newest.*, first_of_id_ts AS first_ts
FROM of_ids WHERE day_number > newest_day - 2
