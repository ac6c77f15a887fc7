-- How far behind was each group, in records and in time?
--
-- Lag in records and in time, for each minute with a sample of a partition on which the
-- group has a committed offset or an owner. A window over commits and samples finds the
-- committed offset at each sample (lag_rows); a window over offsets finds the time at
-- which the record at the committed offset was produced: between the last sample whose
-- end is at or below its offset and the next sample. In between, the partition is
-- assumed to have grown evenly, as in kafka-lag-exporter.
--
--   time_lag_method  condition                            time_lag_ms
--   head             the lag is 0                         0
--   interpolated     the next record was produced         exact to time_lag_error_ms
--                    between two samples
--   extrapolated     it was produced before the first     a lower bound; not for maxima
--                    sample
--   null             no committed offset, or only one     null
--                    sample
--
-- Commits for a deleted topic do not count for a later topic with its name. A committed
-- offset below the log start offset counts as the log start offset.
CREATE TABLE lag_history (
  group_id string NOT NULL,  -- ID of the group
  topic string NOT NULL,  -- name of the topic
  partition int NOT NULL,  -- partition of the topic
  topic_id string,  -- ID of the topic as 32 hex digits; null when unknown
  sample_ts timestamp NOT NULL,  -- time of the sample of the partition's end
  committed_offset bigint,  -- committed offset then; null without one
  committed_ts timestamp,  -- time of that commit
  log_start_offset bigint NOT NULL,  -- log start offset of the partition
  log_end_offset bigint NOT NULL,  -- high watermark of the partition
  lag bigint,  -- records left to read; null without a committed offset
  lag_raw bigint,  -- end offset minus committed offset; may be negative
  lag_status string NOT NULL,  -- normal, no_commit, below_start, beyond_end; unknown: a
    -- log gap may have held a commit
  messages_lost bigint NOT NULL,  -- records deleted before they were read
  time_lag_ms bigint,  -- age of the next record to read, if known
  time_lag_method string,  -- head (no lag), interpolated, extrapolated (a lower bound);
    -- null when unknown
  time_lag_error_ms bigint,  -- largest possible error of time_lag_ms
  commit_time_lag_ms bigint,  -- the same at the time of the commit
  produce_rate double,  -- records produced per s since the last sample
  consume_rate double,  -- records consumed per s since the last sample
  eta_s double,  -- seconds until the lag is 0; null if it does not shrink
  retention_margin_offsets bigint,  -- committed offset minus log start offset: records
    -- that may be deleted before the group loses any
  owner_member_id string,  -- member ID of the owner at that time
  PRIMARY KEY (group_id, topic, partition, sample_ts)
) WITH (day_of = sample_ts, plan = plan_from_base, merge = since) AS
WITH earlier AS (
  SELECT *, lead(date_trunc('minute', sample_ts)) OVER (PARTITION BY topic, partition
    ORDER BY sample_ts, high_watermark) AS next_minute
  FROM {earlier_partition_end_samples} JOIN {needed_ends} USING (topic, partition)
  WHERE unix_millis(sample_ts) >= from_ms AND unix_millis(sample_ts) < until_ms
), ends AS (
  SELECT topic, partition, life, sample_ts, high_watermark FROM {partition_ends}
  UNION ALL
  SELECT topic, partition, life, sample_ts, high_watermark FROM earlier
  WHERE next_minute IS NULL OR next_minute <> date_trunc('minute', sample_ts)
), spans AS (
  -- span: the interval from each sample to the next one of the same life.
  SELECT topic, partition, life, high_watermark AS at_offset, 0 AS rank,
    unix_millis(sample_ts) AS sample_ms,
    struct(unix_millis(sample_ts) AS from_ms, high_watermark AS from_offset,
      lead(unix_millis(sample_ts)) OVER in_time AS to_ms,
      lead(high_watermark) OVER in_time AS to_offset) AS span,
    NULL AS row
  FROM ends WINDOW in_time AS (PARTITION BY topic, partition, life ORDER BY sample_ts)
  UNION ALL
  SELECT topic, partition, life, coalesce(next_offset, -1), 1, NULL, NULL, struct(*)
  FROM {lag_rows}
), with_span AS (
  SELECT row, at_offset, last(span, true) OVER (PARTITION BY topic, partition, life
    ORDER BY at_offset, rank, sample_ms
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS span
  FROM spans
), shares AS (
  SELECT row.*, span, span.to_ms - span.from_ms AS span_ms,
    bigint(floor((at_offset - span.from_offset) / (span.to_offset - span.from_offset)
      * (span.to_ms - span.from_ms))) AS after_ms,
    coalesce(span.to_offset > at_offset, false) AS is_in_span
  FROM with_span WHERE row IS NOT NULL
), with_produced AS (
  -- produced.at_ms is null when the record was not produced by the last sample,
  -- error_ms when it may have been produced at any time before. For an offset below the
  -- first known end, only the time of the first sample is known.
  SELECT *, CASE
      WHEN is_same_record THEN previous.produced
      WHEN is_in_span THEN struct(span.from_ms + after_ms AS at_ms,
        greatest(after_ms, span_ms - after_ms) AS error_ms, true AS is_bracketed)
      ELSE struct(if(span IS NULL, unix_millis(first_ts), NULL) AS at_ms,
        bigint(NULL) AS error_ms, false AS is_bracketed)
    END AS produced
  FROM shares
), with_method AS (
  -- With a single sample, the time of the first sample is that of the row itself, so
  -- the age of the record is unknown.
  SELECT *, CASE
      WHEN lag = 0 THEN 'head'
      WHEN lag > 0 AND produced.is_bracketed THEN 'interpolated'
      WHEN lag > 0 AND unix_millis(sample_ts) > produced.at_ms THEN 'extrapolated'
    END AS time_lag_method
  FROM with_produced
)
SELECT *,
  CASE
    WHEN time_lag_method = 'head' THEN 0
    WHEN time_lag_method IS NOT NULL THEN unix_millis(sample_ts) - produced.at_ms
  END AS time_lag_ms,
  CASE
    WHEN time_lag_method = 'head' THEN 0
    WHEN time_lag_method IS NOT NULL THEN produced.error_ms
  END AS time_lag_error_ms,
  CASE
    WHEN lag = 0 THEN 0
    WHEN lag > 0 AND produced.is_bracketed AND committed_ts IS NOT NULL
      THEN greatest(unix_millis(committed_ts) - produced.at_ms, 0)
  END AS commit_time_lag_ms
FROM with_method
