"""Configurations, described and changed one by one (KIP-133, KIP-226, KIP-339).

What is a broker's own (its settings, its loggers) is asked of that broker, once: that
it is down is the answer. Everything else any broker tells, or passes on.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias, TypeVar

from coterie.client.admin.bulk import in_chunks
from coterie.client.admin.config_values import (
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
)
from coterie.client.admin.deadline import Deadline
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results, results_of
from coterie.client.cluster import Cluster
from coterie.errors import CoterieError
from coterie.wire.config_kinds import ConfigSource, ConfigType, ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from coterie.wire.schema import VERSION_MAX, Versions

V = TypeVar("V")
Outcomes: TypeAlias = Mapping[ConfigResource, V | CoterieError]
Ask: TypeAlias = Callable[
    [int | None, Collection[ConfigResource]], Awaitable[Outcomes[V]]
]
"""Asks a node, or any, about resources."""

RESOURCES_PER_REQUEST: Final = 500
_OF_A_NODE: Final = {ResourceKind.BROKER, ResourceKind.BROKER_LOGGER}
_SET: Final = 0
_DELETE: Final = 1
_KINDS_SINCE: Final = 1
"""ListConfigResources knows of more than metrics since this version (KIP-1142)."""


async def describe_configs(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    *,
    names: Collection[str] | None = None,
    with_synonyms: bool = False,
    with_documentation: bool = False,
    progress: Progress | None = None,
) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
    """The configurations of each resource, those of some `names` or all, sorted.

    A group needs not exist to have some (E21-10). Raises UnsupportedByBroker for
    brokers before Kafka 0.11.
    """

    async def ask(
        node_id: int | None, some: Collection[ConfigResource]
    ) -> Outcomes[tuple[ConfigEntry, ...]]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=each.kind,
                    resource_name=each.name,
                    configuration_keys=None if names is None else list(names),
                )
                for each in some
            ],
            include_synonyms=with_synonyms,
            include_documentation=with_documentation,
        )
        answer = await cluster.call(request, DescribeConfigsResponse, node_id=node_id)
        return _by_resource(
            (
                (each.resource_type, each.resource_name),
                (each.error_code, each.error_message),
                tuple(sorted(map(_entry, each.configs), key=lambda entry: entry.name)),
            )
            for each in answer.results
        )

    return await _ask_all(cluster, resources, ask, progress)


async def alter_configs(
    cluster: Cluster,
    changes: Mapping[ConfigResource, Mapping[str, str | None]],
    *,
    validate_only: bool = False,
    progress: Progress | None = None,
) -> Results[ConfigResource, None]:
    """Set configurations of resources, and with None go back to their defaults; what is
    not named stays as it is. A group needs not exist (E21-02).

    Raises UnsupportedByBroker for brokers before Kafka 2.3, which can only replace all
    that a resource has set.
    """

    async def ask(
        node_id: int | None, some: Collection[ConfigResource]
    ) -> Outcomes[None]:
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=each.kind,
                    resource_name=each.name,
                    configs=[
                        _change(name, value) for name, value in changes[each].items()
                    ],
                )
                for each in some
            ],
            validate_only=validate_only,
        )
        answer = await cluster.call(
            request, IncrementalAlterConfigsResponse, node_id=node_id
        )
        return _by_resource(
            (
                (each.resource_type, each.resource_name),
                (each.error_code, each.error_message),
                None,
            )
            for each in answer.responses
        )

    return await _ask_all(cluster, changes, ask, progress)


async def list_config_resources(
    cluster: Cluster, kinds: Collection[ResourceKind] = ()
) -> tuple[ConfigResource, ...]:
    """What has configurations of its own, of some kinds or of all, sorted. Of groups
    these are the ones that have set something, whether they exist or not.

    Raises UnsupportedByBroker for brokers before Kafka 4.1, ApiError for a refusal.
    """
    request = ListConfigResourcesRequest(resource_types=sorted(kinds))
    is_old = set(kinds) == {ResourceKind.CLIENT_METRICS}
    wanted = Versions(0 if is_old else _KINDS_SINCE, VERSION_MAX)
    answer = await Deadline(cluster).retrying(
        lambda: cluster.call(request, ListConfigResourcesResponse, wanted=wanted)
    )
    if answer.error_code:
        raise refusal(answer.error_code, "to list configurations")
    return tuple(
        sorted(
            ConfigResource(ResourceKind.read(each.resource_type), each.resource_name)
            for each in answer.config_resources
        )
    )


# Who is asked, and what becomes of it.


async def _ask_all(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    ask: Ask[V],
    progress: Progress | None,
) -> Results[ConfigResource, V]:
    """Raises what happens when any broker would do and none does."""
    wanted = list(dict.fromkeys(resources))
    deadline = Deadline(cluster)
    outcomes: dict[ConfigResource, V | CoterieError] = {}
    open_ones = set(wanted)

    def settle(some: Collection[ConfigResource], said: Outcomes[V]) -> None:
        outcomes.update(said)
        open_ones.difference_update(some)
        if progress is not None:
            progress(len(wanted) - len(open_ones), len(wanted))

    async def ask_node(node_id: int | None, its_own: list[ConfigResource]) -> None:
        said: Outcomes[V]
        try:
            said = await deadline.limit(partial(ask, node_id, its_own))
        except CoterieError as error:
            said = dict.fromkeys(its_own, error)
        settle(its_own, said)

    by_node = _by_node(wanted)
    for some in in_chunks(by_node.pop(None, []), RESOURCES_PER_REQUEST):
        settle(some, await deadline.retrying(partial(ask, None, some)))
    await asyncio.gather(*(ask_node(*each) for each in by_node.items()))
    return results_of(wanted, outcomes)


def _by_node(
    resources: Iterable[ConfigResource],
) -> dict[int | None, list[ConfigResource]]:
    """Resources by the node that must be asked; None: by any."""
    by_node: dict[int | None, list[ConfigResource]] = defaultdict(list)
    for each in resources:
        is_nodes_own = each.kind in _OF_A_NODE and each.name.isdecimal()
        by_node[int(each.name) if is_nodes_own else None].append(each)
    return by_node


def _by_resource(
    answered: Iterable[tuple[tuple[int, str], tuple[int, str | None], V]],
) -> dict[ConfigResource, V | CoterieError]:
    """Outcomes from type and name, code and message, and the value of each."""
    outcomes: dict[ConfigResource, V | CoterieError] = {}
    for (kind, name), (code, message), value in answered:
        resource = ConfigResource(ResourceKind.read(kind), name)
        refused = code != ErrorCode.NONE
        outcomes[resource] = refusal(code, str(resource), message) if refused else value
    return outcomes


def _change(name: str, value: str | None) -> AlterableConfig:
    operation = _DELETE if value is None else _SET
    return AlterableConfig(name=name, config_operation=operation, value=value)


def _entry(said: DescribeConfigsResourceResult) -> ConfigEntry:
    default = ConfigSource.DEFAULT if said.is_default else ConfigSource.UNKNOWN
    source = ConfigSource.read(said.config_source)
    return ConfigEntry(
        name=said.name,
        value=said.value,
        source=source or default,
        type=ConfigType.read(said.config_type),
        is_read_only=said.read_only,
        is_sensitive=said.is_sensitive,
        documentation=said.documentation,
        synonyms=tuple(
            ConfigSynonym(each.name, each.value, ConfigSource.read(each.source))
            for each in said.synonyms
        ),
    )
