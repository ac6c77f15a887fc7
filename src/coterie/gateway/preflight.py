"""Checks of a gateway node before it starts, with errors that say what to do next.

`check_plan` needs no connection. `check_upstream` asks the upstream cluster for what a
node would otherwise fail on later, and reports all missing rights together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from coterie.auth.acl import AclBindingFilter, Operation, PatternType, ResourceType
from coterie.client import AdminClient, ConfigResource, NewTopic, TopicDescription
from coterie.errors import (
    ApiError,
    OperationRefused,
    SettingError,
    UnsupportedByBroker,
    code_of,
)
from coterie.gateway.options import AuthorizerKind, GatewayOptions
from coterie.gateway.overview import check_nodes, find_node
from coterie.gateway.upstream.catalog_feed import METADATA
from coterie.gateway.upstream.produce_requests import PRODUCE
from coterie.gateway.upstream.topic import default_replicas
from coterie.http_endpoint import is_loopback
from coterie.types import PORT_MAX
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType
from coterie.wire.error_codes import ErrorCode

PROTOCOL_TYPE: Final = "coterie"
"""The protocol type of the upstream group whose members are the nodes."""
COMPACTED: Final = {"cleanup.policy": "compact"}
"""The configurations with which the topic of the shards is created."""
_POLICY: Final = "cleanup.policy"
_EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::", "*"})  # noqa: S104
_REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
)


class MissingRight(NamedTuple):
    """An operation that upstream refuses to the node."""

    operation: Operation
    resource: ResourceType
    name: str
    is_prefix: bool = False

    @property
    def command(self) -> str:
        """The options of `coterie acls add` that grant it."""
        word = self.resource.name.lower().replace("_", "-")
        named = word if self.resource is ResourceType.CLUSTER else f"{word} {self.name}"
        prefixed = " --prefixed" if self.is_prefix else ""
        operation = self.operation.name.lower().replace("_", "-")
        return f"--{named}{prefixed} --operation {operation}"


def check_plan(plan: GatewayOptions) -> list[str]:
    """Return warnings about a plan. Raises SettingError for one that cannot work."""
    if plan.advertised_host in _EVERY_ADDRESS:
        raise SettingError(
            f"clients cannot connect to {plan.advertised_host or 'an empty host'}: "
            "name the host that they reach this node by, as in --advertise "
            "gateway-1.example"
        )
    _check_sasl(plan)
    return [*_address_warnings(plan), *_certificate_warnings(plan)]


def _address_warnings(plan: GatewayOptions) -> Iterator[str]:
    advertised = plan.advertised_host
    if is_loopback(advertised) and not is_loopback(plan.host):
        yield (
            f"clients are told to connect to {advertised}, which only those on this "
            "machine can: name the host that others reach, as in --advertise "
            "gateway-1.example"
        )


def _check_sasl(plan: GatewayOptions) -> None:
    """Refuse SASL on one side only: upstream authenticates the clients."""
    listener, upstream = plan.protocol, plan.upstream_protocol
    if upstream.has_sasl and not listener.has_sasl:
        raise SettingError(
            f"upstream authenticates clients ({upstream}) and the listeners would not "
            f"let them ({listener}): use --listen SASL_SSL://HOST:PORT, or "
            "SASL_PLAINTEXT"
        )
    if listener.has_sasl and not upstream.has_sasl:
        raise SettingError(
            f"the listeners expect SASL ({listener}), which upstream would have to "
            f"answer and does not speak ({upstream}): use a listener of upstream with "
            "SASL, or --listen SSL://HOST:PORT or PLAINTEXT"
        )


def _certificate_warnings(plan: GatewayOptions) -> Iterator[str]:
    settings = plan.settings
    if plan.protocol.has_tls and settings.ssl_client_auth != "none":
        yield (
            f"ssl.client.auth={settings.ssl_client_auth}: certificates of clients are "
            "verified here and are not passed on, so upstream does not know these "
            "principals; rights on groups are decided by them, other rights by SASL"
        )
    if plan.client.ssl is not None and not plan.upstream_protocol.has_sasl:
        yield (
            "upstream authenticates by certificate or not at all (SSL): every client "
            "of this gateway has the rights of the gateway's own certificate there; "
            "use an upstream listener with SASL_SSL to keep clients apart"
        )


# Upstream.


async def check_upstream(plan: GatewayOptions, admin: AdminClient) -> list[str]:
    """Return warnings about the upstream cluster.

    Raises OperationRefused with every missing right, SettingError for settings that do
    not fit the cluster, UnsupportedByBroker for one before Kafka 3.1, and ClientError
    when it cannot be reached.
    """
    cluster = await admin.brokers.describe()  # tries again until there is a broker
    await _check_release(admin)
    check_nodes(node.node_id for node in cluster.nodes)
    brokers = len(cluster.nodes)
    if (plan.advertised_port or 0) + brokers > PORT_MAX:
        raise SettingError(
            f"--advertise leaves no ports after {plan.advertised_port} for the "
            f"{brokers} brokers of upstream: use {PORT_MAX - brokers} or less"
        )
    missing: list[MissingRight] = []
    warnings = [
        *await _check_topic(plan, admin, brokers, missing),
        *await _check_authorizer(plan, admin, missing),
    ]
    await _check_group(plan, admin, missing)
    await _check_transactional_ids(plan, admin, missing)
    if missing:
        raise OperationRefused(_describe(plan, missing))
    return warnings


async def _check_release(admin: AdminClient) -> None:
    connection = await admin.cluster.connection()
    try:
        connection.version_of(m.MetadataRequest, METADATA)
        connection.version_of(m.ProduceRequest, PRODUCE)
        connection.version_of(m.DescribeProducersRequest)
    except UnsupportedByBroker as error:
        raise UnsupportedByBroker(
            "upstream is older than Kafka 3.1, or has not all of its requests, which "
            f"the gateway needs: {error}"
        ) from None


def _describe(plan: GatewayOptions, missing: list[MissingRight]) -> str:
    user = getattr(plan.client.sasl, "username", "NAME")
    lines = "".join(
        f"\n  coterie acls add --principal User:{user} {each.command} --execute"
        for each in missing
    )
    return (
        "upstream refuses operations that the gateway needs; grant them to its "
        f"principal as an administrator:{lines}"
    )


async def _check_topic(
    plan: GatewayOptions, admin: AdminClient, brokers: int, missing: list[MissingRight]
) -> list[str]:
    # Before the topic exists too: its first node must not be the last one that starts.
    await _check_policy(plan, admin, missing)
    described = await admin.topics.describe([plan.topic])
    topic = described.values.get(plan.topic)
    if topic is not None:
        replicas = min(len(each.replicas) for each in topic.partitions)
        return [*_count_warnings(plan, topic), *replica_warnings(replicas, brokers)]
    error = described.errors[plan.topic]
    if code_of(error) in _REFUSALS:
        # A refused Describe is answered like a refused Read or Write, which include it.
        missing += [
            MissingRight(operation, ResourceType.TOPIC, plan.topic)
            for operation in (Operation.READ, Operation.WRITE, Operation.CREATE)
        ]
        return []
    factor = plan.replication_factor
    replicas = factor if factor > 0 else default_replicas(brokers)
    await _check_creation(plan, admin, replicas, missing)
    return list(replica_warnings(replicas, brokers))


def _count_warnings(plan: GatewayOptions, topic: TopicDescription) -> Iterator[str]:
    count = len(topic.partitions)
    if count != plan.partition_count:
        yield (
            f"topic {plan.topic} has {count} partitions, so there are {count} shards; "
            f"--partitions {plan.partition_count} has no effect on an existing gateway"
        )


def replica_warnings(replicas: int, brokers: int) -> Iterator[str]:
    """Yield a warning about a topic of one replica in a larger cluster."""
    if replicas == 1 and brokers > 1:
        yield (
            "the topic of the gateway has one replica: while a broker is down, its "
            "shards serve no groups, and with its disk their offsets are lost; a new "
            "gateway has 3 with --replication-factor 3, an existing one by a "
            "reassignment of its partitions (kafka-reassign-partitions.sh)"
        )


async def _check_creation(
    plan: GatewayOptions, admin: AdminClient, replicas: int, missing: list[MissingRight]
) -> None:
    new = NewTopic(plan.topic, plan.partition_count, replicas, COMPACTED)
    created = await admin.topics.create([new], validate_only=True)
    error = created.errors.get(plan.topic)
    if error is None or code_of(error) is ErrorCode.TOPIC_ALREADY_EXISTS:
        return
    if code_of(error) in _REFUSALS:
        missing.append(MissingRight(Operation.CREATE, ResourceType.TOPIC, plan.topic))
    elif code_of(error) is ErrorCode.INVALID_REPLICATION_FACTOR:
        raise SettingError(
            f"upstream cannot create {plan.topic}: {error}; use --replication-factor "
            "with at most the number of upstream's brokers"
        )
    else:
        raise SettingError(f"upstream cannot create {plan.topic}: {error}")


async def _check_policy(
    plan: GatewayOptions, admin: AdminClient, missing: list[MissingRight]
) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, plan.topic)
    described = await admin.configs.describe([resource], names=[_POLICY])
    for entry in described.values.get(resource, ()):
        if entry.name == _POLICY and entry.value != COMPACTED[_POLICY]:
            raise SettingError(
                f"topic {plan.topic} has {_POLICY}={entry.value}, which deletes "
                f"committed offsets: coterie topics configs set {plan.topic} "
                f"--config {_POLICY}=compact --execute --bootstrap-server "
                f"{plan.bootstrap}"
            )
    if code_of(described.errors.get(resource)) in _REFUSALS:
        missing.append(
            MissingRight(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, plan.topic)
        )


async def _check_group(
    plan: GatewayOptions, admin: AdminClient, missing: list[MissingRight]
) -> None:
    described = await admin.groups.describe([plan.group_id], with_operations=True)
    right = MissingRight(Operation.READ, ResourceType.GROUP, plan.group_id)
    group = described.values.get(plan.group_id)
    if group is None:
        if code_of(described.errors[plan.group_id]) in _REFUSALS:
            missing.append(right)
        return
    if group.members and group.protocol_type != PROTOCOL_TYPE:
        raise SettingError(
            f"upstream's group {plan.group_id} belongs to another application "
            f"(protocol type {group.protocol_type!r}): choose another --name"
        )
    operations = group.authorized_operations
    if operations is not None and Operation.READ not in operations:
        missing.append(right)
    elif group.members:
        await _check_node(plan, admin)


async def _check_transactional_ids(
    plan: GatewayOptions, admin: AdminClient, missing: list[MissingRight]
) -> None:
    """Check the rights on the ids that fence the shards. A description needs Describe,
    which Write includes; Write itself is not checked: it fences a shard."""
    transactional_id = plan.transactional_id(0)
    described = await admin.transactions.describe([transactional_id])
    error = described.errors.get(transactional_id)
    if error is None or code_of(error) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return
    if code_of(error) is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        raise error
    kind, prefix = ResourceType.TRANSACTIONAL_ID, plan.transactional_id_prefix
    missing.append(MissingRight(Operation.WRITE, kind, prefix, is_prefix=True))


async def _check_node(plan: GatewayOptions, admin: AdminClient) -> None:
    """Refuse the name of a node that runs: it would end when this one joins."""
    node = await find_node(admin, plan.name, plan.node)
    status = node and node.status
    if node is None or not status or status["stopping"]:
        return
    if status["node"] == plan.node:
        raise OperationRefused(
            f"node {plan.node} of gateway {plan.name} runs at {node.info.host}:"
            f"{node.info.port}: give this one a name of its own with --node, or stop "
            "that one first"
        )


async def _check_authorizer(
    plan: GatewayOptions, admin: AdminClient, missing: list[MissingRight]
) -> list[str]:
    if plan.authorizer is not AuthorizerKind.UPSTREAM:
        return []
    some = AclBindingFilter(
        ResourceType.GROUP, plan.group_id, PatternType.LITERAL, operation=Operation.READ
    )
    try:
        await admin.acls.describe(some)
    except UnsupportedByBroker:
        raise SettingError(
            "upstream has no ACL APIs, so its rights on groups cannot be read: use "
            "--authorizer own to decide here, or --authorizer none to allow everything"
        ) from None
    except ApiError as error:
        if code_of(error) in _REFUSALS:
            missing.append(MissingRight(Operation.DESCRIBE, ResourceType.CLUSTER, ""))
        elif error.code is ErrorCode.SECURITY_DISABLED:
            return [
                "upstream has no authorizer: every principal may use every group, as "
                "without the gateway"
            ]
        else:
            raise
    return []
