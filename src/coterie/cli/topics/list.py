"""`coterie topics list` and `coterie topics describe`."""

from __future__ import annotations

import argparse
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Final

from coterie import client
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.output import outcome as out
from coterie.cli.topics.selection import (
    add_topic_options,
    check_topic_options,
    choose_topics,
)
from coterie.errors import UnsupportedByBroker
from coterie.types import TopicName, TopicPartition

_KIB: Final = 1024


def _declare_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size",
        action="store_true",
        help="the size of each topic on the disks of its leaders: one more request to "
        "each broker",
    )


async def list_topics(run: Run) -> out.Outcome:
    """Return a row for each selected topic."""
    chosen = await choose_topics(run)
    sizes: Mapping[TopicName, int | None] = {}
    failures = chosen.failures
    if run.options.size:
        sizes, node_failures = await _leader_sizes(run, chosen.topics)
        failures = (*failures, *node_failures)
    return out.Outcome(
        schema="coterie.topic",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partitions", "#PARTITIONS"),
            out.Column("replication_factor", "#REPLICAS", drop=2),
            out.Column("under_replicated", "UNDER-REPLICATED", drop=3),
            out.Column(
                "size_bytes", "SIZE", is_wide=not run.options.size, show=show_bytes
            ),
            out.Column(
                "internal", "INTERNAL", is_wide=not run.options.internal, drop=1
            ),
            out.Column("topic_id", "TOPIC-ID", is_wide=True),
            out.Column("error", "ERROR", is_wide=True, show=out.show_error),
        ),
        items=tuple(_topic_item(each, sizes) for each in chosen.topics),
        failures=failures,
        summary={"topics": len(chosen.topics)},
    )


def _topic_item(
    topic: client.TopicDescription, sizes: Mapping[TopicName, int | None]
) -> out.Item:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "under_replicated": sum(1 for each in topic.partitions if _lacks(each)),
        "size_bytes": sizes.get(topic.name),
        "internal": topic.is_internal,
        "topic_id": _uuid_text(topic),
        "error": None,
    }


def _lacks(partition: client.PartitionDescription) -> bool:
    """Return whether some replicas of a partition are not in sync."""
    return len(partition.in_sync) < len(partition.replicas)


def _replication_factor(topic: client.TopicDescription) -> int:
    return max((len(each.replicas) for each in topic.partitions), default=0)


def _uuid_text(topic: client.TopicDescription) -> str | None:
    """Return a topic id as Kafka's tools print it: URL-safe base64 without padding."""
    if topic.topic_id is None:
        return None
    return urlsafe_b64encode(topic.topic_id).decode().rstrip("=")


def show_bytes(value: out.Json) -> str:
    """Format a size: 900 B, 1.5 MiB."""
    if not isinstance(value, int):
        return "-"
    size, units = float(value), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= _KIB and len(units) > 1:
        size /= _KIB
        units.pop(0)
    return f"{value} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


async def _leader_sizes(
    run: Run, topics: Sequence[client.TopicDescription]
) -> tuple[dict[TopicName, int | None], tuple[out.Failure, ...]]:
    """Return the size of each topic on its leaders, None when a leader's is unknown,
    and the failures of nodes."""
    described = await run.admin.brokers.describe_log_dirs()
    replicas = {
        (node_id, partition): size
        for node_id, dirs in described.values.items()
        for each in dirs
        for partition, size in each.sizes.items()
    }
    sizes: dict[TopicName, int | None] = {}
    for topic in topics:
        known = [
            replicas.get((each.leader_id, TopicPartition(topic.name, each.partition)))
            for each in topic.partitions
        ]
        whole = [each for each in known if each is not None]
        sizes[topic.name] = sum(whole) if len(whole) == len(known) else None
    failures = [
        *(
            out.Failure.of("node", node_id, error)
            for node_id, error in sorted(described.errors.items())
        ),
        *(
            out.Failure.of("node", node_id, each.error)
            for node_id, dirs in sorted(described.values.items())
            for each in dirs
            if each.error
        ),
    ]
    return sizes, tuple(failures)


LIST: Final = Command(
    description="""\
List topics with their partitions and replicas.

Internal topics are hidden unless they are named or --internal is used.
""",
    examples="""\
examples:
  coterie topics list
      every topic
  coterie topics list --glob 'orders-*' --size
      some topics, with their size on disk
  coterie topics list --internal --output json
      internal topics too, for programs

exit codes: 0 success, 1 a topic does not exist or something could not be read, 2 usage
error
""",
    options=(add_topic_options, _declare_size, *CLUSTER_OPTIONS),
    run=on_cluster(list_topics),
)


async def describe_topics(run: Run) -> out.Outcome:
    """Return a row for each partition; the topics and their configurations are notes,
    and `topics` in the JSON document."""
    chosen = await choose_topics(run)
    partitions = [key for each in chosen.topics for key in each.all_partitions]
    starts = await run.admin.logs.list_offsets(
        dict.fromkeys(partitions, client.EARLIEST), progress=run.progress
    )
    ends = await run.admin.logs.list_offsets(
        dict.fromkeys(partitions, client.LATEST), progress=run.progress
    )
    resources = {
        each.name: client.ConfigResource(client.ConfigResourceType.TOPIC, each.name)
        for each in chosen.topics
    }
    configs: client.Results[client.ConfigResource, tuple[client.ConfigEntry, ...]] = (
        client.Results()
    )
    notes: list[str] = []
    try:
        configs = await run.admin.configs.describe(resources.values())
    except UnsupportedByBroker as error:
        notes.append(f"configurations are unknown: {error}")
    described = tuple(
        _description_item(each, configs.values.get(resources[each.name]))
        for each in chosen.topics
    )
    return out.Outcome(
        schema="coterie.topic.partition",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
            out.Column("leader", "LEADER", drop=4),
            out.Column("replicas", "REPLICAS"),
            out.Column("in_sync", "IN-SYNC"),
            out.Column("log_start_offset", "LOG-START-OFFSET", drop=2),
            out.Column("log_end_offset", "LOG-END-OFFSET"),
            out.Column("records", "#RECORDS", drop=1),
            out.Column("error", "ERROR", is_wide=True, show=out.show_error),
        ),
        items=tuple(
            _partition_item(key, each, starts, ends)
            for topic in chosen.topics
            for key, each in zip(topic.all_partitions, topic.partitions, strict=True)
        ),
        failures=(
            *chosen.failures,
            *(
                out.Failure.of("topic", resource.name, error)
                for resource, error in configs.errors.items()
            ),
        ),
        summary={"topics": len(chosen.topics)},
        context={"topics": described},
        notes=(*map(_description_note, described), *notes),
    )


def _partition_item(
    key: TopicPartition,
    partition: client.PartitionDescription,
    starts: client.Results[TopicPartition, client.LogOffsetInfo],
    ends: client.Results[TopicPartition, client.LogOffsetInfo],
) -> out.Item:
    start, end = starts.values.get(key), ends.values.get(key)
    return {
        "topic": key.topic,
        "partition": key.partition,
        "leader": partition.leader_id if partition.leader_id >= 0 else None,
        "replicas": partition.replicas,
        "in_sync": partition.in_sync,
        "log_start_offset": start.offset if start else None,
        "log_end_offset": end.offset if end else None,
        "records": end.offset - start.offset if start and end else None,
        "error": out.error_item(starts.errors.get(key) or ends.errors.get(key)),
    }


def _description_item(
    topic: client.TopicDescription, configs: Sequence[client.ConfigEntry] | None
) -> dict[str, out.Json]:
    return {
        "topic": topic.name,
        "topic_id": _uuid_text(topic),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "configs": None
        if configs is None
        else [
            {
                "name": each.name,
                "value": each.value,
                "source": each.source.name.lower(),
            }
            for each in configs
            if not each.is_default
        ],
    }


def _description_note(described: Mapping[str, out.Json]) -> str:
    """Return a topic, its numbers and the configurations that differ from the
    default."""
    configs = described["configs"]
    known = configs if isinstance(configs, list) else []
    texts = [
        f"{each['name']}={'(hidden)' if each['value'] is None else each['value']}"
        + ("" if each["source"] == "dynamic_topic" else f" ({each['source']})")
        for each in known
    ]
    none = "unknown" if configs is None else "defaults"
    numbers = (
        f"partitions={described['partitions']} "
        f"replication-factor={described['replication_factor']}"
    )
    return f"{described['topic']}: {numbers} configs: {' '.join(texts) or none}"


def run_describe(options: argparse.Namespace) -> int:
    """Describe the selected topics. Raises SettingError when none is named."""
    check_topic_options(options)
    return on_cluster(describe_topics)(options)


DESCRIBE: Final = Command(
    description="""\
Describe the partitions of topics: leaders, replicas and offsets.

A line for each topic on stderr, and `topics` in JSON, has the configurations that
differ from Kafka's defaults, with the source of those not set on the topic itself.
#RECORDS is the difference of the two offsets; compaction and transactions make the
number of records smaller.
""",
    examples="""\
examples:
  coterie topics describe orders
      one topic
  coterie topics describe --glob 'orders-*' --output json
      several topics, for programs
  coterie topics describe __consumer_offsets
      an internal topic

exit codes: 0 success, 1 a topic does not exist or something could not be read, 2 usage
error
""",
    options=(add_topic_options, *CLUSTER_OPTIONS),
    run=run_describe,
)
