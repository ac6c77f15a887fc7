-- What did the coordinator write about groups of the consumer protocol (KIP-848)?
--
-- One table for all record types: a column is null where the type has no such field.
-- Its description begins with the record types that have the field.
CREATE SILVER TABLE consumer_group_records (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  append_ts timestamp,  -- timestamp of the record; null when it has none
  base_offset bigint NOT NULL,  -- first offset of the batch that held the record
  size_bytes int NOT NULL,  -- size of the record's key and value
  record_type smallint NOT NULL,  -- record type: 3 to 8, or 16
  group_id string NOT NULL,  -- ID of the group
  member_id string,  -- 5, 7, 8: member ID
  group_epoch int,  -- 3: group epoch
  metadata_hash bigint,  -- 3: hash of the subscribed topics' metadata
  created_ts timestamp,  -- 3: creation time of the group; null when unknown
  topics_metadata array<struct<topic_id: string, topic: string, partitions: int>>,
    -- 4: subscribed topics; Kafka before 4.1 only (K-10a)
  instance_id string,  -- 5: group.instance.id of a static member
  rack_id string,  -- 5: rack of the member
  client_id string,  -- 5: client.id of the member
  client_host string,  -- 5: host of the member's client
  subscribed_topics array<string>,  -- 5: subscribed topic names
  subscribed_regex string,  -- 5: subscribed regular expression
  rebalance_timeout_ms int,  -- 5: time allowed to revoke partitions
  server_assignor string,  -- 5: server-side assignor of the member
  session_timeout_ms int,  -- 5: session timeout; classic protocol only
  classic_protocols array<struct<name: string, metadata: binary>>,  -- 5: supported
    -- protocols; classic protocol only
  assignment_epoch int,  -- 6: epoch of the target assignment
  assignment_ts timestamp,  -- 6: time it was computed; null when unknown
  assigned array<struct<topic_id: string, topic: string, partition: int>>,
    -- 7: target assignment of the member; 8: its assigned partitions
  pending_revocation array<struct<topic_id: string, topic: string, partition: int>>,
    -- 8: partitions it has yet to revoke
  member_epoch int,  -- 8: member epoch; -2: a static member that is away
  previous_member_epoch int,  -- 8: previous member epoch
  member_state tinyint,  -- 8: 0 stable, 1 has to revoke partitions, 2 waits for other
    -- members to revoke (K-06a), 127 unknown
  regex string,  -- 16: regular expression
  regex_topics array<string>,  -- 16: topics that match it
  regex_version bigint,  -- 16: version of the cluster metadata
  regex_ts timestamp,  -- 16: time it was resolved
  PRIMARY KEY (log_partition, log_offset)
)
