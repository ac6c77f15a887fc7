-- When were the first and last records of each group written, and how many?
CREATE INTERNAL TABLE group_activity (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  group_id string NOT NULL,  -- ID of the group
  first_seen_ts timestamp,  -- time of its first record of any type
  last_commit_ts timestamp,  -- time of its newest commit
  last_log_offset bigint NOT NULL,  -- log offset of its last record of any type
  commits bigint NOT NULL,  -- number of its commits
  log_bytes bigint NOT NULL,  -- size of its records' keys and values
  PRIMARY KEY (log_partition, group_id)
) AS
WITH counted AS (
  SELECT log_partition, group_id, first_seen_ts, last_commit_ts, last_log_offset,
    commits, log_bytes
  FROM {group_activity}
  UNION ALL
  SELECT log_partition, group_id, append_ts, commit_ts, log_offset, 1, size_bytes
  FROM {new_offset_commits}
  UNION ALL
  SELECT log_partition, group_id, append_ts, NULL, log_offset, 0, size_bytes
  FROM {new_classic_group_records}
  UNION ALL
  SELECT log_partition, group_id, append_ts, NULL, log_offset, 0, size_bytes
  FROM {new_consumer_group_records}
  UNION ALL
  SELECT log_partition, group_id, append_ts, NULL, log_offset, 0, size_bytes
  FROM {new_tombstones}
)
SELECT log_partition, group_id,
  min(first_seen_ts) AS first_seen_ts,
  max(last_commit_ts) AS last_commit_ts,
  max(last_log_offset) AS last_log_offset,
  sum(commits) AS commits,
  sum(log_bytes) AS log_bytes
FROM counted GROUP BY log_partition, group_id
