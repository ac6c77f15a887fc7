-- What does the next build of lag_history and group_status begin with?
--
-- The evaluation of all groups (evaluator.py): the new rows of group_status, and the
-- state of the windows at a few times, the cuts, where later builds of lag_history and
-- group_status begin (plans.py).
CREATE INTERNAL TABLE group_windows (
  kind string NOT NULL,  -- end: the samples of a partition before the cut; window: the
    -- commits and owners of a partition of a group before the cut, or, without a topic,
    -- that the group had members; status: a new row of group_status
  cut_ts timestamp,  -- time of the cut; null for status, and for all time
  group_id string,  -- ID of the group
  topic string,  -- name of the topic
  partition int,  -- partition of the topic
  topic_id string,  -- end: this and the next are of the last sample
  sample_ts timestamp,  -- time of the last sample before the cut
  log_start_offset bigint,  -- first offset that exists
  high_watermark bigint,  -- high watermark
  life int,  -- number of times the topic was created again
  previous_life_ts timestamp,  -- time of the last sample before that
  first_ts timestamp,  -- time of the first sample after that
  ends array<bigint>,  -- high watermarks of the last samples after that
  state binary,  -- window: the state in the evaluator (MessagePack)
  last struct<log_offset: bigint, at_ts: timestamp, commit_ts: timestamp,
    committed_offset: bigint, topic_id: string, is_reset: boolean>,
    -- window: last commit or tombstone before the cut
  sampled struct<log_offset: bigint, at_ts: timestamp, commit_ts: timestamp,
    committed_offset: bigint, topic_id: string, is_reset: boolean>,
    -- window: the same before the last sample
  owner struct<at_ts: timestamp, seq: bigint, topic_id: string, member_id: string,
    is_lower_bound: boolean>,
    -- window: last change of owner before the cut
  window_end_ts timestamp,  -- time of the evaluation
  verdict string,  -- OK, WARN, STALL, STOP, REWIND, NO_COMMIT, NO_OWNER, LOSING_DATA,
    -- RESET, TOO_NEW (lag, but few commits yet), UNKNOWN (a log gap may have held a
    -- commit); ERR for whole groups only
  burrow_code int,  -- Burrow's status code: 1 OK, 2 WARN, 3 ERR, 4 STOP, 5 STALL, 6
    -- REWIND
  rule string,  -- explanation of the verdict
  window_commits int,  -- number of commits evaluated
  complete double,  -- filled share of the window, 0 to 1
  lag bigint,  -- lag at that time
  committed_offset bigint,  -- committed offset at that time
  log_end_offset bigint,  -- high watermark at that time
  PRIMARY KEY (kind, cut_ts, group_id, topic, partition, window_end_ts)
) WITH (plan = plan_windows) AS
WITH tails AS (
  SELECT *, lead(sample_ts, :intervals) OVER (PARTITION BY topic, partition
    ORDER BY sample_ts) AS later_ts
  FROM {partition_ends}
), at_cuts AS (
  SELECT *, explode(filter(CAST(:cuts AS array<timestamp>), cut -> sample_ts < cut
    AND (later_ts IS NULL OR later_ts >= cut))) AS cut_ts
  FROM tails
), ends AS (
  -- The carried sample has the high watermarks of the samples before it.
  SELECT topic, partition, cut_ts,
    max_by(struct(topic_id, sample_ts, log_start_offset, high_watermark, life,
      previous_life_ts, first_ts), sample_ts) AS newest,
    sort_array(collect_list(struct(sample_ts, life,
      coalesce(ends, array(high_watermark)) AS ends))) AS tail
  FROM at_cuts GROUP BY topic, partition, cut_ts
), of_life AS (
  SELECT *, reverse(flatten(transform(filter(tail, each -> each.life = newest.life),
    each -> each.ends))) AS newest_ends
  FROM ends
)
SELECT * FROM {group_windows}
WHERE kind IN ('end', 'window')
  AND array_contains(CAST(:kept AS array<timestamp>), cut_ts)
UNION ALL
SELECT * FROM {group_evaluation}
UNION ALL
SELECT 'end', cut_ts, NULL, topic, partition, newest.*,
  reverse(slice(newest_ends, 1, :intervals)),
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM of_life
