-- How is the coordinators' load spread over log partitions and brokers?
CREATE TABLE coordinator_load (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  broker_id int,  -- broker ID of its leader; null without samples
  groups int NOT NULL,  -- number of current groups
  members int NOT NULL,  -- number of their members
  records bigint NOT NULL,  -- number of records read
  commits bigint NOT NULL,  -- number of commits among them
  bytes bigint NOT NULL,  -- size of the records' keys and values
  commits_per_s double NOT NULL,  -- commits per second of the log's time
  top_group_id string,  -- group with the most commits
  top_group_share double,  -- its share of the commits, 0 to 1
  PRIMARY KEY (log_partition)
) AS
WITH leaders AS (
  SELECT partition AS log_partition,
    max(struct(sample_ts, leader_id)).leader_id AS broker_id
  FROM {newest_partition_ends} WHERE topic = '__consumer_offsets' GROUP BY partition
), counts AS (
  SELECT log_partition, count(*) AS groups, sum(member_count) AS members
  FROM {current_groups} GROUP BY log_partition
), largest AS (
  -- In case of a tie the last one by name, so that the result is deterministic.
  SELECT log_partition, max(struct(commits, group_id)) AS top
  FROM {group_activity} WHERE commits > 0 GROUP BY log_partition
), logs AS (
  -- A log of less than a second counts as one second, so that no rate is infinite.
  SELECT *, greatest(
    coalesce(unix_millis(last_ts) - unix_millis(first_ts), 0) / 1000, 1D) AS seconds
  FROM {data_quality}
)
SELECT log_partition, broker_id,
  coalesce(groups, 0) AS groups,
  coalesce(members, 0) AS members,
  records, commits, bytes,
  commits / seconds AS commits_per_s,
  top.group_id AS top_group_id,
  try_divide(top.commits, commits) AS top_group_share
FROM logs
  LEFT JOIN largest USING (log_partition)
  LEFT JOIN counts USING (log_partition)
  LEFT JOIN leaders USING (log_partition)
