-- looks_like: the group of which this one's name is probably a typo. That group has
-- members while this one has none, or it has more commits. Two names are similar when
-- removing at most one character from each makes them equal: one character was added,
-- removed or replaced, or two were swapped. Names that differ only in numbers are
-- siblings. Names shorter than six characters are similar by chance too often.
CREATE VIEW similar_names AS
WITH variants AS (
  -- All names with one character removed, and the name itself. Joining on these finds
  -- similar names without comparing every pair of groups.
  SELECT group_id, member_count, coalesce(commits, 0) AS commits,
    explode(array_distinct(concat(array(group_id), transform(
      sequence(1, length(group_id)),
      i -> concat(substring(group_id, 1, i - 1),
        substring(group_id, i + 1, length(group_id))))))) AS variant
  FROM {current_groups} LEFT JOIN {active_pauses} USING (group_id)
  WHERE length(group_id) >= 6
)
SELECT this.group_id, min(struct(levenshtein(this.group_id, other.group_id) AS distance,
  -other.commits AS fewer, other.group_id)).group_id AS looks_like
FROM variants AS this JOIN variants AS other USING (variant)
WHERE this.member_count = 0 AND (other.member_count > 0 OR this.commits < other.commits)
  AND regexp_replace(this.group_id, '[0-9]+', '0')
    <> regexp_replace(other.group_id, '[0-9]+', '0')
GROUP BY this.group_id
