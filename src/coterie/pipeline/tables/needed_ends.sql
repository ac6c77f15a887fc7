-- The samples before those of partition_ends that are needed to find when the records
-- at the committed offsets were produced: for each partition from from_ms on, up to
-- until_ms. None are needed for offsets that the previous row of the partition has; for
-- later offsets only those as far back as that row allows, since the next record was
-- produced later.
CREATE VIEW needed_ends COLLECT from_ms AS
WITH known AS (
  SELECT topic, partition, life,
    unix_millis(date_trunc('minute', sample_ts)) AS until_ms
  FROM {group_windows} WHERE kind = 'end' AND cut_ts = :base
), needs AS (
  SELECT topic, partition, life, until_ms, coalesce(CASE
      WHEN next_offset < previous.next_offset THEN NULL
      WHEN previous.is_at_head THEN unix_millis(previous.sample_ts)
      WHEN previous.produced.is_bracketed
        THEN previous.produced.at_ms - previous.produced.error_ms
    END, unix_millis(first_ts)) AS from_ms
  FROM {lag_rows} JOIN known USING (topic, partition, life)
  WHERE lag > 0 AND NOT is_same_record
)
SELECT topic, partition, life, min(from_ms) AS from_ms, until_ms
FROM needs WHERE from_ms < until_ms GROUP BY topic, partition, life, until_ms
