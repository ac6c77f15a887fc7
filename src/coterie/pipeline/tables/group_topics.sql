-- The number of each group's committed offsets, its lag and topics, and those topics
-- that were deleted or are still written to. A topic is missing when the last query of
-- the whole cluster did not list it. Samples of other sources show only partitions that
-- grow: a missing sample does not show that a topic was deleted.
CREATE VIEW group_topics AS
WITH newest AS (
  SELECT *, max(day_number) OVER (PARTITION BY 1) AS newest_day,
    max(queried_ts) OVER (PARTITION BY 1) AS last_query_ts
  FROM {newest_partition_ends}
), partitions AS (
  -- Two days, so that the topic of a daily job counts as written.
  SELECT topic, partition, last_query_ts, max(sample_ts) AS sample_ts,
    max(if(day_number > newest_day - 2, highest_end, NULL)) AS highest,
    min(if(day_number > newest_day - 2, lowest_end, NULL)) AS lowest
  FROM newest GROUP BY topic, partition, last_query_ts
), existing AS (
  SELECT topic, coalesce(max(highest > lowest), false) AS is_written,
    coalesce(max(sample_ts >= last_query_ts), true) AS is_present
  FROM partitions GROUP BY topic
), topics AS (
  SELECT group_id, topic, count(*) AS offsets, sum(at_risk_messages) AS lag
  FROM {expiry_forecast} GROUP BY group_id, topic
), queries AS (
  SELECT max(queried_ts) AS queried_ts FROM {newest_partition_ends}
)
SELECT group_id,
  sum(offsets) AS offsets_count,
  count(*) AS topics,
  sort_array(collect_set(topic) FILTER (WHERE queried_ts IS NOT NULL
    AND NOT coalesce(is_present, false))) AS topics_missing,
  sort_array(collect_set(topic) FILTER (WHERE is_written)) AS topics_still_written,
  sum(lag) AS total_lag
FROM topics LEFT JOIN existing USING (topic) CROSS JOIN queries
GROUP BY group_id
