-- A row for each record that changes the existence, protocol or size of a group, valid
-- from its log offset on. kind: classic, consumer; null for a deleted or simple group.
-- state_ts: the time of the last state change; classic groups only.
CREATE VIEW group_sizes AS
WITH members AS (
  -- The members of a consumer group are those with a record of type 5; type 3 shows
  -- that an empty group exists.
  SELECT log_partition, log_offset, group_id, member_id,
    if(record_type = 5, 1, NULL) AS exists
  FROM {consumer_group_records} WHERE record_type IN (3, 5)
  UNION ALL
  SELECT log_partition, log_offset, group_id, member_id, 0
  FROM {tombstones} WHERE record_type = 5
), changes AS (
  SELECT *, exists - coalesce(lag(exists) OVER (PARTITION BY group_id, member_id
    ORDER BY log_offset), 0) AS change
  FROM members
)
-- Kafka writes an empty protocol type for a group without members since its creation.
SELECT log_partition, log_offset, group_id,
  if(protocol_type = '', NULL, 'classic') AS kind, bigint(size(members)) AS members,
  state_ts
FROM {classic_group_records}
UNION ALL
SELECT log_partition, log_offset, group_id, 'consumer',
  coalesce(sum(change) OVER (PARTITION BY group_id ORDER BY log_offset), 0), NULL
FROM changes
UNION ALL
SELECT log_partition, log_offset, group_id, NULL, 0, NULL
FROM {tombstones} WHERE record_type IN (2, 3)
