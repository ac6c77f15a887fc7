-- What is the name of each topic ID?
--
-- Records of consumer groups identify topics by ID only (K-10a). Names come from
-- everything that has both: committed offsets (since Kafka 4.1), the records of type 4
-- that Kafka wrote before 4.1, and samples of partition ends. A topic ID never gets
-- another name, so only new rows are read, and names stay when their offsets expire.
-- The names of subscriptions are not used: a member's assignment may still have topics
-- of its earlier subscription.
CREATE INTERNAL TABLE topic_names (
  topic_id string NOT NULL,  -- ID of the topic as 32 hex digits
  topic string NOT NULL,  -- name of the topic
  PRIMARY KEY (topic_id)
) WITH (merge = append) AS
WITH named AS (
  SELECT entry.topic_id, entry.topic
  FROM (
    SELECT explode(topics_metadata) AS entry
    FROM {new_consumer_group_records} WHERE record_type = 4
  )
  UNION ALL SELECT topic_id, topic FROM {new_offset_commits}
  UNION ALL SELECT topic_id, topic FROM {new_partition_end_samples}
)
SELECT topic_id, min(topic) AS topic
FROM named LEFT ANTI JOIN {topic_names} USING (topic_id)
WHERE topic_id IS NOT NULL AND topic IS NOT NULL
GROUP BY topic_id
