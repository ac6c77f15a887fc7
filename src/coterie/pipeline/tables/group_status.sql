-- Was the group in trouble at a given time, by Burrow's rules?
--
-- Verdicts on groups and partitions, by Burrow's rules. There is a row for each
-- partition and one for the whole group, for each minute with a sample of any of the
-- group's partitions, evaluated at the end of that minute. Any past minute can be
-- queried, and a rebuild gives the same rows. verdict and rule are our own evaluation,
-- burrow_code is Burrow's (verdict.py).
CREATE TABLE group_status (
  group_id string NOT NULL,  -- ID of the group
  topic string,  -- name of the topic; null for the whole group
  partition int,  -- partition of the topic; null for the whole group
  window_end_ts timestamp NOT NULL,  -- time of the evaluation
  verdict string NOT NULL,  -- OK, WARN, STALL, STOP, REWIND, NO_COMMIT, NO_OWNER,
    -- LOSING_DATA, RESET, TOO_NEW (lag, but few commits yet), UNKNOWN (a log gap may
    -- have held a commit); ERR for whole groups only
  burrow_code int NOT NULL,  -- Burrow's status code: 1 OK, 2 WARN, 3 ERR, 4 STOP, 5
    -- STALL, 6 REWIND
  rule string NOT NULL,  -- explanation of the verdict
  window_commits int NOT NULL,  -- number of commits evaluated
  complete double NOT NULL,  -- filled share of the window, 0 to 1
  lag bigint,  -- lag at that time
  committed_offset bigint,  -- committed offset at that time
  log_end_offset bigint,  -- high watermark at that time
  PRIMARY KEY (group_id, topic, partition, window_end_ts)
) WITH (day_of = window_end_ts, plan = plan_minutes, merge = since) AS
SELECT * FROM {group_windows} WHERE kind = 'status'
