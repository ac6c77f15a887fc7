-- When did each group rebalance, why, and which partitions moved?
CREATE TABLE rebalance_timeline (
  group_id string NOT NULL,  -- ID of the group
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  protocol string NOT NULL,  -- classic or consumer, after the rebalance
  epoch int NOT NULL,  -- generation or group epoch after the rebalance
  prev_epoch int,  -- generation or group epoch before; null at first
  cause string NOT NULL,  -- first, joined, left, joined_and_left, restarted,
    -- subscription_changed, metadata_changed, assignor_or_leader_changed, follow_up
    -- (classic: assigns partitions that the previous rebalance revoked), became_empty,
    -- deleted, upgraded, downgraded, unknown
  start_ts timestamp,  -- time of its first record; for classic, of its only record, at
    -- its end
  end_ts timestamp,  -- time all members had reconciled the target assignment; null
    -- while it is in progress
  duration_ms bigint,  -- end minus start; classic: since the previous record
  is_duration_exact boolean NOT NULL,  -- consumer: true; classic: false, as duration_ms
    -- is an upper bound
  members_before int NOT NULL,  -- number of members before
  members_after int NOT NULL,  -- number of members after
  joined array<string> NOT NULL,  -- members that joined
  left array<string> NOT NULL,  -- members that left
  restarted array<string> NOT NULL,  -- joined members with the instance ID, or client
    -- ID and host, of a member that left in the ten minutes before
  partitions_total int NOT NULL,  -- partitions with an owner after it
  partitions_moved int NOT NULL,  -- partitions that changed their owner
  moves_needed_min int NOT NULL,  -- fewest moves that give the same number of
    -- partitions per member
  excess_moves int NOT NULL,  -- moves beyond moves_needed_min
  partitions_unowned_ms bigint NOT NULL,  -- time without an owner, all partitions
  storm_id string,  -- rebalance storm it belongs to; null for none
  storm_size int,  -- number of rebalances in that storm
  epoch_gap int NOT NULL,  -- epochs before it that the log is missing
  PRIMARY KEY (group_id, log_partition, log_offset)
) AS
SELECT log_partition, group_id, rebalance.*
FROM {group_history} WHERE kind = 'rebalance'
