-- The last sample of each minute from the base on (plans.py), and the last sample of
-- each partition before the base, which has ends: the high watermarks of the last
-- samples. One a minute is enough for lag.
--
-- A topic may be deleted and created again. life is the number of times this happened
-- so far, previous_life_ts the time of the last sample in the previous life (null in
-- the first life), first_ts the time of the first sample in this one.
CREATE VIEW partition_ends AS
WITH minutes AS (
  SELECT *, lead(date_trunc('minute', sample_ts)) OVER (PARTITION BY topic, partition
    ORDER BY sample_ts, high_watermark) AS next_minute
  FROM {since_partition_end_samples} WHERE :base IS NULL OR sample_ts >= :base
), samples AS (
  SELECT topic, partition, topic_id, sample_ts, log_start_offset, high_watermark, ends,
    life AS base_life, previous_life_ts AS base_previous_ts, first_ts AS base_first_ts
  FROM {group_windows} WHERE kind = 'end' AND cut_ts = :base
  UNION ALL
  SELECT topic, partition, topic_id, sample_ts, log_start_offset, high_watermark, NULL,
    NULL, NULL, NULL
  FROM minutes
  WHERE next_minute IS NULL OR next_minute <> date_trunc('minute', sample_ts)
), compared AS (
  -- Without topic IDs, only a lower end offset shows that the topic was created again.
  SELECT *, lag(sample_ts) OVER in_time AS before_ts,
    coalesce(topic_id <> lag(topic_id) OVER in_time,
      high_watermark < lag(high_watermark) OVER in_time, false) AS is_new_life
  FROM samples WINDOW in_time AS (PARTITION BY topic, partition ORDER BY sample_ts)
), until_now AS (
  SELECT topic, partition, topic_id, sample_ts, log_start_offset, high_watermark, ends,
    int(sum(int(is_new_life)) OVER until_now
      + coalesce(last(base_life, true) OVER until_now, 0)) AS life,
    last(coalesce(base_previous_ts, if(is_new_life, before_ts, NULL)), true)
      OVER until_now AS previous_life_ts,
    last(coalesce(base_first_ts, if(is_new_life OR before_ts IS NULL, sample_ts, NULL)),
      true) OVER until_now AS first_ts
  FROM compared WINDOW until_now AS (PARTITION BY topic, partition ORDER BY sample_ts
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT * FROM until_now
