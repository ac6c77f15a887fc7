-- Which groups can be deleted, and what are the reasons against that?
--
-- A blocker is a reason to keep the group. A group with any blocker has class keep and
-- score 0, and no plan deletes it. The score of any other group is the sum of the
-- points of its reasons, at most 100. Deleted topics have the most points, because
-- their groups have nothing left to consume; a name is only a hint. The class is that
-- of the first matching reason, the most certain one.
--
-- The longest pause of a group counts gap_factor times: it became active again after
-- one as long. If the log begins after the group was created, earlier pauses may have
-- been longer than those in the log, and assumed_gap_ms is a pause. A log of less than
-- twice the longest pause does not show that it is the longest. Kafka Connect's groups
-- and others of another protocol type have no offsets of their own.
CREATE TABLE stale_group_candidates (
  group_id string NOT NULL,  -- ID of the group
  class string NOT NULL,  -- dead, abandoned, expired_soon, typo, test, keep
  score int NOT NULL,  -- 0 (keep) to 100 (delete)
  reasons array<string> NOT NULL,  -- reasons to delete the group
  blockers array<string> NOT NULL,  -- reasons to keep the group; a group with a blocker
    -- is never in a plan
  empty_since_ts timestamp,  -- time the last member left
  last_commit_ts timestamp,  -- time of its last commit
  idle_days double,  -- days since its last commit or member
  usual_gap_days double,  -- longest pause, in days, after which the group became active
    -- again
  topics_missing array<string> NOT NULL,  -- deleted topics that it has offsets for
  topics_still_written array<string> NOT NULL,  -- topics with its committed offsets
    -- that received records on the last two days with samples
  total_lag bigint,  -- number of records that it has not read
  offsets_count int NOT NULL,  -- committed offsets that would be deleted
  log_bytes bigint NOT NULL,  -- size of its records in the log
  would_expire_ts timestamp,  -- expiration time of its last offset
  last_hosts array<string> NOT NULL,  -- hosts of its last members
  last_client_ids array<string> NOT NULL,  -- client IDs of its last members
  looks_like string,  -- typo: group with the similar name
  plan_item_id string,  -- ID in the plan file; null when blocked
  PRIMARY KEY (group_id)
) AS
WITH last_sessions AS (
  SELECT *, max(unix_millis(left_ts)) OVER (PARTITION BY group_id) AS last_ms
  FROM {member_sessions}
), last_members AS (
  -- An hour covers a service that is shut down instance by instance.
  SELECT group_id, sort_array(collect_set(client_host)) AS last_hosts,
    sort_array(collect_set(client_id)) AS last_client_ids
  FROM last_sessions WHERE unix_millis(left_ts) >= last_ms - 3600000 GROUP BY group_id
), expirations AS (
  SELECT group_id,
    if(max(expires_ts IS NULL), NULL, max(expires_ts)) AS would_expire_ts
  FROM {expiry_forecast} GROUP BY group_id
), logs AS (
  SELECT log_partition, history_from_ts, gap_end_offset IS NULL AS is_whole
  FROM {data_quality}
), held_back AS (
  SELECT log_partition, stable_offset < end_offset AS is_held_back
  FROM (SELECT inline(from_json(:heads,
    'array<struct<log_partition int, stable_offset bigint, end_offset bigint>>')))
), evidence AS (
  SELECT *,
    unix_millis(timestamp(:as_of_ts)) AS now_ms,
    now_ms - coalesce(greatest(unix_millis(last_commit_ts), unix_millis(empty_since_ts),
      unix_millis(last_state_change_ts)), unix_millis(first_seen_ts)) AS idle_ms,
    greatest(coalesce(usual_gap_ms, 0), if(NOT is_whole, :assumed_gap_ms, 0)) AS gap_ms,
    now_ms - unix_millis(history_from_ts) AS history_ms,
    coalesce(topics, 0) AS topic_number,
    coalesce(size(topics_missing), 0) AS missing,
    missing > 0 AND missing = topic_number AS are_all_deleted,
    missing > 0 AND missing < topic_number AS are_some_deleted,
    topic_number > missing AND size(topics_still_written) = 0 AS is_quiet,
    group_id RLIKE :test_names AS is_test,
    member_count = 0 AND idle_ms > gap_ms AS is_idle,
    member_count = 0 AND gap_ms > 0 AND idle_ms >= gap_ms * 3 AS is_long_idle
  FROM {current_groups}
    LEFT JOIN {active_pauses} USING (group_id)
    LEFT JOIN {similar_names} USING (group_id)
    LEFT JOIN {group_topics} USING (group_id)
    LEFT JOIN (SELECT group_id, log_bytes FROM {group_activity}) USING (group_id)
    LEFT JOIN last_members USING (group_id)
    LEFT JOIN expirations USING (group_id)
    LEFT JOIN logs USING (log_partition)
    LEFT JOIN held_back USING (log_partition)
), judged AS (
  SELECT *,
    array_compact(array(
      if(member_count > 0, format_string('members: %s', member_count), NULL),
      if(is_held_back, format_string(
        'an open transaction holds back log partition %s', log_partition), NULL),
      if(idle_ms < :guard_ms, format_string(
        'active %s days ago', format_number(idle_ms / 86400000, 1)), NULL),
      if(group_type = 'simple' AND idle_ms < :simple_guard_ms, format_string(
        'a simple group that committed %s days ago',
        format_number(idle_ms / 86400000, 1)), NULL),
      if(gap_ms > 0 AND idle_ms < gap_ms * :gap_factor, format_string(
        'its longest known or assumed pause is %s days',
        format_number(gap_ms / 86400000, 1)), NULL),
      if(coalesce(history_ms < 2 * gap_ms, true), format_string(
        'the log covers only %s days', format_number(history_ms / 86400000, 1)), NULL),
      if(group_type = 'classic' AND protocol_type <> 'consumer', format_string(
        'its protocol type is %s', protocol_type), NULL),
      if(group_id RLIKE :kept_names, 'it is on the list of groups to keep', NULL)
    )) AS blockers,
    array_compact(array(
      if(is_idle, format_string('no members, and idle for %s days',
        format_number(idle_ms / 86400000, 1)), NULL),
      if(is_long_idle, format_string('its longest pause was %s days',
        format_number(gap_ms / 86400000, 1)), NULL),
      if(are_all_deleted, 'all its topics were deleted', NULL),
      if(are_some_deleted, concat('deleted topics: ', array_join(topics_missing, ', ')),
        NULL),
      if(looks_like IS NOT NULL, concat('its name is similar to ', looks_like), NULL),
      if(is_test, 'its name is that of a test group', NULL),
      if(topic_number = 0, 'it has no committed offsets', NULL),
      if(is_quiet, 'no records are written to its topics', NULL)
    )) AS reasons,
    least(100, if(is_idle, 30, 0) + if(is_long_idle, 10, 0)
      + if(are_all_deleted, 40, 0) + if(are_some_deleted, 10, 0)
      + if(looks_like IS NOT NULL, 20, 0) + if(is_test, 15, 0)
      + if(topic_number = 0, 10, 0) + if(is_quiet, 10, 0)) AS points
  FROM evidence
)
SELECT group_id, empty_since_ts, last_commit_ts, total_lag, would_expire_ts, looks_like,
  blockers,
  reasons,
  CASE
    WHEN size(blockers) > 0 THEN 'keep'
    WHEN are_all_deleted THEN 'dead'
    WHEN looks_like IS NOT NULL THEN 'typo'
    WHEN is_test THEN 'test'
    WHEN unix_millis(would_expire_ts) - now_ms <= :soon_ms THEN 'expired_soon'
    ELSE 'abandoned'
  END AS class,
  if(size(blockers) > 0, 0, points) AS score,
  if(size(blockers) > 0, NULL, concat('delete-group:', group_id)) AS plan_item_id,
  idle_ms / 86400000 AS idle_days,
  usual_gap_ms / 86400000 AS usual_gap_days,
  coalesce(offsets_count, 0) AS offsets_count,
  coalesce(log_bytes, 0) AS log_bytes,
  coalesce(topics_missing, array()) AS topics_missing,
  coalesce(topics_still_written, array()) AS topics_still_written,
  coalesce(last_hosts, array()) AS last_hosts,
  coalesce(last_client_ids, array()) AS last_client_ids
FROM judged
