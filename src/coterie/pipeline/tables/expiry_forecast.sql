-- Which committed offsets will expire, and when?
--
-- The rules are those of Kafka's OffsetExpirationCondition (E17-18a to E17-18h),
-- applied to the current groups; the first rule that matches applies, and gives the
-- basis:
--
--   simple_commit          the group never had members (K-07a): since the commit
--   consumer_commit        consumer group (KIP-848), topic not subscribed; an empty
--                          group subscribes to none: since the commit
--   empty_since            classic group, Empty: since the last member left; since the
--                          commit when that is unknown
--   commit_not_subscribed  classic group of protocol type consumer, Stable, topic not
--                          subscribed: since the commit
--   never                  any other
--
-- A commit with an explicit expiration time (value version 1) expires then, if it can
-- expire at all: basis explicit. The coordinator checks at an interval, so an offset
-- expires at the first check after expires_ts, and later while a transaction for it is
-- open.
--
-- The topics of a regular expression are those in its resolution by the coordinator
-- (record type 16). When the subscription of a classic member could not be decoded, the
-- coordinator takes all topics to be subscribed (D-53).
CREATE TABLE expiry_forecast (
  group_id string NOT NULL,  -- ID of the group
  topic string NOT NULL,  -- name of the topic
  partition int NOT NULL,  -- partition of the topic
  basis string NOT NULL,  -- explicit, empty_since, commit_not_subscribed,
    -- simple_commit, consumer_commit, never
  base_ts timestamp,  -- start of the retention time; null for never
  retention_ms bigint,  -- retention time; null for explicit and never
  expires_ts timestamp,  -- expiration time; null for never
  remaining_ms bigint,  -- time from as_of_ts to expires_ts; below 0 the offset expires
    -- at the next check
  at_risk_messages bigint,  -- lag: records that would be skipped, or read again, after
    -- the expiration
  is_trap boolean NOT NULL,  -- true when a consumer group's offset would expire as soon
    -- as the last member leaves; a classic group's would stay for the retention time
  note string,  -- explanation of the basis
  PRIMARY KEY (group_id, topic, partition)
) AS
WITH regexes AS (
  SELECT group_id, regex, log_offset, regex_topics
  FROM {consumer_group_records} WHERE record_type = 16
  UNION ALL
  SELECT group_id, regex, log_offset, NULL FROM {tombstones} WHERE record_type = 16
), resolved AS (
  SELECT group_id, max_by(regex_topics, log_offset) AS topics
  FROM regexes GROUP BY group_id, regex
), subscribed AS (
  SELECT DISTINCT group_id, topic, true AS is_this FROM (
    SELECT group_id, explode(subscribed_topics) AS topic FROM {current_members}
    UNION ALL
    SELECT group_id, explode(topics) FROM resolved
  )
), undecoded AS (
  SELECT DISTINCT group_id, true AS is_any
  FROM {current_members} WHERE protocol = 'classic' AND subscribed_topics IS NULL
), ends AS (
  SELECT topic, partition,
    max(struct(sample_ts, topic_id, log_start_offset, high_watermark)) AS newest
  FROM {newest_partition_ends} GROUP BY topic, partition
), offsets AS (
  SELECT offsets.*, group_type, protocol_type, state, empty_since_ts, newest,
    coalesce(is_this, if(group_type = 'classic', is_any, NULL), false) AS is_subscribed,
    unix_millis(timestamp(:as_of_ts)) AS now_ms
  FROM {current_offsets} AS offsets
    LEFT JOIN {current_groups} AS groups USING (group_id)
    LEFT JOIN subscribed USING (group_id, topic)
    LEFT JOIN undecoded USING (group_id)
    LEFT JOIN ends USING (topic, partition)
), rules AS (
  SELECT *, CASE
      -- A simple group may have no row in current_groups.
      WHEN group_type IS NULL OR group_type = 'simple' OR protocol_type IS NULL
        THEN 'simple_commit'
      WHEN group_type = 'consumer' THEN if(is_subscribed, 'never', 'consumer_commit')
      WHEN state = 'Empty' THEN 'empty_since'
      WHEN protocol_type = 'consumer' AND NOT is_subscribed THEN 'commit_not_subscribed'
      ELSE 'never'
    END AS rule
  FROM offsets
), bases AS (
  SELECT *,
    -- Kafka checks whether an offset can expire at all before its explicit time.
    if(rule <> 'never' AND expire_ts IS NOT NULL, 'explicit', rule) AS basis,
    CASE basis
      WHEN 'never' THEN NULL
      WHEN 'empty_since' THEN coalesce(empty_since_ts, commit_ts)
      ELSE commit_ts
    END AS base_ts,
    if(basis IN ('explicit', 'never'), NULL, :retention_ms) AS retention_ms,
    unix_millis(base_ts) + retention_ms AS expires_ms,
    -- On a partition without new records: the offset is older than the retention time.
    coalesce(group_type = 'consumer' AND is_subscribed
      AND unix_millis(commit_ts) + :retention_ms <= now_ms, false) AS is_trap
  FROM rules
), times AS (
  -- A commit time is any number of a client: the sum may be too late for Python and
  -- Spark.
  SELECT *, if(basis = 'explicit', expire_ts, timestamp_millis(
    if(expires_ms > :time_ms_max, :time_ms_max, expires_ms))) AS expires_ts
  FROM bases
)
SELECT group_id, topic, partition, basis, base_ts, retention_ms, expires_ts, is_trap,
  unix_millis(expires_ts) - now_ms AS remaining_ms,
  CASE
    -- The topic with this name may not be the one that the commit was for.
    WHEN topic_id <> newest.topic_id THEN NULL
    WHEN committed_offset IS NULL OR newest IS NULL THEN NULL
    ELSE greatest(
      newest.high_watermark - greatest(committed_offset, newest.log_start_offset), 0)
  END AS at_risk_messages,
  CASE
    WHEN is_trap THEN 'older than the retention time: expires at the first check after'
      ' the last member leaves'
    WHEN basis = 'explicit' THEN 'the commit has an explicit expiration time'
    WHEN basis = 'simple_commit' THEN 'no member ever joined: counts from the commit,'
      ' even while a client is running'
    WHEN basis = 'consumer_commit' THEN 'topic not subscribed: counts from the commit,'
      ' not from the time the last member left'
    WHEN basis = 'empty_since' THEN 'counts from the time the last member left'
    WHEN basis = 'commit_not_subscribed' THEN 'no member subscribes to the topic'
    ELSE 'members may be reading the topic'
  END AS note
FROM times
