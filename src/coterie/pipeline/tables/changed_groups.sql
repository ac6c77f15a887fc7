-- The groups to replay: those with new records, and those with a topic ID whose name
-- became known. Tombstones of offsets are no records about groups.
CREATE VIEW changed_groups AS
SELECT log_partition, group_id FROM {new_classic_group_records}
UNION
SELECT log_partition, group_id FROM {new_consumer_group_records}
UNION
SELECT log_partition, group_id FROM {new_tombstones} WHERE record_type >= 2
UNION
SELECT log_partition, group_id
FROM (
  SELECT log_partition, group_id, explode(nameless_topic_ids) AS topic_id
  FROM {group_history} WHERE kind = 'group'
) LEFT SEMI JOIN {topic_names} USING (topic_id)
