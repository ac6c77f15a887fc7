-- When did each group commit without a pause of an hour?
--
-- Offsets set by an operator are not activity. Periods less than an hour apart are one
-- period: whatever the number of builds, a group that never pauses has one row. Commits
-- are grouped by hour first, so that far fewer rows have to be sorted.
CREATE INTERNAL TABLE group_periods (
  group_id string NOT NULL,  -- ID of the group
  from_ts timestamp NOT NULL,  -- time of the first commit
  to_ts timestamp NOT NULL,  -- time of the last commit
  commits bigint NOT NULL,  -- number of commits
  PRIMARY KEY (group_id, from_ts)
) AS
WITH hours AS (
  SELECT group_id, from_ts, to_ts, commits FROM {group_periods}
  UNION ALL
  SELECT group_id, min(at_ts), max(at_ts), count(*)
  FROM (
    SELECT *, coalesce(append_ts, commit_ts) AS at_ts FROM {new_offset_commit_history}
  )
  WHERE at_ts IS NOT NULL AND direction <> 'tombstone'
    AND coalesce(actor <> 'admin', true)
  GROUP BY group_id, floor(unix_seconds(at_ts) / 3600)
), pauses AS (
  SELECT *,
    unix_millis(from_ts) - unix_millis(max(to_ts) OVER (PARTITION BY group_id
      ORDER BY from_ts, to_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ) AS pause_ms
  FROM hours
), periods AS (
  SELECT *, sum(int(coalesce(pause_ms > 3600000, true))) OVER (PARTITION BY group_id
    ORDER BY from_ts, to_ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS period
  FROM pauses
)
SELECT group_id, min(from_ts) AS from_ts, max(to_ts) AS to_ts, sum(commits) AS commits
FROM periods GROUP BY group_id, period
