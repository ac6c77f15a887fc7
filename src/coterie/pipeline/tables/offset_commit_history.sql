-- Which offsets did each group commit, when, and by which actor?
--
-- A row is final when it is written: it depends only on earlier records and on its own
-- batch. New rows are appended, and existing ones never change. A commit of a negative
-- offset is no committed offset: the partition has none after it, as after a tombstone.
--
-- The log does not record which member made a commit. It does record which member owned
-- the partition then, and whether the group had members.
--
-- It does not record why a tombstone was written either. The first rule that fits
-- decides; deleted_offsets revises the cause unknown when later records or samples show
-- more:
--
--   unknown          the commit before it is not in the log, so the age of the offset
--                    is unknown
--   expired          the offset was older than the retention time, by Kafka's rules
--                    (E17-18)
--   group_deleted    tombstones of the group itself are in the same batch (E22-29)
--   topic_deleted    offsets of the topic are deleted for two groups in one batch, or
--                    the partition had an owner, for which Kafka rejects a deletion
--   offsets_deleted  other offsets of the group on that topic remain
--   unknown          none of these: the topic or its offsets were deleted
--
-- Commits, tombstones, owners, group sizes and gaps become rows of one table. It is
-- partitioned by log partition once, and each look-up of earlier records is one window
-- over it; rows that later windows do not need are dropped after each step.
CREATE TABLE offset_commit_history (
  group_id string NOT NULL,  -- ID of the group
  topic string NOT NULL,  -- name of the topic
  partition int NOT NULL,  -- partition of the topic
  topic_id string,  -- ID of the topic as 32 hex digits; null when unknown
  log_partition int NOT NULL,  -- partition of __consumer_offsets
  log_offset bigint NOT NULL,  -- offset of the record in its log partition
  committed_offset bigint,  -- committed offset; null for a tombstone and a commit of a
    -- negative offset
  prev_offset bigint,  -- previously committed offset; null for the first commit and
    -- after a tombstone
  delta bigint,  -- committed_offset minus prev_offset
  direction string NOT NULL,  -- first, forward, same, rewind, no_offset (a commit of a
    -- negative offset) or tombstone
  commit_ts timestamp,  -- commit time (coordinator's clock); a tombstone's append_ts
  append_ts timestamp,  -- timestamp of the record
  gap_ms bigint,  -- time since the previous commit on this partition
  leader_epoch int,  -- leader epoch of the last consumed record
  metadata string,  -- metadata string of the commit
  expire_ts timestamp,  -- explicit expiration time of the commit
  is_transactional boolean NOT NULL,  -- true for a transactional commit
  actor string,  -- most likely committer, because the log does not record it: owner (a
    -- member owned the partition), member (no member owned it, but the group had
    -- members), admin (the group was empty), simple (the group never had members); null
    -- for a tombstone
  owner_member_id string,  -- member ID of the owner at this log offset
  owner_client_id string,  -- client.id of the owner
  owner_host string,  -- host of the owner's client
  tombstone_cause string,  -- expired, offsets_deleted, group_deleted, topic_deleted,
    -- unknown; by the records up to the tombstone (deleted_offsets: by later ones too)
  is_lower_bound boolean NOT NULL,  -- true when a log gap lies between this record and
    -- the previous commit
  PRIMARY KEY (log_partition, log_offset)
) WITH (day_of = append_ts, merge = append) AS
WITH new_tombstones AS (
  SELECT *,
    max(record_type IN (2, 3)) OVER (PARTITION BY log_partition, base_offset, group_id)
      AS with_group
  FROM {new_tombstones}
), names AS (
  SELECT topic_id, max(topic) AS name
  FROM {new_offset_commits} WHERE topic_id IS NOT NULL GROUP BY topic_id
), new_commits AS (
  SELECT *, if(committed_offset < 0, NULL, committed_offset) AS known_offset
  FROM {new_offset_commits}
), records AS (
  -- record: a new commit or tombstone. offset: what later rows compare with.
  SELECT log_partition, log_offset, base_offset, group_id, topic, partition,
    struct(topic_id, known_offset AS committed_offset, leader_epoch, metadata,
      commit_ts, expire_ts, append_ts, is_transactional,
      boolean(NULL) AS with_group, boolean(NULL) AS with_others) AS record,
    struct(log_offset, known_offset AS committed_offset, commit_ts, expire_ts)
      AS offset,
    NULL AS owner, NULL AS size, NULL AS gap
  FROM new_commits
  UNION ALL
  -- Tombstones: whether their batch also deletes the group, and another group's offsets
  -- of the topic.
  SELECT log_partition, log_offset, base_offset, group_id, topic, partition,
    struct(string(NULL) AS topic_id, bigint(NULL) AS committed_offset,
      int(NULL) AS leader_epoch, string(NULL) AS metadata, append_ts AS commit_ts,
      timestamp(NULL) AS expire_ts, append_ts, false AS is_transactional, with_group,
      min(group_id) OVER same_topic <> max(group_id) OVER same_topic AS with_others),
    struct(log_offset, bigint(NULL) AS committed_offset, append_ts AS commit_ts,
      timestamp(NULL) AS expire_ts),
    NULL, NULL, NULL
  FROM new_tombstones WHERE topic IS NOT NULL
  WINDOW same_topic AS (PARTITION BY log_partition, base_offset, topic)
  UNION ALL
  SELECT log_partition, log_offset, log_offset, group_id, topic, partition, NULL,
    struct(log_offset, committed_offset, commit_ts, expire_ts), NULL, NULL, NULL
  FROM {old_current_offsets}
  UNION ALL
  -- The start of each ownership interval. A missing topic name is taken from the
  -- commits.
  SELECT log_partition, from_log_offset, NULL, group_id, coalesce(topic, name),
    partition, NULL, NULL, struct(to_log_offset, member_id, client_id, client_host,
      topic_id, topic IS NULL AS is_by_id), NULL, NULL
  FROM {partition_ownership_history} LEFT JOIN names USING (topic_id)
  WHERE coalesce(topic, name) IS NOT NULL
  UNION ALL
  SELECT log_partition, log_offset, NULL, group_id, NULL, NULL, NULL, NULL, NULL,
    struct(kind, members, state_ts), NULL
  FROM {group_sizes}
  UNION ALL
  SELECT log_partition, from_offset, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    from_offset
  FROM {log_gaps}
), with_gap AS (
  SELECT * EXCEPT (gap), last(gap, true) OVER (PARTITION BY log_partition
    ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS gap
  FROM records
), with_size AS (
  SELECT * EXCEPT (size), last(size, true) OVER (PARTITION BY log_partition, group_id
    ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS size
  FROM with_gap WHERE offset IS NOT NULL OR owner IS NOT NULL OR size IS NOT NULL
), with_earlier AS (
  SELECT * EXCEPT (owner),
    last(owner, true) OVER (PARTITION BY log_partition, group_id, topic, partition
      ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS owner,
    last(offset, true) OVER (PARTITION BY log_partition, group_id, topic, partition
      ORDER BY log_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prev
  FROM with_size WHERE offset IS NOT NULL OR owner IS NOT NULL
), with_live AS (
  -- live: the partitions of the topic with a committed offset after the batch.
  SELECT *,
    prev.committed_offset IS NULL AS is_first,
    sum(int(offset.committed_offset IS NOT NULL)
      - int(prev.committed_offset IS NOT NULL))
      OVER (PARTITION BY log_partition, group_id, topic ORDER BY base_offset
        RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS live
  FROM with_earlier WHERE offset IS NOT NULL
), with_owner AS (
  -- The last owner counts only while it still owns the partition, and only if its topic
  -- has this ID: an earlier topic may have had the same name.
  SELECT * EXCEPT (record, owner), record.*,
    record.with_group IS NOT NULL AS is_tombstone,
    if((owner.to_log_offset IS NULL OR log_offset < owner.to_log_offset)
        AND coalesce(record.topic_id = owner.topic_id, NOT owner.is_by_id),
      owner, NULL) AS owner
  FROM with_live WHERE record IS NOT NULL
), with_age AS (
  -- Kafka does not expire offsets on subscribed topics. A partition with an owner is
  -- subscribed.
  SELECT *, coalesce(if(prev.expire_ts IS NOT NULL, append_ts >= prev.expire_ts,
      owner.member_id IS NULL AND unix_millis(append_ts) - unix_millis(
        if(size.kind = 'classic' AND size.members = 0,
          coalesce(size.state_ts, prev.commit_ts), prev.commit_ts)) >= :retention_ms),
    false) AS is_expired
  FROM with_owner
)
SELECT *,
  prev.committed_offset AS prev_offset,
  committed_offset - prev.committed_offset AS delta,
  if(is_first, NULL, unix_millis(commit_ts) - unix_millis(prev.commit_ts)) AS gap_ms,
  owner.member_id AS owner_member_id,
  owner.client_id AS owner_client_id,
  owner.client_host AS owner_host,
  coalesce(gap > if(is_first, -1, prev.log_offset), false) AS is_lower_bound,
  CASE
    WHEN is_tombstone THEN 'tombstone'
    WHEN committed_offset IS NULL THEN 'no_offset'
    WHEN is_first THEN 'first'
    WHEN committed_offset > prev.committed_offset THEN 'forward'
    WHEN committed_offset < prev.committed_offset THEN 'rewind'
    ELSE 'same'
  END AS direction,
  CASE
    WHEN is_tombstone THEN NULL
    WHEN owner.member_id IS NOT NULL THEN 'owner'
    WHEN size.members > 0 THEN 'member'
    WHEN size.kind IS NOT NULL THEN 'admin'
    ELSE 'simple'
  END AS actor,
  CASE
    WHEN NOT is_tombstone THEN NULL
    WHEN is_first THEN 'unknown'
    WHEN is_expired THEN 'expired'
    WHEN with_group THEN 'group_deleted'
    WHEN with_others OR owner.member_id IS NOT NULL THEN 'topic_deleted'
    WHEN live > 0 THEN 'offsets_deleted'
    ELSE 'unknown'
  END AS tombstone_cause
FROM with_age
