"""The names of the exported metrics: those of kafka-lag-exporter, or of kminion.

A metric that the other exporter does not have is named in its style, so that all
metrics of a cluster have one prefix and the same labels. Metrics of the exporter itself
are named `coterie_exporter_...` in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class Family(NamedTuple):
    """A metric: its names and its help text. Names of counters end with _total."""

    lag_exporter: str
    kminion: str
    help: str


_GROUP: Final = "kafka_consumergroup_group_"
_KMINION: Final = "kminion_kafka_consumer_group_"

LOG_START: Final = Family(
    "kafka_partition_earliest_offset",
    "kminion_kafka_topic_partition_low_water_mark",
    "Log start offset of a partition.",
)
LOG_END: Final = Family(
    "kafka_partition_latest_offset",
    "kminion_kafka_topic_partition_high_water_mark",
    "Log end offset of a partition.",
)
OFFSET: Final = Family(
    f"{_GROUP}offset",
    f"{_KMINION}topic_partition_offset",
    "Committed offset of a group.",
)
LAG: Final = Family(
    f"{_GROUP}lag",
    f"{_KMINION}topic_partition_lag",
    "Records that exist and are not committed by a group.",
)
LAG_SECONDS: Final = Family(
    f"{_GROUP}lag_seconds",
    f"{_KMINION}topic_partition_lag_seconds",
    "Age of the first record that a group has not committed.",
)
LAG_SECONDS_ERROR: Final = Family(
    f"{_GROUP}lag_seconds_error",
    f"{_KMINION}topic_partition_lag_seconds_error",
    "Bound of the error of an interpolated lag in seconds; absent when it is exact.",
)
TOPIC_LAG: Final = Family(
    f"{_GROUP}topic_sum_lag",
    f"{_KMINION}topic_lag",
    "Sum of the known lags of a group on a topic.",
)
TOPIC_OFFSET: Final = Family(
    f"{_GROUP}topic_sum_offset",
    f"{_KMINION}topic_offset_sum",
    "Sum of the committed offsets of a group on a topic.",
)
TOPIC_LAG_SECONDS: Final = Family(
    f"{_GROUP}topic_max_lag_seconds",
    f"{_KMINION}topic_max_lag_seconds",
    "Greatest lag in seconds of a group on a topic.",
)
TOPIC_MEMBERS: Final = Family(
    f"{_GROUP}topic_members",
    f"{_KMINION}topic_members",
    "Members of a group with partitions of a topic.",
)
TOPIC_ASSIGNED: Final = Family(
    f"{_GROUP}topic_assigned_partitions",
    f"{_KMINION}topic_assigned_partitions",
    "Partitions of a topic that are assigned to members of a group.",
)
MAX_LAG: Final = Family(
    f"{_GROUP}max_lag",
    f"{_KMINION}max_lag",
    "Greatest known lag of a group on a partition.",
)
SUM_LAG: Final = Family(
    f"{_GROUP}sum_lag", f"{_KMINION}sum_lag", "Sum of the known lags of a group."
)
MAX_LAG_SECONDS: Final = Family(
    f"{_GROUP}max_lag_seconds",
    f"{_KMINION}max_lag_seconds",
    "Greatest lag in seconds of a group on a partition.",
)
METHODS: Final = Family(
    f"{_GROUP}lag_seconds_partitions",
    f"{_KMINION}lag_seconds_partitions",
    "Partitions of a group by the method of their lag in seconds: exact, interpolated "
    "or unknown.",
)
STATUSES: Final = Family(
    f"{_GROUP}partitions",
    f"{_KMINION}partitions",
    "Partitions of a group by the status of their lag: normal, no_commit, below_start, "
    "beyond_end or unknown.",
)
INFO: Final = Family(
    f"{_GROUP}info",
    f"{_KMINION}info",
    "State, type, protocol and coordinator of a group. With kminion's names the value "
    "is 1 for a stable group and 0 for others.",
)
MEMBERS: Final = Family(f"{_GROUP}members", f"{_KMINION}members", "Members of a group.")
EMPTY_MEMBERS: Final = Family(
    f"{_GROUP}empty_members",
    f"{_KMINION}empty_members",
    "Members of a group without partitions.",
)
EPOCH: Final = Family(
    f"{_GROUP}epoch", f"{_KMINION}epoch", "Group epoch of a KIP-848 group."
)
ASSIGNMENT_EPOCH: Final = Family(
    f"{_GROUP}assignment_epoch",
    f"{_KMINION}assignment_epoch",
    "Assignment epoch of a KIP-848 group.",
)
GENERATION: Final = Family(
    f"{_GROUP}generation",
    f"{_KMINION}generation",
    "Generation of a classic group; only Coterie brokers return it.",
)
REBALANCES: Final = Family(
    f"{_GROUP}rebalances_total",
    f"{_KMINION}rebalances_total",
    "Rebalances of a group since its first poll; a lower bound.",
)
POLL_TIME: Final = Family(
    "kafka_consumergroup_poll_time_ms",
    "kminion_kafka_consumer_group_poll_time_ms",
    "Duration of the last successful poll in milliseconds.",
)
FAMILIES: Final = (
    LOG_START,
    LOG_END,
    OFFSET,
    LAG,
    LAG_SECONDS,
    LAG_SECONDS_ERROR,
    TOPIC_LAG,
    TOPIC_OFFSET,
    TOPIC_LAG_SECONDS,
    TOPIC_MEMBERS,
    TOPIC_ASSIGNED,
    MAX_LAG,
    SUM_LAG,
    MAX_LAG_SECONDS,
    METHODS,
    STATUSES,
    INFO,
    MEMBERS,
    EMPTY_MEMBERS,
    EPOCH,
    ASSIGNMENT_EPOCH,
    GENERATION,
    REBALANCES,
    POLL_TIME,
)
"""The metrics of a cluster, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of metrics and of their labels."""

    is_kminion: bool
    group: str
    topic: str
    partition: str

    def of(self, family: Family) -> str:
        """Return the name of a metric."""
        return family.kminion if self.is_kminion else family.lag_exporter


LAG_EXPORTER: Final = Names(False, "group", "topic", "partition")
KMINION: Final = Names(True, "group_id", "topic_name", "partition_id")
NAMES: Final = {"kafka-lag-exporter": LAG_EXPORTER, "kminion": KMINION}
