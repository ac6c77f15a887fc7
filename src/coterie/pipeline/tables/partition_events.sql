-- All events on partitions that a group committed for or owned, from the base on
-- (plans.py), and the last ones before it: commits, changes of owner, and samples, in
-- rows of one schema, so that one window finds the commit and the owner at each sample;
-- a range join would cost far more.
--
-- at_ts, rank, seq are the order. At equal times samples come last: they include
-- everything written at that moment. If one record ends an ownership and starts the
-- next, the end comes first. Times of commits never decrease: the committed offset at a
-- time is that of the last commit in the log, when all records up to it were written
-- (K-03). A commit's time is at most an hour before that of the previous commit of its
-- partition: the clocks of brokers differ. A tombstone is a commit without an offset.
CREATE VIEW partition_events AS
WITH windows AS (
  SELECT * FROM {group_windows}
  WHERE kind = 'window' AND cut_ts = :base AND topic IS NOT NULL
), history AS (
  -- Spark skips row groups by the first condition.
  SELECT * FROM {since_offset_commit_history}
  WHERE :base IS NULL OR (
    (append_ts >= timestamp(:base) - INTERVAL 1 HOUR OR append_ts IS NULL)
    AND coalesce(append_ts, commit_ts) >= timestamp(:base) - INTERVAL 1 HOUR)
), owned AS (
  SELECT * FROM {partition_ownership_history}
  WHERE topic IS NOT NULL AND (:base IS NULL OR valid_to IS NULL OR valid_to >= :base)
), commits AS (
  SELECT group_id, topic, partition, log_offset,
    coalesce(append_ts, commit_ts) AS at_ts, commit_ts, committed_offset, topic_id,
    coalesce(actor = 'admin', false) AS is_reset, false AS is_carried
  FROM history
  UNION ALL
  SELECT group_id, topic, partition, carried.log_offset, carried.at_ts,
    carried.commit_ts, carried.committed_offset, carried.topic_id, carried.is_reset,
    true
  FROM (SELECT *, explode(array(last, sampled)) AS carried FROM windows)
  WHERE carried IS NOT NULL
), in_log AS (
  SELECT * EXCEPT (at_ts), max(at_ts) OVER (PARTITION BY group_id, topic, partition
    ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS at_ts
  FROM commits
), partitions AS (
  SELECT group_id, topic, partition FROM history
  UNION SELECT group_id, topic, partition FROM owned
  UNION SELECT group_id, topic, partition FROM windows
), events AS (
  SELECT group_id, topic, partition, at_ts, 1 AS rank, log_offset * 2 AS seq,
    struct(at_ts, log_offset, topic_id, committed_offset,
      coalesce(commit_ts, at_ts) AS commit_ts, is_reset, is_carried) AS commit,
    NULL AS owner, NULL AS sample
  FROM in_log
  UNION ALL
  SELECT group_id, topic, partition, valid_from, 1, from_log_offset * 2 + 1, NULL,
    struct(valid_from AS at_ts, topic_id, member_id, is_lower_bound), NULL
  FROM owned
  UNION ALL
  SELECT group_id, topic, partition, valid_to, 1, to_log_offset * 2, NULL,
    struct(valid_to AS at_ts, topic_id, string(NULL) AS member_id,
      false AS is_lower_bound), NULL
  FROM owned WHERE valid_to IS NOT NULL
  UNION ALL
  SELECT group_id, topic, partition, owner.at_ts, 1, owner.seq, NULL,
    struct(owner.at_ts, owner.topic_id, owner.member_id, owner.is_lower_bound), NULL
  FROM windows WHERE owner IS NOT NULL
  UNION ALL
  SELECT group_id, topic, partition, sample.sample_ts, 2, 0, NULL, NULL, sample
  FROM partitions JOIN (
    SELECT topic, partition, struct(topic_id, sample_ts, log_start_offset,
      high_watermark, ends, life, previous_life_ts, first_ts) AS sample
    FROM {partition_ends}) USING (topic, partition)
)
SELECT * FROM events
WHERE :base IS NULL OR at_ts >= :base OR commit IS NULL OR commit.is_carried
