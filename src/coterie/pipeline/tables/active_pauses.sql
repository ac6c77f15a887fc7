-- The longest time between two periods of activity, usual_gap_ms, and the number of
-- commits of each group. A monthly job that has been idle for 20 days is not stale: it
-- has been idle for 30 days before and became active again. A group is active while it
-- has members and when it commits. usual_gap_ms is null for a group that never paused.
CREATE VIEW active_pauses AS
WITH active AS (
  SELECT group_id, from_ts, to_ts, commits FROM {group_periods}
  UNION ALL
  SELECT group_id, joined_ts, coalesce(left_ts, joined_ts), 0 FROM {member_sessions}
), pauses AS (
  SELECT *,
    unix_millis(from_ts) - unix_millis(max(to_ts) OVER (PARTITION BY group_id
      ORDER BY from_ts, to_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ) AS pause_ms
  FROM active
)
SELECT group_id, max(pause_ms) FILTER (WHERE pause_ms > 0) AS usual_gap_ms,
  sum(commits) AS commits
FROM pauses GROUP BY group_id
