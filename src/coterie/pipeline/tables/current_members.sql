-- Which members does each group have, and which partitions do they own?
--
-- As in the coordinator's responses: a static member that left temporarily (epoch -2)
-- is listed, with the partitions reserved for it.
CREATE TABLE current_members (
  group_id string NOT NULL,  -- ID of the group
  member_id string NOT NULL,  -- ID of the member
  instance_id string,  -- group.instance.id of a static member
  client_id string,  -- client.id of the member
  client_host string,  -- host of the member's client
  rack_id string,  -- rack of the member
  protocol string NOT NULL,  -- protocol of the member: classic or consumer
  member_epoch int,  -- consumer: member epoch; classic: generation
  member_state string,  -- consumer: stable, unrevoked_partitions,
    -- unreleased_partitions, away (static), unknown
  subscribed_topics array<string>,  -- subscribed topic names
  subscribed_regex string,  -- subscribed regular expression
  assigned array<struct<topic_id: string, topic: string, partition: int>>,
    -- assigned partitions
  pending_revocation array<struct<topic_id: string, topic: string, partition: int>>,
    -- partitions it has yet to revoke
  session_timeout_ms int,  -- session timeout; classic protocol only
  rebalance_timeout_ms int,  -- time allowed to revoke partitions
  since_ts timestamp,  -- time it joined
  PRIMARY KEY (group_id, member_id)
) AS
SELECT log_partition, group_id, member.*
FROM {group_history} WHERE kind = 'member'
