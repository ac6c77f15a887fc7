"""The audit log: one line for each administrative write, with its result.

A line names the principal, the client, the API, the resources and the result codes, and
never a value that may be secret. It is logged with the response, so after the write is
durable. Its size is bounded. Lines that a client can cause without limit are limited:
those of requests that were refused as a whole, and those of consumers that commit
offsets without being members, which are logged once a minute for each group and client.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.auth.acl import Operation, PatternType, PermissionType, ResourceType
from coterie.broker.runtime.structured_log import log_event
from coterie.broker.server.call import Call, Handler, ObservedCall
from coterie.broker.server.log_limit import LogLimit
from coterie.types import ScramMechanism
from coterie.wire.api import ApiKey
from coterie.wire.commit import CommitResponse
from coterie.wire.error_codes import ErrorCode

LOGGER: Final = logging.getLogger("coterie.audit")

NAMES_MAX: Final = 20
"""The largest number of resources that a line names."""
_SLICE_ITEMS: Final = 256
STANDALONE_INTERVAL_S: Final = 60.0
STANDALONE_MAX: Final = 1_000
"""The largest number of groups and clients that are remembered."""
_ADMIN_REASON: Final = "member was removed by an admin"
"""The start of the reason that Java's admin client sends by default."""


class Item(NamedTuple):
    """One resource of a request, and the result code."""

    name: str
    code: int


Items: TypeAlias = Callable[[Any, Any], Iterable[Item]]
"""A function of a request and its response."""


class Audited(NamedTuple):
    """The audit of an API: its items, and the requests that are administrative."""

    items: Items
    is_administrative: Callable[[Any], bool]
    is_standalone: bool = False
    """Whether clients send the request in their ordinary work too."""


class AuditLog:
    """The audit log of a server."""

    def __init__(self) -> None:
        self._refused = LogLimit()
        self._standalone: OrderedDict[tuple[str, ...], LogLimit] = OrderedDict()

    def wrap(self, handlers: Mapping[int, Handler]) -> Mapping[int, Handler]:
        """Return the handlers, those of administrative APIs with the audit."""
        wrapped = dict(handlers)
        for key, audited in AUDITED.items():
            wrapped[key] = self._wrap_one(key, handlers[key], audited)
        return wrapped

    def _wrap_one(self, key: ApiKey, handler: Handler, audited: Audited) -> Handler:
        def handle(call: Call) -> None:
            if not audited.is_administrative(call.request):
                handler(call)
                return
            handler(ObservedCall(call, lambda response: log(call, response)))

        def log(call: Call, response: Any) -> Iterator[None] | None:
            suppressed = self._limit_of(call).admit() if audited.is_standalone else 0
            if suppressed is None:
                return None
            return log_in_slices(call, response, suppressed)

        def log_in_slices(call: Call, response: Any, suppressed: int) -> Iterator[None]:
            try:
                yield from self._log(key, call, response, audited, suppressed)
            except Exception:  # the request is done: respond nevertheless
                LOGGER.exception("a bug in the audit of API %s", key.title)

        return handle

    def _log(
        self,
        key: ApiKey,
        call: Call,
        response: Any,
        audited: Audited,
        suppressed: int | None,
    ) -> Iterator[None]:
        """Log the line of a request; yield between slices of the work."""
        items = iter(audited.items(call.request, response))
        first = list(islice(items, NAMES_MAX))
        codes = Counter(item.code for item in first)
        while part := [item.code for item in islice(items, _SLICE_ITEMS)]:
            codes.update(part)
            yield
        if not codes[ErrorCode.NONE] and not audited.is_standalone:
            suppressed = self._refused.admit()
            if suppressed is None:
                return
        node = call.node
        log_event(
            LOGGER,
            "audit",
            {
                "api": key.title,
                "version": call.api_version,
                "principal": str(call.principal),
                "client_host": call.client_host.removeprefix("/"),
                "client_id": call.client_id,
                "listener": f"{node.protocol}://{node.host}:{node.port}",
                "group": getattr(call.request, "group_id", None),
                "resources": [item.name for item in first],
                "count": codes.total(),
                "results": [f"{_code(code)}:{n}" for code, n in codes.most_common()],
                "failed": [f"{name}:{_code(code)}" for name, code in first if code]
                or None,
                "suppressed": suppressed or None,
            },
        )

    def _limit_of(self, call: Call) -> LogLimit:
        key = (
            call.request.group_id,
            str(call.principal),
            call.client_id,
            call.client_host,
        )
        limit = self._standalone.get(key)
        if limit is None:
            limit = self._standalone[key] = LogLimit(STANDALONE_INTERVAL_S)
            if len(self._standalone) > STANDALONE_MAX:
                self._standalone.popitem(last=False)
        self._standalone.move_to_end(key)
        return limit


def _code(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


# The items of each API. Names are in the order of the response, except where the
# response does not name them.


def _named(attribute: str) -> Items:
    def items(_: Any, response: Any) -> Iterator[Item]:
        for each in getattr(response, attribute):
            name = each.name or getattr(each, "topic_id", b"").hex()
            yield Item(name, each.error_code)

    return items


def _configs(request: Any, response: Any) -> Iterator[Item]:
    keys = {
        (each.resource_type, each.resource_name): each.configs
        for each in request.resources
    }
    for each in response.responses:
        configs = keys.get((each.resource_type, each.resource_name), ())
        names = "+".join(config.name for config in islice(configs, NAMES_MAX))
        kind = _name_of_config_resource(each.resource_type)
        yield Item(f"{kind}:{each.resource_name}({names})", each.error_code)


def _name_of_config_resource(number: int) -> str:
    return {2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 32: "GROUP"}.get(
        number, str(number)
    )


def _created_acls(request: Any, response: Any) -> Iterator[Item]:
    for acl, result in zip(request.creations, response.results, strict=False):
        yield Item(
            _acl(acl, acl.resource_name, acl.resource_pattern_type), result.error_code
        )


def _deleted_acls(_: Any, response: Any) -> Iterator[Item]:
    for result in response.filter_results:
        if result.error_code:
            yield Item("filter", result.error_code)
        for acl in result.matching_acls:
            yield Item(_acl(acl, acl.resource_name, acl.pattern_type), acl.error_code)


def _acl(acl: Any, name: str, pattern: int) -> str:
    return (
        f"{_word(PermissionType, acl.permission_type)}:{acl.principal}@{acl.host}:"
        f"{_word(Operation, acl.operation)}:{_word(ResourceType, acl.resource_type)}:"
        f"{_word(PatternType, pattern)}:{name}"
    )


def _word(kind: Any, number: int) -> str:
    try:
        return str(kind(number).name)
    except ValueError:
        return str(number)


def _scram(request: Any, response: Any) -> Iterator[Item]:
    changes: dict[str, list[str]] = {}
    for verb, group in (("delete", request.deletions), ("set", request.upsertions)):
        for each in group:
            mechanism = _word(ScramMechanism, each.mechanism)
            changes.setdefault(each.name, []).append(f"{verb}-{mechanism}")
    for each in response.results:
        words = "+".join(changes.get(each.user, ())[:NAMES_MAX])
        yield Item(f"User:{each.user}({words})", each.error_code)


def _quotas(request: Any, response: Any) -> Iterator[Item]:
    for entry, result in zip(request.entries, response.entries, strict=False):
        entity = "+".join(
            f"{each.entity_type}:{each.entity_name or '<default>'}"
            for each in entry.entity[:NAMES_MAX]
        )
        keys = "+".join(
            f"{each.key}:removed" if each.remove else f"{each.key}:{each.value:g}"
            for each in entry.ops[:NAMES_MAX]
        )
        yield Item(f"{entity}({keys})", result.error_code)


def _groups(_: Any, response: Any) -> Iterator[Item]:
    for each in response.results:
        yield Item(each.group_id, each.error_code)


def _partitions(_: Any, response: Any) -> Iterator[Item]:
    error_code = getattr(response, "error_code", 0)
    if error_code:
        yield Item("all", error_code)
    for topic in response.topics:
        name = topic.name or getattr(topic, "topic_id", b"").hex()
        for each in topic.partitions:
            yield Item(f"{name}-{each.partition_index}", each.error_code)


def _commits(_: Any, response: CommitResponse) -> Iterator[Item]:
    for name, topic_id, partitions, codes in response.topics:
        topic = name or topic_id.hex()
        for partition, code in zip_longest(partitions, codes, fillvalue=0):
            yield Item(f"{topic}-{partition}", code)


def _members(_: Any, response: Any) -> Iterator[Item]:
    if response.error_code:
        yield Item("all", response.error_code)
    for each in response.members:
        yield Item(each.group_instance_id or each.member_id, each.error_code)


# The requests that are administrative.


def _always(_: Any) -> bool:
    return True


def _is_write(request: Any) -> bool:
    return not request.validate_only


def _is_removal(request: Any) -> bool:
    """Return whether an admin client removes members.

    A member leaves for itself alone, and a static one does not leave at all.
    """
    members = request.members
    return len(members) > 1 or any(
        each.group_instance_id is not None
        or (each.reason or "").startswith(_ADMIN_REASON)
        for each in members
    )


def _is_no_member(request: Any) -> bool:
    return not request.member_id and request.generation_id_or_member_epoch < 0


AUDITED: Final[Mapping[ApiKey, Audited]] = {
    ApiKey.CREATE_TOPICS: Audited(_named("topics"), _is_write),
    ApiKey.DELETE_TOPICS: Audited(_named("responses"), _always),
    ApiKey.CREATE_PARTITIONS: Audited(_named("results"), _is_write),
    ApiKey.ALTER_CONFIGS: Audited(_configs, _is_write),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Audited(_configs, _is_write),
    ApiKey.CREATE_ACLS: Audited(_created_acls, _always),
    ApiKey.DELETE_ACLS: Audited(_deleted_acls, _always),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Audited(_scram, _always),
    ApiKey.ALTER_CLIENT_QUOTAS: Audited(_quotas, _is_write),
    ApiKey.DELETE_GROUPS: Audited(_groups, _always),
    ApiKey.DELETE_RECORDS: Audited(_partitions, _always),
    ApiKey.OFFSET_DELETE: Audited(_partitions, _always),
    ApiKey.LEAVE_GROUP: Audited(_members, _is_removal),
    ApiKey.OFFSET_COMMIT: Audited(_commits, _is_no_member, is_standalone=True),
}
