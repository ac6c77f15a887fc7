-- What was the state of a classic group after each generation (record type 2)?
--
-- subscribed_topics and assigned of a member are decoded for protocol type consumer;
-- they are null for other types and for malformed bytes. In lists of partitions,
-- records of consumer groups identify topics by ID, records of classic groups by
-- name; the other field is null.
CREATE SILVER TABLE classic_group_records (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  append_ts timestamp,  -- timestamp of the record; null when it has none
  base_offset bigint NOT NULL,  -- first offset of the batch that held the record
  size_bytes int NOT NULL,  -- size of the record's key and value
  group_id string NOT NULL,  -- ID of the group
  protocol_type string NOT NULL,  -- protocol type: consumer, connect, ...
  generation int NOT NULL,  -- generation of the group
  protocol string,  -- assignment strategy; null in an empty group
  leader_id string,  -- member ID of the leader; null in an empty group
  state_ts timestamp,  -- time of the last state change
  members array<struct<member_id: string, instance_id: string, client_id: string,
    client_host: string, rebalance_timeout_ms: int, session_timeout_ms: int,
    subscription: binary, subscribed_topics: array<string>, assignment: binary,
    assigned: array<struct<topic_id: string, topic: string, partition: int>>>>
    NOT NULL,  -- members of the group
  value_version smallint NOT NULL,  -- schema version of the value
  PRIMARY KEY (log_partition, log_offset)
)
