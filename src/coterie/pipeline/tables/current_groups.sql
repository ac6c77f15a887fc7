-- Which groups exist, and in which state?
--
-- A group exists while it has a group record. A group that has only committed offsets
-- is a simple group (K-07a). The columns of group_history cover group records only;
-- group_activity covers commits too.
CREATE TABLE current_groups (
  group_id string NOT NULL,  -- ID of the group
  group_type string NOT NULL,  -- classic, consumer, or simple (offsets only, K-07a)
  protocol_type string,  -- classic: protocol type; consumer: consumer
  assignor string,  -- classic: assignment strategy; consumer: server-side assignor that
    -- most members name
  state string NOT NULL,  -- Empty, Stable, Assigning, Reconciling; the log does not
    -- record that a classic group is rebalancing
  epoch int,  -- generation or group epoch; null for simple groups
  assignment_epoch int,  -- consumer: epoch of the target assignment
  leader_member_id string,  -- classic: member ID of the leader
  member_count int NOT NULL,  -- number of members
  static_member_count int NOT NULL,  -- number of static members
  topic_count int NOT NULL,  -- topics with a committed offset or an owner
  partition_count int NOT NULL,  -- partitions with an offset or an owner
  owned_partition_count int NOT NULL,  -- number of partitions with an owner
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  created_ts timestamp,  -- creation time; null when the log has none
  first_seen_ts timestamp,  -- time of the group's first record in the log
  last_state_change_ts timestamp,  -- time of its last record except offsets
  empty_since_ts timestamp,  -- time the last member left; null with members
  last_commit_ts timestamp,  -- time of its last commit, deleted or not
  last_log_offset bigint NOT NULL,  -- log offset of its last record
  PRIMARY KEY (group_id)
) AS
WITH groups AS (
  -- The type is null for deleted groups.
  SELECT log_partition, group_id, `group`.* EXCEPT (first_seen_ts, last_log_offset)
  FROM {group_history} WHERE kind = 'group' AND `group`.group_type IS NOT NULL
), partitions AS (
  SELECT log_partition, group_id, topic, partition FROM {current_offsets}
  UNION
  SELECT log_partition, group_id, coalesce(ownership.topic, ownership.topic_id),
    ownership.partition
  FROM {group_history} WHERE kind = 'ownership' AND ownership.valid_to IS NULL
), topics AS (
  SELECT log_partition, group_id, topic, count(*) AS partitions
  FROM partitions GROUP BY log_partition, group_id, topic
), counts AS (
  SELECT log_partition, group_id,
    count(*) AS topic_count, sum(partitions) AS partition_count
  FROM topics GROUP BY log_partition, group_id
)
SELECT group_id, log_partition,
  coalesce(group_type, 'simple') AS group_type,
  protocol_type, assignor,
  coalesce(state, 'Empty') AS state,
  epoch, assignment_epoch, leader_member_id,
  coalesce(member_count, 0) AS member_count,
  coalesce(static_member_count, 0) AS static_member_count,
  coalesce(topic_count, 0) AS topic_count,
  coalesce(partition_count, 0) AS partition_count,
  coalesce(owned_partition_count, 0) AS owned_partition_count,
  created_ts, first_seen_ts, last_state_change_ts, empty_since_ts, last_commit_ts,
  last_log_offset
FROM groups
  FULL OUTER JOIN counts USING (log_partition, group_id)
  LEFT JOIN {group_activity} USING (log_partition, group_id)
