-- How much did each group consume and commit each day?
--
-- The activity of each group on each topic and day, and its share of the day's commit
-- bytes. Only days with new rows are counted again; other days keep their rows. Days
-- are days in UTC by the coordinator's clock, whatever the time zone of Spark: date
-- functions would use the time zone of the session.
CREATE TABLE group_usage_daily (
  day date NOT NULL,  -- day in UTC
  group_id string NOT NULL,  -- ID of the group
  topic string NOT NULL,  -- name of the topic
  offsets_consumed bigint NOT NULL,  -- sum of forward commits; not a count of records
    -- on compacted or transactional topics
  offsets_rewound bigint NOT NULL,  -- sum of backward commits
  commits bigint NOT NULL,  -- number of commits
  tombstones bigint NOT NULL,  -- number of deleted offsets
  commits_per_s_max double NOT NULL,  -- commits per second in the peak minute
  log_bytes_written bigint NOT NULL,  -- size of its commits' keys and values
  active_minutes int NOT NULL,  -- minutes with a commit
  members_max int,  -- most members at one time; null without members
  cost_share double NOT NULL,  -- share of the day's commit bytes, 0 to 1
  PRIMARY KEY (day, group_id, topic)
) WITH (plan = plan_days) AS
WITH rows AS (
  SELECT group_id, topic, coalesce(append_ts, commit_ts) AS at_ts,
    coalesce(delta, 0) AS delta, direction = 'tombstone' AS is_tombstone, 0 AS bytes
  FROM {days_offset_commit_history}
  UNION ALL
  SELECT group_id, topic, coalesce(append_ts, commit_ts), 0, NULL, size_bytes
  FROM {days_offset_commits}
), minutes AS (
  SELECT date_from_unix_date(int(floor(unix_seconds(at_ts) / 86400))) AS day,
    group_id, topic,
    count_if(NOT is_tombstone) AS commits,
    count_if(is_tombstone) AS tombstones,
    sum(bytes) AS log_bytes_written,
    -- Clients may commit any offset: a sum beyond a bigint becomes the largest bigint,
    -- and negating the smallest bigint would overflow.
    coalesce(try_sum(greatest(delta, 0)), 9223372036854775807) AS offsets_consumed,
    coalesce(try_sum(greatest(-greatest(delta, -9223372036854775807), 0)),
      9223372036854775807) AS offsets_rewound
  FROM rows WHERE at_ts IS NOT NULL
  GROUP BY group_id, topic, day, floor(unix_seconds(at_ts) / 60)
), days AS (
  SELECT day, group_id, topic,
    coalesce(try_sum(offsets_consumed), 9223372036854775807) AS offsets_consumed,
    coalesce(try_sum(offsets_rewound), 9223372036854775807) AS offsets_rewound,
    sum(commits) AS commits,
    sum(tombstones) AS tombstones,
    max(commits) / 60 AS commits_per_s_max,
    sum(log_bytes_written) AS log_bytes_written,
    count_if(commits > 0) AS active_minutes
  FROM minutes WHERE array_contains(CAST(:days AS array<date>), day)
  GROUP BY day, group_id, topic
), all_days AS (
  SELECT *, coalesce(try_divide(log_bytes_written,
    sum(log_bytes_written) OVER (PARTITION BY day)), 0D) AS cost_share
  FROM days
  UNION ALL
  SELECT day, group_id, topic, offsets_consumed, offsets_rewound, commits, tombstones,
    commits_per_s_max, log_bytes_written, active_minutes, cost_share
  FROM {group_usage_daily} WHERE NOT array_contains(CAST(:days AS array<date>), day)
), sessions AS (
  -- An open session lasts until now, and a later time is one of a wrong clock.
  SELECT group_id, joined_ts, left_ts, greatest(joined_ts, coalesce(
    if(left_ts IS NULL, NULL, least(left_ts, timestamp(:as_of_ts))),
    timestamp(:as_of_ts), joined_ts)) AS end_ts
  FROM {member_sessions}
), session_days AS (
  SELECT *,
    int(floor(unix_seconds(joined_ts) / 86400)) AS first_day,
    int(floor(unix_seconds(end_ts) / 86400)) AS last_day,
    explode(sequence(int(floor(unix_seconds(joined_ts) / 86400)),
      int(floor(unix_seconds(end_ts) / 86400)))) AS day_number
  FROM sessions
), changes AS (
  -- A member whose session began on an earlier day counts from the start of this day:
  -- its time is null, which sorts first.
  SELECT group_id, day_number, 1 AS change,
    if(first_day = day_number, joined_ts, NULL) AS at_ts
  FROM session_days
  UNION ALL
  SELECT group_id, day_number, -1, end_ts
  FROM session_days WHERE left_ts IS NOT NULL AND last_day = day_number
), sizes AS (
  -- At equal times members that leave sort first: a replaced member was never in the
  -- group together with its replacement.
  SELECT group_id, day_number, sum(change) OVER (PARTITION BY group_id, day_number
    ORDER BY at_ts NULLS FIRST, change) AS members
  FROM changes
), members AS (
  SELECT group_id, date_from_unix_date(day_number) AS day, max(members) AS members_max
  FROM sizes GROUP BY group_id, day_number
)
SELECT * FROM all_days LEFT JOIN members USING (day, group_id)
