-- When did members join and leave, and how many rebalances did that cause?
CREATE TABLE member_sessions (
  group_id string NOT NULL,  -- ID of the group
  member_id string NOT NULL,  -- ID of the member
  instance_id string,  -- group.instance.id of a static member
  client_id string,  -- client.id of the member
  client_host string,  -- host of the member's client
  protocol string NOT NULL,  -- classic or consumer
  joined_ts timestamp NOT NULL,  -- time of the member's first record
  left_ts timestamp,  -- time it left; null while it is a member
  session_ms bigint,  -- duration of the membership
  end_reason string NOT NULL,  -- left, replaced (by a member with the same instance
    -- ID), group_deleted, open; a crash looks like leaving (K-06c)
  rebalances_caused int NOT NULL,  -- rebalances due to its joining or leaving
  restarts_of_instance_24h int NOT NULL,  -- sessions of the same instance ID, or client
    -- ID and host, that began in the 24 hours before
  is_lower_bound boolean NOT NULL,  -- the session may have begun earlier
  PRIMARY KEY (group_id, member_id, joined_ts)
) AS
SELECT log_partition, group_id, session.*
FROM {group_history} WHERE kind = 'session'
