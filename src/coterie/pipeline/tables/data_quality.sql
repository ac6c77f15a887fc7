-- How complete is the data of each log partition?
--
-- All counts are sums: each build adds the new rows to the previous table. The times
-- since the last gap begin again with each new gap.
CREATE TABLE data_quality (
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  from_offset bigint,  -- first offset that was read
  next_offset bigint,  -- next offset to read
  end_offset bigint,  -- end offset of the log at the last run
  records bigint NOT NULL,  -- number of records read
  bytes bigint NOT NULL,  -- size of the records' keys and values
  commits bigint NOT NULL,  -- number of commits
  group_records bigint NOT NULL,  -- number of group records
  tombstones bigint NOT NULL,  -- number of tombstones
  control bigint NOT NULL,  -- number of transaction markers
  aborted bigint NOT NULL,  -- number of records of aborted transactions
  quarantined bigint NOT NULL,  -- number of rows in quarantine
  gaps bigint NOT NULL,  -- number of log gaps
  missing_offsets bigint NOT NULL,  -- number of offsets in the log gaps
  held_back bigint NOT NULL,  -- offsets not read yet: an open transaction
  off_clock bigint NOT NULL,  -- number of records whose timestamp is more than a day
    -- from those around them, or ahead of the machine that read them: a clock was wrong
  first_ts timestamp,  -- oldest record timestamp
  last_ts timestamp,  -- newest record timestamp
  gap_end_offset bigint,  -- end of the last log gap; null without gaps
  history_from_ts timestamp,  -- first record timestamp since that gap
  PRIMARY KEY (log_partition)
) AS
WITH heads AS (
  SELECT log_partition, next_offset, end_offset,
    end_offset - stable_offset AS held_back, off_clock
  FROM (SELECT inline(from_json(:heads, 'array<struct<log_partition int,
    next_offset bigint, stable_offset bigint, end_offset bigint, off_clock bigint>>')))
), silver AS (
  SELECT log_partition, 'commit' AS kind, NULL AS missing, NULL AS gap_end_offset
  FROM {new_offset_commits}
  UNION ALL SELECT log_partition, 'group', NULL, NULL FROM {new_classic_group_records}
  UNION ALL SELECT log_partition, 'group', NULL, NULL FROM {new_consumer_group_records}
  UNION ALL SELECT log_partition, 'tombstone', NULL, NULL FROM {new_tombstones}
  UNION ALL SELECT log_partition, 'quarantine', NULL, NULL FROM {new_quarantine}
  UNION ALL SELECT log_partition, 'gap', until_offset - from_offset, until_offset
  FROM {new_log_gaps}
), decoded AS (
  SELECT log_partition,
    count_if(kind = 'commit') AS new_commits,
    count_if(kind = 'group') AS new_group_records,
    count_if(kind = 'tombstone') AS new_tombstones,
    count_if(kind = 'quarantine') AS new_quarantined,
    count_if(kind = 'gap') AS new_gaps,
    sum(missing) AS new_missing,
    max(gap_end_offset) AS new_gap_end
  FROM silver GROUP BY log_partition
), earlier AS (
  SELECT *, greatest(gap_end_offset, new_gap_end) AS last_gap_end
  FROM {data_quality} FULL OUTER JOIN decoded USING (log_partition)
), read AS (
  SELECT log_partition,
    min(log_offset) AS new_from_offset,
    min(append_ts) AS new_first_ts,
    max(append_ts) AS new_last_ts,
    count(*) AS new_records,
    sum(size_bytes) AS new_bytes,
    count_if(is_control) AS new_control,
    count_if(outcome = 'aborted') AS new_aborted,
    -- That of the first record: a later one may have any time, by a wrong clock.
    min_by(append_ts, log_offset) FILTER (WHERE append_ts IS NOT NULL
      AND log_offset >= coalesce(last_gap_end, 0)) AS new_history_ts
  FROM {new_records} LEFT JOIN (SELECT log_partition, last_gap_end FROM earlier)
    USING (log_partition)
  GROUP BY log_partition
)
SELECT log_partition,
  least(from_offset, new_from_offset) AS from_offset,
  heads.next_offset,
  heads.end_offset,
  coalesce(records, 0) + coalesce(new_records, 0) AS records,
  coalesce(bytes, 0) + coalesce(new_bytes, 0) AS bytes,
  coalesce(commits, 0) + coalesce(new_commits, 0) AS commits,
  coalesce(group_records, 0) + coalesce(new_group_records, 0) AS group_records,
  coalesce(tombstones, 0) + coalesce(new_tombstones, 0) AS tombstones,
  coalesce(control, 0) + coalesce(new_control, 0) AS control,
  coalesce(aborted, 0) + coalesce(new_aborted, 0) AS aborted,
  coalesce(quarantined, 0) + coalesce(new_quarantined, 0) AS quarantined,
  coalesce(gaps, 0) + coalesce(new_gaps, 0) AS gaps,
  coalesce(missing_offsets, 0) + coalesce(new_missing, 0) AS missing_offsets,
  coalesce(heads.held_back, 0) AS held_back,
  coalesce(heads.off_clock, 0) AS off_clock,
  least(first_ts, new_first_ts) AS first_ts,
  greatest(last_ts, new_last_ts) AS last_ts,
  last_gap_end AS gap_end_offset,
  -- The history of the earlier rows began at the last gap known then.
  coalesce(if(coalesce(gap_end_offset, 0) >= coalesce(last_gap_end, 0),
    history_from_ts, NULL), new_history_ts) AS history_from_ts
FROM earlier
  FULL OUTER JOIN read USING (log_partition)
  FULL OUTER JOIN heads USING (log_partition)
