-- What does the replay of each group's records produce?
--
-- The replay of every group's records (groups/replay.py). A group is replayed, from its
-- first record on, if it has new records or if the name of one of its topic IDs became
-- known. The rows of all other groups are kept. A replay is cheap: about one record in
-- a hundred is a group record, and all records of a group are in one log partition, in
-- order (K-03).
CREATE INTERNAL TABLE group_history (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  group_id string NOT NULL,  -- ID of the group
  kind string NOT NULL,  -- which of the following columns has a value: group (one row
    -- for each group, even a deleted one), member, ownership, session, rebalance
  number int NOT NULL,  -- 0, 1, ... within its kind and group
  group row<current_groups>,  -- row of current_groups; group_type is null for a deleted
    -- group
  nameless_topic_ids array<string>,  -- group: IDs of its topics whose name is unknown
  member row<current_members>,  -- row of current_members
  ownership row<partition_ownership_history>,  -- row of partition_ownership_history
  session row<member_sessions>,  -- row of member_sessions
  rebalance row<rebalance_timeline>,  -- row of rebalance_timeline
  PRIMARY KEY (log_partition, group_id, kind, number)
) AS
SELECT * FROM {group_history}
  LEFT ANTI JOIN {changed_groups} USING (log_partition, group_id)
UNION ALL
SELECT * FROM {group_replay}
