"""Describe and incrementally alter configurations (KIP-133, KIP-226, KIP-339).

Requests about a broker's own settings or loggers are sent to that broker, without
retries: if it is unavailable, they fail. Any broker serves or forwards the others.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVar

from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Progress, Results, api_error, results_of
from coterie.client.cluster import Cluster, Deadline, in_chunks
from coterie.errors import CoterieError
from coterie.wire import messages as m
from coterie.wire.configs import ConfigResourceType, ConfigSource, ConfigType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import VERSION_MAX, Versions


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """A topic or group by name, or a broker by id, that has configurations. The broker
    "" means the defaults of all brokers.
    """

    kind: ConfigResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name or '(default)'}"


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A value of a configuration in one of its sources."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One configuration and its value; `value` is None for a secret."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType = ConfigType.UNKNOWN
    """UNKNOWN before Kafka 2.6."""
    is_read_only: bool = False
    is_sensitive: bool = False
    documentation: str | None = None
    """When requested, from Kafka 2.6 on."""
    synonyms: tuple[ConfigSynonym, ...] = ()
    """When requested; the source with the highest precedence first."""

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source is ConfigSource.DEFAULT


V = TypeVar("V")
Outcomes: TypeAlias = Mapping[ConfigResource, V | CoterieError]
Ask: TypeAlias = Callable[
    [int | None, Collection[ConfigResource]], Awaitable[Outcomes[V]]
]
"""A function that sends one request about resources, to a node or to any broker."""

RESOURCES_PER_REQUEST: Final = 500
_KINDS_OF_A_NODE: Final = {ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER}
_SET: Final = 0
_DELETE: Final = 1
_KINDS_SINCE: Final = 1
"""The first version of ListConfigResources that lists other kinds than client metrics
(KIP-1142)."""


class Configs(Family):
    """Calls about configurations of topics, brokers and groups."""

    async def describe(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Collection[str] | None = None,
        with_synonyms: bool = False,
        with_documentation: bool = False,
        progress: Progress | None = None,
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        """Describe the configurations of topics, brokers or groups, sorted by name;
        None means every name. A group with configurations need not exist (E21-10).

        Raises UnsupportedByBroker for brokers before Kafka 0.11.
        """

        async def ask(
            node_id: int | None, chunk: Collection[ConfigResource]
        ) -> Outcomes[tuple[ConfigEntry, ...]]:
            request = m.DescribeConfigsRequest(
                resources=[
                    m.DescribeConfigsResource(
                        resource_type=each.kind,
                        resource_name=each.name,
                        configuration_keys=None if names is None else list(names),
                    )
                    for each in chunk
                ],
                include_synonyms=with_synonyms,
                include_documentation=with_documentation,
            )
            response = await self._cluster.call(
                request, m.DescribeConfigsResponse, node_id=node_id
            )
            return _by_resource(
                (
                    (each.resource_type, each.resource_name),
                    (each.error_code, each.error_message),
                    tuple(
                        sorted(map(_entry, each.configs), key=lambda entry: entry.name)
                    ),
                )
                for each in response.results
            )

        return await _ask_all(self._cluster, resources, ask, progress)

    async def alter(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[ConfigResource, None]:
        """Alter configurations incrementally (KIP-339); None restores the default.
        Other configurations do not change. The group of a configuration need not exist
        (E21-02).

        Raises UnsupportedByBroker for brokers before Kafka 2.3, which can only replace
        every configuration of a resource.
        """

        async def ask(
            node_id: int | None, chunk: Collection[ConfigResource]
        ) -> Outcomes[None]:
            request = m.IncrementalAlterConfigsRequest(
                resources=[
                    m.IncrementalAlterConfigsResource(
                        resource_type=each.kind,
                        resource_name=each.name,
                        configs=[
                            _change(name, value)
                            for name, value in changes[each].items()
                        ],
                    )
                    for each in chunk
                ],
                validate_only=validate_only,
            )
            response = await self._cluster.call(
                request, m.IncrementalAlterConfigsResponse, node_id=node_id
            )
            return _by_resource(
                (
                    (each.resource_type, each.resource_name),
                    (each.error_code, each.error_message),
                    None,
                )
                for each in response.responses
            )

        return await _ask_all(self._cluster, changes, ask, progress)

    async def list_resources(
        self, kinds: Collection[ConfigResourceType] = ()
    ) -> tuple[ConfigResource, ...]:
        """List the resources that have configurations, of the given kinds or of all,
        sorted. Groups are listed when they have a dynamic configuration (KIP-1142).

        Raises ApiError, and UnsupportedByBroker for brokers before Kafka 4.1.
        """
        request = m.ListConfigResourcesRequest(resource_types=sorted(kinds))
        is_metrics_only = set(kinds) == {ConfigResourceType.CLIENT_METRICS}
        wanted = Versions(0 if is_metrics_only else _KINDS_SINCE, VERSION_MAX)
        response = await self._cluster.retrying(
            lambda: self._cluster.call(
                request, m.ListConfigResourcesResponse, wanted=wanted
            )
        )
        if response.error_code:
            raise api_error(response.error_code, "to list configurations")
        return tuple(
            sorted(
                ConfigResource(
                    ConfigResourceType.read(each.resource_type), each.resource_name
                )
                for each in response.config_resources
            )
        )


class SyncConfigs(SyncFamily[Configs]):
    """The blocking methods of `Configs`."""

    describe = blocking(Configs.describe)
    alter = blocking(Configs.alter)
    list_resources = blocking(Configs.list_resources)


async def _ask_all(
    cluster: Cluster,
    resources: Iterable[ConfigResource],
    ask: Ask[V],
    progress: Progress | None,
) -> Results[ConfigResource, V]:
    """Send requests for broker resources to their brokers, all others to any broker.

    The error of a request to a certain broker becomes the result of its resources; that
    of a request to any broker is raised, after retries if it is retriable.
    """
    wanted = list(dict.fromkeys(resources))
    deadline = Deadline(cluster.options)
    outcomes: dict[ConfigResource, V | CoterieError] = {}
    pending = set(wanted)

    def settle(chunk: Collection[ConfigResource], received: Outcomes[V]) -> None:
        outcomes.update(received)
        pending.difference_update(chunk)
        if progress is not None:
            progress(len(wanted) - len(pending), len(wanted))

    async def ask_node(node_id: int | None, own: list[ConfigResource]) -> None:
        received: Outcomes[V]
        try:
            received = await deadline.limit(partial(ask, node_id, own))
        except CoterieError as error:
            received = dict.fromkeys(own, error)
        settle(own, received)

    by_node: dict[int | None, list[ConfigResource]] = defaultdict(list)
    for each in wanted:
        is_nodes_own = each.kind in _KINDS_OF_A_NODE and each.name.isdecimal()
        by_node[int(each.name) if is_nodes_own else None].append(each)
    for chunk in in_chunks(by_node.pop(None, []), RESOURCES_PER_REQUEST):
        settle(chunk, await cluster.retrying(partial(ask, None, chunk), deadline))
    await asyncio.gather(*(ask_node(*each) for each in by_node.items()))
    return results_of(wanted, outcomes)


def _by_resource(
    received: Iterable[tuple[tuple[int, str], tuple[int, str | None], V]],
) -> dict[ConfigResource, V | CoterieError]:
    """Return the outcome of each resource from its type and name, its code and message,
    and its value."""
    outcomes: dict[ConfigResource, V | CoterieError] = {}
    for (kind, name), (code, message), value in received:
        resource = ConfigResource(ConfigResourceType.read(kind), name)
        refused = code != ErrorCode.NONE
        outcomes[resource] = (
            api_error(code, str(resource), message) if refused else value
        )
    return outcomes


def _change(name: str, value: str | None) -> m.IncrementalAlterableConfig:
    operation = _DELETE if value is None else _SET
    return m.IncrementalAlterableConfig(
        name=name, config_operation=operation, value=value
    )


def _entry(result: m.DescribeConfigsResourceResult) -> ConfigEntry:
    default = ConfigSource.DEFAULT if result.is_default else ConfigSource.UNKNOWN
    source = ConfigSource.read(result.config_source)
    return ConfigEntry(
        name=result.name,
        value=result.value,
        source=source or default,
        type=ConfigType.read(result.config_type),
        is_read_only=result.read_only,
        is_sensitive=result.is_sensitive,
        documentation=result.documentation,
        synonyms=tuple(
            ConfigSynonym(each.name, each.value, ConfigSource.read(each.source))
            for each in result.synonyms
        ),
    )
