"""Every API that takes a list does linear work: requests of 100,000 items.

The requests are made from the declared fields, so that a new API is tested too: for
each list of a request, 100,000 distinct items and 100,000 equal ones, and 100,000 items
of which thousands of ACL bindings refuse all but the first. The response must be that
of 100 items, with more of the same results. Quadratic work takes minutes here, and the
time limit of a test stops it.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from coterie.auth.acl import (
    AclBinding,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.server.dispatch import HANDLERS
from coterie.settings import Settings
from coterie.wire.api import ApiKey, api_of
from coterie.wire.commit import CommitResponse
from coterie.wire.configs import ConfigResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Struct, Versions
from tests.broker.server.apis.in_process_server import InProcessServer

pytestmark = pytest.mark.slow

FEW, MANY = 100, 100_000
WAIT_S = 100.0
ADMIN, ALICE = Principal("User", "admin"), Principal("User", "alice")
BINDINGS = 3_000

GIVEN: dict[str, Any] = {
    "topic": "t",
    "protocol_type": "consumer",
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "resource_type": ConfigResourceType.GROUP,
    "resource_pattern_type": PatternType.LITERAL,
    "pattern_type_filter": PatternType.LITERAL,
    "permission_type": PermissionType.ALLOW,
    "operation": Operation.READ,
    "principal": "User:bob",
    "host": "*",
    "acks": -1,
    "max_bytes": 1 << 20,
    "producer_id": 5,
    "producer_epoch": 0,
    "transactional_id": "producer",
    "response_partition_limit": 2_000,
    "member_id": "member",
    "allow_auto_topic_creation": False,
}
"""The values of fields by name; the others have their defaults."""
GIVEN_OF: dict[tuple[str, str], Any] = {
    ("AclCreation", "resource_type"): ResourceType.TOPIC,
    ("AclCreation", "resource_name"): "n",
    ("DeleteAclsFilter", "resource_type_filter"): ResourceType.TOPIC,
    ("JoinGroupRequest", "member_id"): "",
}


@dataclass(frozen=True)
class Case:
    """A list of a request, by the names of the fields that lead to it."""

    request: type[Message]
    path: tuple[str, ...]
    version: int

    def __str__(self) -> str:
        name = self.request.__name__.removesuffix("Request")
        return ".".join((name, *self.path, f"v{self.version}"))

    @property
    def has_names(self) -> bool:
        """Whether the items are topics, groups or other resources by name."""
        kind: Any = self.request
        for name in self.path:
            kind = kind.FIELDS[name].element
        names = {"name", "topic", "resource_name"} & {*getattr(kind, "FIELDS", ())}
        return kind == "string" or any(
            self.version in kind.FIELDS[name].versions for name in names
        )

    def build(self, count: int, topic_id: bytes, *, equal: bool) -> Message:
        """Return a request whose list has `count` items."""
        made = self._struct(self.request, self.path, count, topic_id, equal)
        assert isinstance(made, Message)
        return made

    def _struct(
        self,
        kind: type[Struct],
        path: tuple[str, ...],
        count: int,
        topic_id: bytes,
        equal: bool,
    ) -> Struct:
        """Return a struct on the way to the list: a topic is topic t."""
        values = self._scalars(kind)
        if "name" in values:
            values["name"] = "t"
        if "topic_id" in values:
            values["topic_id"] = topic_id
        if "group_id" in values:
            values["group_id"] = f"group-of-{self}-{count}-{equal}"
        name, *rest = path
        element = kind.FIELDS[name].element
        if rest:
            assert isinstance(element, type)
            values[name] = [self._struct(element, tuple(rest), count, topic_id, equal)]
        elif equal:
            values[name] = self._items(element, 1) * count
        else:
            values[name] = self._items(element, count)
        return kind(**values)

    def _items(self, element: Any, count: int) -> list[Any]:
        """Return items that differ in their text, ids and indexes."""
        if element == "string":
            return [f"item-{at}" for at in range(count)]
        if element == "uuid":
            return [at.to_bytes(16) for at in range(count)]
        if not isinstance(element, type):
            return list(range(count))
        kind: type[Struct] = element
        values = self._scalars(kind)
        for name, field in kind.FIELDS.items():
            if field.kind == "array" and self.version in field.versions:
                values[name] = self._items(field.element, 1)
        texts, ids, indexes = (
            [name for name in values if self._varies(kind, name) == varying]
            for varying in ("string", "uuid", "int32")
        )
        items = []
        for at in range(count):
            values |= dict.fromkeys(texts, f"item-{at}")
            values |= dict.fromkeys(ids, at.to_bytes(16))
            values |= dict.fromkeys(indexes, at)
            items.append(kind(**values))
        return items

    def _scalars(self, kind: type[Struct]) -> dict[str, Any]:
        """Return the values of the fields that are not lists."""
        values = {}
        for name, field in kind.FIELDS.items():
            if field.kind == "array" or self.version not in field.versions:
                continue
            default = GIVEN.get(name, field.default)
            values[name] = GIVEN_OF.get((kind.__name__, name), default)
            if field.kind == "struct" and field.default is not None:
                assert isinstance(field.element, type)
                values[name] = field.element()
        return values

    @staticmethod
    def _varies(kind: type[Struct], name: str) -> str | None:
        """Return the kind of a field if the field differs in each item."""
        field = kind.FIELDS[name].kind
        if name in GIVEN and name not in {"member_id", "topic"}:
            return None
        if field == "int32" and "partition" not in name and "index" not in name:
            return None
        return field


def _lists(
    request: type[Message],
    kind: type[Struct],
    versions: Versions,
    path: tuple[str, ...] = (),
) -> Iterator[Case]:
    for name, field in kind.FIELDS.items():
        low = max(versions.low, field.versions.low)
        high = min(versions.high, field.versions.high)
        if field.kind != "array" or low > high:
            continue
        yield Case(request, (*path, name), high)
        by_id = getattr(field.element, "FIELDS", {}).get("topic_id")
        if by_id is not None and low < by_id.versions.low <= high:
            # Older versions have the topic's name.
            yield Case(request, (*path, name), by_id.versions.low - 1)
        if isinstance(field.element, type):
            yield from _lists(
                request, field.element, Versions(low, high), (*path, name)
            )


CASES = [
    case
    for key in HANDLERS
    for request in [api_of(ApiKey(key)).request]
    for case in _lists(request, request, request.VERSIONS)
]


def _add_thousands_of_bindings(acls: AclAuthorizer) -> None:
    """Add bindings of every pattern for the same principal."""
    for at in range(BINDINGS):
        pattern, name, host = [
            (PatternType.LITERAL, "*", f"10.1.{at // 250}.{at % 250}"),
            (PatternType.PREFIXED, "item-" + "x" * (at % 200 + 1), f"host-{at}"),
            (PatternType.LITERAL, f"other-{at}", "*"),
        ][at % 3]
        for kind in (ResourceType.TOPIC, ResourceType.GROUP):
            _add_binding(acls, kind, name, pattern, host=host)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP):
        _add_binding(acls, kind, "item-0")
    _add_binding(acls, ResourceType.GROUP, "group-of-", PatternType.PREFIXED)
    _add_binding(acls, ResourceType.CLUSTER, "kafka-cluster")
    _add_binding(acls, ResourceType.TRANSACTIONAL_ID, "*")


def _add_binding(
    acls: AclAuthorizer,
    resource_type: ResourceType,
    name: str,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> None:
    binding = AclBinding(
        principal=ALICE,
        permission=PermissionType.ALLOW,
        operation=Operation.ALL,
        resource_type=resource_type,
        name=name,
        pattern=pattern,
        host=host,
    )
    acls.replay(binding.key, binding.to_value())


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[InProcessServer]:
    """A server whose authorizer allows all, or has many ACL bindings."""
    acls = AclAuthorizer([ADMIN])
    settings = Settings(message_max_bytes=100_000_000)
    with InProcessServer(settings=settings, authorizer=acls, principal=ADMIN) as made:
        if request.param == "acls":
            _add_thousands_of_bindings(acls)
            made.principal = ALICE
        yield made


def _results(response: Struct) -> Counter[object]:
    """Count the items of a response's lists and the error codes, at any depth."""
    counts: Counter[object] = Counter()
    waiting: list[Struct] = [response]
    for value in waiting:
        lists, errors = _counted_fields(type(value))
        for name in errors:
            counts[getattr(value, name)] += 1
        for name in lists:
            items = getattr(value, name)
            if isinstance(items, list) and items:
                counts[name] += len(items)
                if isinstance(items[0], Struct):
                    waiting += items
    return counts


@cache
def _counted_fields(kind: type[Struct]) -> tuple[list[str], list[str]]:
    fields = kind.FIELDS
    return (
        [name for name in fields if fields[name].kind == "array"],
        [name for name in fields if name.endswith("error_code")],
    )


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """Disable the garbage collector: it scans all items of a request again and
    again."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("server", ["allowed"], indirect=True)
@pytest.mark.parametrize("equal", [False, True], ids=["distinct", "equal"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_100_000_items_have_the_results_of_100(
    server: InProcessServer, case: Case, equal: bool
) -> None:
    few, many = (_call(server, case, count, equal=equal) for count in (FEW, MANY))
    _check_same_results(few, many)


@pytest.mark.parametrize("server", ["acls"], indirect=True)
@pytest.mark.parametrize("case", [case for case in CASES if case.has_names], ids=str)
def test_100_000_items_are_authorized_in_linear_work(
    server: InProcessServer, case: Case
) -> None:
    few, many = (_call(server, case, count, equal=False) for count in (FEW, MANY))
    _check_same_results(few, many)


def _check_same_results(few: Counter[object], many: Counter[object]) -> None:
    if ErrorCode.POLICY_VIOLATION in many:
        # The request is over a limit, which changes the errors but not their number.
        assert (many.total() - few.total()) % (MANY - FEW) == 0
        return
    if ErrorCode.INVALID_REQUEST in many.keys() - few.keys():
        return  # many repeated partitions are refused together (OffsetFetch)
    # A described share group and its partition have a code each.
    for name in few.keys() | many.keys():
        more = many[name] - few[name]
        assert more in {0, MANY - FEW, 2 * (MANY - FEW)}, (few, many)


def _call(
    server: InProcessServer, case: Case, count: int, *, equal: bool
) -> Counter[object]:
    """Return the counted results of a request with `count` items."""
    request = case.build(count, server.topic_id("t"), equal=equal)
    answered = server.handle(request, case.version)
    waiting = asyncio.wait_for(answered, WAIT_S)
    response = server.loop.run_until_complete(waiting)
    if isinstance(response, CommitResponse):
        response = response.message()
    assert response is not None
    return _results(response)
