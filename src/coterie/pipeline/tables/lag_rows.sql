-- Lag in records at each sample from the base on, and previous: of the partition's last
-- row before the base, if it is about the same life of the topic. Without such a row in
-- two hours, all samples of the partition may be read.
CREATE VIEW lag_rows AS
WITH latest AS (
  SELECT group_id, topic, partition, sample,
    last(commit, true) OVER until_now AS commit,
    last(owner, true) OVER until_now AS owner
  FROM {partition_events}
  WINDOW until_now AS (PARTITION BY group_id, topic, partition ORDER BY at_ts, rank, seq
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
), of_life AS (
  -- A commit or owner of an earlier topic with the same name does not count.
  SELECT group_id, topic, partition, sample.*, owner.is_lower_bound,
    if(coalesce(commit.topic_id = sample.topic_id, sample.previous_life_ts IS NULL
      OR commit.at_ts > sample.previous_life_ts), commit, NULL) AS commit,
    if(coalesce(owner.topic_id = sample.topic_id, sample.previous_life_ts IS NULL
      OR owner.at_ts > sample.previous_life_ts), owner.member_id, NULL)
      AS owner_member_id
  FROM latest WHERE sample IS NOT NULL
), measured AS (
  -- A sample counts even if the group had neither a commit nor an owner then.
  SELECT *, commit.committed_offset, high_watermark AS log_end_offset,
    (unix_millis(sample_ts) - lag(unix_millis(sample_ts)) OVER in_time) / 1000
      AS seconds,
    high_watermark - lag(high_watermark) OVER in_time AS produced_number,
    commit.committed_offset - lag(commit.committed_offset) OVER in_time
      AS consumed_number
  FROM of_life
  WINDOW in_time AS (PARTITION BY group_id, topic, partition, life ORDER BY sample_ts)
), rows AS (
  SELECT *,
    if(committed_offset IS NULL, NULL, commit.commit_ts) AS committed_ts,
    if(committed_offset IS NULL, NULL, greatest(committed_offset, log_start_offset))
      AS next_offset,
    -- greatest ignores nulls.
    if(committed_offset IS NULL, NULL, greatest(log_end_offset - next_offset, 0))
      AS lag,
    log_end_offset - committed_offset AS lag_raw,
    CASE
      -- Before the first known commit, an owner from before a log gap may have had an
      -- earlier one, which is missing.
      WHEN committed_offset IS NULL AND commit IS NULL AND is_lower_bound THEN 'unknown'
      WHEN committed_offset IS NULL THEN 'no_commit'
      WHEN committed_offset > log_end_offset THEN 'beyond_end'
      WHEN committed_offset < log_start_offset THEN 'below_start'
      ELSE 'normal'
    END AS lag_status,
    greatest(log_start_offset - committed_offset, 0) AS messages_lost,
    committed_offset - log_start_offset AS retention_margin_offsets,
    -- After a lower offset, as after a reset, the rate is null.
    if(produced_number >= 0, produced_number / seconds, NULL) AS produce_rate,
    if(consumed_number >= 0, consumed_number / seconds, NULL) AS consume_rate
  FROM measured
  WHERE (committed_offset IS NOT NULL OR owner_member_id IS NOT NULL)
    AND (:base IS NULL OR sample_ts >= :base)
), last_rows AS (
  SELECT group_id, topic, partition, max_by(struct(
      sample_ts,
      log_end_offset - lag AS next_offset,
      if(time_lag_method IN ('interpolated', 'extrapolated'), struct(
        unix_millis(sample_ts) - time_lag_ms AS at_ms, time_lag_error_ms AS error_ms,
        time_lag_method = 'interpolated' AS is_bracketed), NULL) AS produced,
      lag = 0 AS is_at_head), sample_ts) AS last_row
  FROM {since_lag_history}
  WHERE sample_ts < :base AND sample_ts >= timestamp(:base) - INTERVAL 2 HOURS
  GROUP BY group_id, topic, partition
), with_previous AS (
  SELECT *, if(last_row.next_offset IS NOT NULL AND (previous_life_ts IS NULL
    OR last_row.sample_ts > previous_life_ts), last_row, NULL) AS previous
  FROM rows LEFT JOIN last_rows USING (group_id, topic, partition)
)
SELECT * EXCEPT (commit, seconds, produced_number, consumed_number, last_row),
  CASE
    WHEN lag = 0 THEN 0D
    WHEN consume_rate > produce_rate THEN lag / (consume_rate - produce_rate)
  END AS eta_s,
  -- The next record was the next one at the previous row.
  coalesce(previous.next_offset = next_offset AND previous.produced IS NOT NULL, false)
    AS is_same_record
FROM with_previous
