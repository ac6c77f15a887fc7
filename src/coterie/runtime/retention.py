"""Which batches a topic's retention lets go: the ones too old, then the ones too many.

Kafka drops whole segments; here batches go one by one, from the oldest on.
"""

from __future__ import annotations

from coterie.catalog.topic_configs import TopicSettings
from coterie.log.log import Log
from coterie.runtime.partitions import Partition
from coterie.types import LogOffset


def retained_from(
    log: Log, partition: Partition, settings: TopicSettings, now_ms: int
) -> LogOffset | None:
    """The log start that retention asks for; None to leave it.

    Time is decided by a batch's greatest timestamp, and stops at the first batch young
    enough. Nothing that is not flushed is looked at.
    """
    if not settings.delete:
        return None
    keeps_all_time = settings.retention_ms < 0
    excess_bytes = 0
    if settings.retention_bytes >= 0:
        excess_bytes = log.size_bytes(partition.where) - settings.retention_bytes
    if keeps_all_time and excess_bytes <= 0:
        return None
    oldest_ms = now_ms - settings.retention_ms
    start = None
    for info in log.infos(partition.where, partition.bounds().log_start_offset):
        is_old = not keeps_all_time and info.max_timestamp_ms < oldest_ms
        if not is_old and excess_bytes < info.size_bytes:
            break
        assert start is None or info.base_offset >= start
        excess_bytes -= info.size_bytes
        start = info.last_offset + 1
        assert start <= partition.bounds().flushed_offset
    return start
