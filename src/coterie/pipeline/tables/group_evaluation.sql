-- Spark sends all events of a group to one Python worker, in the order of time. The
-- state of the windows at the base comes before them.
CREATE VIEW group_evaluation MAP evaluator.status_batches RETURNS group_windows AS
SELECT group_id, topic, partition,
  CASE WHEN commit IS NOT NULL THEN 1 WHEN owner IS NOT NULL THEN 2 ELSE 3 END AS kind,
  at_ts, rank,
  unix_millis(at_ts) AS at_ms,
  seq,
  coalesce(commit.topic_id, owner.topic_id, sample.topic_id) AS topic_id,
  commit.committed_offset AS offset,
  unix_millis(commit.commit_ts) AS commit_ms,
  commit.is_reset,
  owner.member_id,
  owner.is_lower_bound,
  sample.log_start_offset AS start,
  sample.high_watermark AS `end`,
  sample.life,
  unix_millis(sample.previous_life_ts) AS previous_life_ms,
  sample.ends,
  binary(NULL) AS state
FROM {partition_events}
-- The state has the carried commits already.
WHERE commit IS NULL OR NOT commit.is_carried
UNION ALL
SELECT group_id, topic, partition, 0, timestamp_seconds(0), 0, 0, 0, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, state
FROM {group_windows} WHERE kind = 'window' AND cut_ts = :base
DISTRIBUTE BY group_id SORT BY group_id, at_ts, rank, seq
