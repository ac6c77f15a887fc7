-- Why was each committed offset deleted?
--
-- Every tombstone of a committed offset, with its cause as far as it is known by now.
-- The log alone may not show the cause (tombstone_cause of offset_commit_history, which
-- is final when it is written). Later records and samples may: the first rule that fits
-- replaces the cause unknown.
--
--   topic_deleted    the topic was sampled before the tombstone and never again, and
--                    either a later query of the whole cluster did not list it, or a
--                    topic of this name with another ID was sampled
--   offsets_deleted  the same topic was sampled after the tombstone, and the commit
--                    before the tombstone is in the log
--   topic_deleted    offsets of another group on the topic were deleted within a
--                    second, perhaps in another log partition
--
-- The clocks of the brokers and of the sampling process may differ by a minute.
CREATE TABLE deleted_offsets (
  group_id string NOT NULL,  -- ID of the group
  topic string NOT NULL,  -- name of the topic
  partition int NOT NULL,  -- partition of the topic
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  deleted_ts timestamp,  -- timestamp of the tombstone
  last_offset bigint,  -- the deleted offset; null when it is not in the log
  cause string NOT NULL,  -- expired, offsets_deleted, group_deleted, topic_deleted or
    -- unknown, by what is known now
  cause_in_log string NOT NULL,  -- cause by the records up to the tombstone
  PRIMARY KEY (log_partition, log_offset)
) AS
WITH tombstones AS (
  SELECT log_partition, log_offset, group_id, topic, partition, deleted_ts, last_offset,
    cause_in_log
  FROM {deleted_offsets}
  UNION ALL
  SELECT log_partition, log_offset, group_id, topic, partition, append_ts, prev_offset,
    tombstone_cause
  FROM {new_offset_commit_history} WHERE direction = 'tombstone'
), ids AS (
  SELECT topic, partition, topic_id, min(first_ts) AS first_ts,
    max(sample_ts) AS last_ts, max(queried_ts) AS queried_ts
  FROM {newest_partition_ends} GROUP BY topic, partition, topic_id
), lives AS (
  SELECT topic, partition, first_ts, last_ts,
    coalesce(last_ts < max(queried_ts) OVER (PARTITION BY 1), false)
      OR coalesce(lead(first_ts) OVER (PARTITION BY topic, partition ORDER BY first_ts)
        > last_ts, false) AS is_gone
  FROM ids
), with_lives AS (
  SELECT tombstones.*,
    max(if(first_ts <= deleted_ts, struct(first_ts, last_ts, is_gone), NULL)) AS life,
    if(cause_in_log IN ('unknown', 'topic_deleted') AND deleted_ts IS NOT NULL,
      group_id, NULL) AS possible_group
  FROM tombstones LEFT JOIN lives USING (topic, partition)
  GROUP BY ALL
), facts AS (
  SELECT *,
    unix_millis(deleted_ts) - unix_millis(life.last_ts) AS after_last_ms,
    min(possible_group) OVER together <> max(possible_group) OVER together
      AS is_with_others
  FROM with_lives WINDOW together AS (PARTITION BY topic
    ORDER BY unix_millis(deleted_ts) RANGE BETWEEN 1000 PRECEDING AND 1000 FOLLOWING)
)
SELECT *, CASE
    WHEN cause_in_log <> 'unknown' THEN cause_in_log
    WHEN life.is_gone AND after_last_ms >= -60000 THEN 'topic_deleted'
    WHEN after_last_ms < -60000 AND last_offset IS NOT NULL THEN 'offsets_deleted'
    WHEN is_with_others THEN 'topic_deleted'
    ELSE 'unknown'
  END AS cause
FROM facts
