-- All records of each changed group, in the order of the log, with the names of its
-- topics first: the input of their replay. Values are JSON, so Spark shuffles and sorts
-- a few columns instead of nested structs of all record types.
CREATE VIEW group_replay MAP groups.replay.replay_batches RETURNS group_history AS
WITH records AS (
  SELECT log_partition, group_id, log_offset, base_offset, append_ts, 2 AS record_type,
    true AS has_value,
    to_json(struct(protocol_type, generation, protocol, leader_id,
      unix_micros(state_ts) AS state_us,
      transform(members, each -> struct(
        each.member_id AS member_id, each.instance_id AS instance_id,
        each.client_id AS client_id, each.client_host AS client_host,
        each.rebalance_timeout_ms AS rebalance_timeout_ms,
        each.session_timeout_ms AS session_timeout_ms,
        each.subscribed_topics AS subscribed_topics,
        each.assigned AS assigned)) AS members)) AS value
  FROM {classic_group_records}
  UNION ALL
  SELECT log_partition, group_id, log_offset, base_offset, append_ts, record_type, true,
    to_json(struct(member_id, group_epoch, metadata_hash,
      unix_micros(created_ts) AS created_us, instance_id, rack_id, client_id,
      client_host, subscribed_topics, subscribed_regex, rebalance_timeout_ms,
      server_assignor, session_timeout_ms,
      classic_protocols IS NOT NULL AS is_classic_member,
      assignment_epoch, assigned, pending_revocation, member_epoch,
      previous_member_epoch, member_state))
  FROM {consumer_group_records}
  UNION ALL
  SELECT log_partition, group_id, log_offset, base_offset, append_ts, record_type,
    false, to_json(struct(member_id))
  FROM {tombstones} WHERE record_type >= 2
), with_gaps AS (
  -- Gaps become rows among the records, so that one window finds the newest gap before
  -- each record; a range join would compare every record with every gap.
  SELECT *, NULL AS gap_offset
  FROM records LEFT SEMI JOIN {changed_groups} USING (log_partition, group_id)
  UNION ALL
  SELECT log_partition, NULL, until_offset, NULL, NULL, NULL, NULL, NULL, until_offset
  FROM {log_gaps}
), with_gap AS (
  SELECT * EXCEPT (gap_offset), last(gap_offset, true) OVER (PARTITION BY log_partition
    ORDER BY log_offset, group_id IS NOT NULL
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS gap_offset
  FROM with_gaps
), owned AS (
  SELECT log_partition, group_id,
    explode(concat(assigned, coalesce(pending_revocation, array()))) AS partition
  FROM {consumer_group_records}
    LEFT SEMI JOIN {changed_groups} USING (log_partition, group_id)
), ids AS (
  SELECT DISTINCT log_partition, group_id, partition.topic_id FROM owned
)
SELECT log_partition, group_id, log_offset, base_offset,
  unix_micros(append_ts) AS at_us, record_type, has_value, gap_offset, value
FROM with_gap WHERE group_id IS NOT NULL
UNION ALL
SELECT log_partition, group_id, -1, NULL, NULL, -1, true, NULL,
  to_json(struct(topic_id AS member_id, topic AS protocol))
FROM ids JOIN {topic_names} USING (topic_id)
DISTRIBUTE BY log_partition, group_id SORT BY log_partition, group_id, log_offset
