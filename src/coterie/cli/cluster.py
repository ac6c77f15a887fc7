"""`coterie cluster`: brokers, features and health of a cluster."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coterie import client
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.output import outcome as out
from coterie.errors import UnsupportedByBroker
from coterie.types import TopicName

_MIN_IN_SYNC: Final = "min.insync.replicas"


def _declare_describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--api-versions",
        action="store_true",
        help="a row for each broker and API with the versions that it serves",
    )


async def describe_cluster(run: Run) -> out.Outcome:
    """Return a row for each broker, or for each of its APIs."""
    cluster = await run.admin.brokers.describe()
    versions = await run.admin.brokers.describe_api_versions(
        node.node_id for node in cluster.nodes
    )
    if run.options.api_versions:
        return _apis_outcome(versions)
    return _brokers_outcome(cluster, versions)


def _brokers_outcome(
    cluster: client.ClusterDescription,
    versions: client.Results[int, client.BrokerVersions],
) -> out.Outcome:
    from coterie.wire.releases import closest_release

    items: list[out.Item] = []
    for node in cluster.nodes:
        served = versions.values.get(node.node_id)
        items.append(
            {
                "node_id": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "controller": node.node_id == cluster.controller_id,
                "release": closest_release(served) if served else None,
                "apis": len(served) if served else None,
                "error": out.error_item(versions.errors.get(node.node_id)),
            }
        )
    controller = cluster.controller_id if cluster.controller_id >= 0 else None
    return out.Outcome(
        schema="coterie.broker",
        columns=(
            out.Column("node_id", "NODE"),
            out.Column("host", "HOST", role=out.Role.IDENTITY),
            out.Column("port", "PORT"),
            out.Column("rack", "RACK"),
            out.Column("controller", "CONTROLLER"),
            out.Column("release", "RELEASE"),
            out.Column("apis", "#APIS", is_wide=True),
            out.Column(
                "error", "ERROR", is_wide=not versions.errors, show=out.show_error
            ),
        ),
        items=tuple(items),
        cluster_id=cluster.cluster_id,
        summary={"brokers": len(items), "controller_id": controller},
        notes=(
            f"cluster {cluster.cluster_id or '(without an id)'}",
            *(f"error: {each}" for each in versions.errors.values()),
        ),
    )


def _apis_outcome(versions: client.Results[int, client.BrokerVersions]) -> out.Outcome:
    from coterie.wire.api import ApiKey

    names = {each.value: each.name for each in ApiKey}
    return out.Outcome(
        schema="coterie.broker.api",
        columns=(
            out.Column("node_id", "NODE"),
            out.Column("api_key", "KEY"),
            out.Column("api", "API", role=out.Role.IDENTITY),
            out.Column("min_version", "MIN-VERSION"),
            out.Column("max_version", "MAX-VERSION"),
        ),
        items=tuple(
            {
                "node_id": node_id,
                "api_key": key,
                "api": names.get(key),
                "min_version": each.low,
                "max_version": each.high,
                "error": None,
            }
            for node_id, served in versions.values.items()
            for key, each in sorted(served.items())
        ),
        failures=tuple(
            out.Failure.of("node", node_id, error)
            for node_id, error in versions.errors.items()
        ),
    )


DESCRIBE: Final = Command(
    description="""\
Describe the brokers of a cluster.

RELEASE is estimated: the Kafka release whose API versions are most like the broker's.
Brokers of other makers have the release that they imitate. CONTROLLER is the broker
that takes requests for the controller; with KRaft every broker can.
""",
    examples="""\
examples:
  coterie cluster describe
      the brokers, their racks and releases
  coterie cluster describe --output json
      for programs
  coterie cluster describe --api-versions
      which versions of which requests each broker serves

exit codes: 0 success, 1 a broker cannot be reached, 2 usage error
""",
    options=(_declare_describe, *CLUSTER_OPTIONS),
    run=on_cluster(describe_cluster),
)


# features


async def list_features(run: Run) -> out.Outcome:
    """Return a row for each feature."""
    features = await run.admin.features.describe()
    items: list[out.Item] = []
    for name in sorted({*features.finalized, *features.supported}):
        supported = features.supported.get(name)
        items.append(
            {
                "feature": name,
                "finalized_level": features.finalized.get(name),
                "min_supported_level": supported.low if supported else None,
                "max_supported_level": supported.high if supported else None,
                "error": None,
            }
        )
    return out.Outcome(
        schema="coterie.cluster.feature",
        columns=(
            out.Column("feature", "FEATURE", role=out.Role.IDENTITY),
            out.Column("finalized_level", "FINALIZED"),
            out.Column("min_supported_level", "MIN-SUPPORTED"),
            out.Column("max_supported_level", "MAX-SUPPORTED"),
        ),
        items=tuple(items),
        summary={"features": len(items), "epoch": features.epoch},
        notes=() if items else ("the cluster has no features",),
    )


FEATURES: Final = Command(
    description="""\
List features with the level that is finalized for the cluster and the levels that a
broker supports (KIP-584).

FINALIZED is in force on every broker, as in metadata.version or group.version; "-" is
off. Brokers before Kafka 2.4 have no features.
""",
    examples="""\
examples:
  coterie cluster features
      the levels, to compare before and after an upgrade
  coterie cluster features --output json
      for programs

exit codes: 0 success, 1 the cluster is unavailable or too old, 2 usage error
""",
    options=CLUSTER_OPTIONS,
    run=on_cluster(list_features),
)


# health


async def check_health(run: Run) -> out.Outcome:
    """Return a row for each problem."""
    cluster = await run.admin.brokers.describe()
    versions = await run.admin.brokers.describe_api_versions(
        node.node_id for node in cluster.nodes
    )
    topics = await run.admin.topics.describe()
    described = list(topics.values.values())
    least, failures, notes = await _min_in_sync(run, described)
    problems = [
        *_broker_problems(cluster, versions, described),
        *_partition_problems(described, least),
    ]
    partitions = sum(len(each.partitions) for each in described)
    brokers = "1 broker" if len(cluster.nodes) == 1 else f"{len(cluster.nodes)} brokers"
    counts = f"{brokers}, {partitions} partitions"
    return out.Outcome(
        schema="coterie.cluster.health",
        columns=(
            out.Column("problem", "PROBLEM", role=out.Role.IDENTITY),
            out.Column("node_id", "NODE"),
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION"),
            out.Column("leader", "LEADER"),
            out.Column("replicas", "REPLICAS"),
            out.Column("in_sync", "IN-SYNC"),
            out.Column("detail", "DETAIL", role=out.Role.TEXT),
        ),
        items=tuple(problems),
        failures=(
            *failures,
            *(
                out.Failure.of("topic", name, error)
                for name, error in sorted(topics.errors.items())
            ),
        ),
        cluster_id=cluster.cluster_id,
        summary={
            "healthy": not problems,
            "brokers": len(cluster.nodes),
            "partitions": partitions,
            "problems": len(problems),
        },
        notes=(*notes, f"{'unhealthy' if problems else 'healthy'}: {counts}"),
    )


def _problem(name: str, detail: str, **more: out.Json) -> out.Item:
    return {
        "problem": name,
        "node_id": None,
        "topic": None,
        "partition": None,
        "leader": None,
        "replicas": None,
        "in_sync": None,
        "detail": detail,
        "error": {"code": name.upper().replace("-", "_"), "message": detail},
        **more,
    }


def _broker_problems(
    cluster: client.ClusterDescription,
    versions: client.Results[int, client.BrokerVersions],
    topics: Sequence[client.TopicDescription],
) -> Iterator[out.Item]:
    """Yield a problem for each broker that is missing or cannot be reached."""
    if cluster.controller_id < 0:
        yield _problem("no-controller", "no broker is the controller")
    for node_id, error in sorted(versions.errors.items()):
        yield _problem("broker-unreachable", str(error), node_id=node_id)
    replicas = {
        node_id
        for topic in topics
        for each in topic.partitions
        for node_id in each.replicas
    }
    for node_id in sorted(replicas - {node.node_id for node in cluster.nodes}):
        yield _problem(
            "broker-missing",
            "it has replicas, and is not part of the cluster now",
            node_id=node_id,
        )


def _partition_problems(
    topics: Sequence[client.TopicDescription], least: Mapping[TopicName, int]
) -> Iterator[out.Item]:
    """Yield the worst problem of each partition."""
    for topic in topics:
        for each in topic.partitions:
            if found := _partition_problem(each, least.get(topic.name)):
                name, detail = found
                yield _problem(
                    name,
                    detail,
                    topic=topic.name,
                    partition=each.partition,
                    leader=each.leader_id if each.leader_id >= 0 else None,
                    replicas=each.replicas,
                    in_sync=each.in_sync,
                )


def _partition_problem(
    partition: client.PartitionDescription, least: int | None
) -> tuple[str, str] | None:
    in_sync = len(partition.in_sync)
    if partition.leader_id < 0:
        return "offline", "no leader: it can be neither read nor written"
    if least is not None and in_sync < least:
        return (
            "under-min-isr",
            f"{in_sync} of {least} required replicas are in sync: producers with "
            "acks=all are refused",
        )
    if in_sync < len(partition.replicas):
        return (
            "under-replicated",
            f"{in_sync} of {len(partition.replicas)} replicas are in sync",
        )
    return None


async def _min_in_sync(
    run: Run, topics: Sequence[client.TopicDescription]
) -> tuple[dict[TopicName, int], Sequence[out.Failure], Sequence[str]]:
    """Return min.insync.replicas of topics, failures, and a note when the brokers are
    too old to describe it."""
    resources = [
        client.ConfigResource(client.ConfigResourceType.TOPIC, topic.name)
        for topic in topics
    ]
    try:
        described = await run.admin.configs.describe(
            resources, names=[_MIN_IN_SYNC], progress=run.progress
        )
    except UnsupportedByBroker as error:
        return {}, (), (f"{_MIN_IN_SYNC} is not checked: {error}",)
    least = {
        resource.name: int(entry.value)
        for resource, entries in described.values.items()
        for entry in entries
        if entry.name == _MIN_IN_SYNC and entry.value
    }
    failures = [
        out.Failure.of("topic", resource.name, error)
        for resource, error in described.errors.items()
    ]
    return least, failures, ()


HEALTH: Final = Command(
    description="""\
Check the health of a cluster: a row for each problem.

PROBLEM is offline (a partition without a leader), under-min-isr (fewer replicas in sync
than min.insync.replicas), under-replicated (some replicas are not in sync),
broker-unreachable, broker-missing (it has replicas) or no-controller. A partition has
one row, with its worst problem.
""",
    examples="""\
examples:
  coterie cluster health
      the problems, if any
  coterie cluster health --output json
      for programs: summary.healthy
  coterie cluster health && ./deploy
      continue only on a healthy cluster

exit codes: 0 healthy, 1 a problem or something that could not be read, 2 usage error
""",
    options=CLUSTER_OPTIONS,
    run=on_cluster(check_health),
)
