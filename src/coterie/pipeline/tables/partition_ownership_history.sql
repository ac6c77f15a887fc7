-- Which member owned each partition, from when until when?
CREATE TABLE partition_ownership_history (
  group_id string NOT NULL,  -- ID of the group
  topic string,  -- name of the topic; null when only its ID is known
  topic_id string,  -- ID of the topic as 32 hex digits; null when unknown
  partition int NOT NULL,  -- partition of the topic
  member_id string NOT NULL,  -- ID of the member
  instance_id string,  -- group.instance.id of a static member
  client_id string,  -- client.id of the member
  client_host string,  -- host of the member's client
  rack_id string,  -- rack of the member
  epoch_from int NOT NULL,  -- generation or member epoch that assigned it
  epoch_to int,  -- generation or epoch that revoked it; null while open
  valid_from timestamp NOT NULL,  -- start of the ownership
  valid_to timestamp,  -- end of the ownership; null while open
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  from_log_offset bigint NOT NULL,  -- log offset of the record that assigned it
  to_log_offset bigint,  -- offset of the record that revoked it; null while open
  end_reason string NOT NULL,  -- moved, member_left, group_empty, group_deleted, open
  gap_before_ms bigint,  -- time without an owner before; null at first
  source string NOT NULL,  -- protocol of the assigning record
  is_lower_bound boolean NOT NULL,  -- the ownership may have begun earlier
  PRIMARY KEY (group_id, topic_id, topic, partition, from_log_offset)
) AS
SELECT log_partition, group_id, ownership.*
FROM {group_history} WHERE kind = 'ownership'
