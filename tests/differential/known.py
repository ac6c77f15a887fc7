"""Differences from Kafka that stay, each with its reason.

Those that random requests reach have a matcher. `python -m tests.differential.page`
writes docs/differences-from-kafka.md from this list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.differential.classic import MISLEADING
from tests.differential.generate import TIMED_MS
from tests.differential.play import Found
from tests.differential.servers import ADMIN
from tests.differential.steps import Ref, Step

_COMMITS: Final = {ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT}
_JOINS: Final = {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT}

Matcher = Callable[[Found, Sequence[Step]], bool]
"""Whether a difference is an instance, given the steps until then."""


class Known(NamedTuple):
    """A difference that stays: the situation, both answers, the reason, a matcher.

    `is_final` says that the servers' states differ from then on: the sequence ends.
    """

    situation: str
    kafka: str
    coterie: str
    reason: str
    matches: Matcher | None = None
    is_final: bool = True


def _is_repeated(found: Found, _: Sequence[Step]) -> bool:
    if found.step.api is ApiKey.DESCRIBE_GROUPS:
        names = found.request.groups
    elif found.step.api is ApiKey.CONSUMER_GROUP_DESCRIBE:
        names = found.request.group_ids
    else:
        return False
    return len(set(names)) < len(names)


def _is_abandoned(found: Found, steps: Sequence[Step]) -> bool:
    if found.difference != ("answer", "nothing", "response"):
        return False
    response = found.responses[1]
    if response.error_code in {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }:
        return True
    return any(
        isinstance(step.request.member_id, Ref)
        and step.request.member_id.of != step.actor
        for step in _joins(found, steps)
    )


def _names_topic_twice(found: Found, _: Sequence[Step]) -> bool:
    if found.step.user == ADMIN or found.step.api not in _COMMITS:
        return False
    names = [(topic.name, topic.topic_id) for topic in found.request.topics]
    return found.difference.path == ".topics" and len(set(names)) < len(names)


def _is_resolved_later(found: Found, steps: Sequence[Step]) -> bool:
    has_regex = any(
        getattr(step.request, "subscribed_topic_regex", None) is not None
        for step in steps
    )
    path = found.difference.path
    epochs = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH)
    is_epoch = path.endswith("epoch") or found.difference.kafka in epochs
    return has_regex and (is_epoch or "assignment" in path)


def _owns_after_removal(found: Found, steps: Sequence[Step]) -> bool:
    if found.step.api is not ApiKey.JOIN_GROUP:
        return False
    errors = (found.difference.kafka, found.difference.coterie)
    is_mixed = ApiKey.CONSUMER_GROUP_HEARTBEAT in {step.api for step in steps}
    return is_mixed and errors == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


def _needs_new_ids(found: Found, _: Sequence[Step]) -> bool:
    is_loading = found.difference.kafka == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return found.step.api is ApiKey.INIT_PRODUCER_ID and is_loading


def _is_tie(found: Found, _: Sequence[Step]) -> bool:
    return found.difference.kind == ".groups.assignor_name"


def _joins_without_topics(found: Found, steps: Sequence[Step]) -> bool:
    is_assignment = "assignment" in found.difference.path
    return is_assignment and any(
        step.api is ApiKey.CONSUMER_GROUP_HEARTBEAT
        and step.request.member_epoch == 0
        and step.request.subscribed_topic_names == []
        for step in steps
    )


def _joins(found: Found, steps: Sequence[Step]) -> Sequence[Step]:
    """Return the JoinGroup requests that may have led to a difference."""
    return [each for each in steps if each.api is ApiKey.JOIN_GROUP]


def _is_misleading(found: Found, steps: Sequence[Step]) -> bool:
    return any(
        protocol.metadata in MISLEADING
        for step in _joins(found, steps)
        for protocol in step.request.protocols
    )


def _has_protocol_twice(found: Found, steps: Sequence[Step]) -> bool:
    return any(
        len({protocol.name for protocol in step.request.protocols})
        < len(step.request.protocols)
        for step in _joins(found, steps)
    )


def _has_no_time(found: Found, _: Sequence[Step]) -> bool:
    is_topics = found.step.api in {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS}
    return is_topics and found.step.request.timeout_ms <= 0


def _follows_removal(found: Found, steps: Sequence[Step]) -> bool:
    is_leader = found.difference.kind in {".leader", ".members"}
    if found.step.api is not ApiKey.JOIN_GROUP or not is_leader:
        return False
    return any(
        step.api is ApiKey.LEAVE_GROUP
        or getattr(step.request, "rebalance_timeout_ms", 0) == TIMED_MS
        for step in steps
    )


def _is_unknown_operation(found: Found, _: Sequence[Step]) -> bool:
    if found.step.api is not ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return False
    return (found.difference.kafka, found.difference.coterie) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_REQUEST,
    )


def _joins_again(found: Found) -> bool:
    """Return whether the request is a heartbeat that joins with an instance id."""
    if found.step.api is not ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return False
    return found.request.instance_id is not None and found.request.member_epoch == 0


def _becomes_static(found: Found, _: Sequence[Step]) -> bool:
    return _joins_again(found) and found.difference.coterie == ErrorCode.INVALID_REQUEST


def _returns_by_its_id(found: Found, _: Sequence[Step]) -> bool:
    error = found.difference.kafka
    return _joins_again(found) and error == ErrorCode.UNRELEASED_INSTANCE_ID


def _fails_in_kafka(found: Found, steps: Sequence[Step]) -> bool:
    fails = found.difference.kafka == ErrorCode.UNKNOWN_SERVER_ERROR
    return fails and _joins_again(found) and bool(_joins(found, steps))


def _is_uniform(found: Found, steps: Sequence[Step]) -> bool:
    return "assignment" in found.difference.path and any(
        getattr(step.request, "server_assignor", None) == "uniform" for step in steps
    )


def _is_upgrade(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether a heartbeat to a group of classic members differs in its epoch, or
    fails in Kafka."""
    if found.step.api is not ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return False
    has_failed = found.difference.kafka == ErrorCode.UNKNOWN_SERVER_ERROR
    is_epoch = found.difference.kind == ".member_epoch"
    return bool(_joins(found, steps)) and (has_failed or is_epoch)


def _is_downgrade(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether a static member may have made a consumer group a classic one."""
    if len({step.api for step in steps} & _JOINS) < len(_JOINS):
        return False
    leads = found.step.api is ApiKey.JOIN_GROUP and found.difference.kind in {
        ".leader",
        ".members",
        ".protocol_name",
        ".skip_assignment",
    }
    state = found.difference.kind.endswith(".group_state")
    return leads or (state and found.difference.kafka == "Stable")


def _is_early_rebalance(found: Found, _: Sequence[Step]) -> bool:
    errors = (found.difference.kafka, found.difference.coterie)
    is_heartbeat = found.step.api is ApiKey.HEARTBEAT
    return is_heartbeat and errors == (0, ErrorCode.REBALANCE_IN_PROGRESS)


def _is_failed_upgrade(found: Found, steps: Sequence[Step]) -> bool:
    if found.difference != ("answer", "response", "nothing"):
        return False
    failed = found.responses[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    return failed and ApiKey.CONSUMER_GROUP_HEARTBEAT in {step.api for step in steps}


def _is_permuted(found: Found, steps: Sequence[Step]) -> bool:
    """Return whether members of a group of both protocols have each other's parts."""
    is_mixed = len({step.api for step in steps} & _JOINS) == len(_JOINS)
    if not is_mixed or "assignment" not in found.difference.path:
        return False
    if found.step.api is not ApiKey.CONSUMER_GROUP_DESCRIBE:
        return True
    kafka, coterie = (_parts(response) for response in found.responses)
    return kafka == coterie


def _parts(response: Any) -> list[str]:
    """Return which partitions are together in described groups."""
    return sorted(
        repr((group["group_id"], topic))
        for group in response["groups"]
        for member in group["members"]
        for topic in member["target_assignment"]["topic_partitions"]
    )


def _has_only_epoch(found: Found, _: Sequence[Step]) -> bool:
    if found.step.api is not ApiKey.OFFSET_FETCH or found.difference.kafka != -1:
        return False
    return any(
        group.member_id is None and group.member_epoch >= 0
        for group in found.request.groups
    )


def _is_lost(found: Found, steps: Sequence[Step]) -> bool:
    not_found = found.difference.kafka == ErrorCode.GROUP_ID_NOT_FOUND
    is_missing = not_found or found.step.api is ApiKey.LIST_GROUPS
    return is_missing and bool(_joins(found, steps))


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        "DescribeGroups or ConsumerGroupDescribe names a group twice",
        "described each time",
        "described once",
        "A small request could make a response of any size.",
        _is_repeated,
        is_final=False,
    ),
    Known(
        "JoinGroup or SyncGroup of a member whose earlier one waits on another "
        "connection; LeaveGroup of a member whose SyncGroup waits",
        "the waiting request is never answered",
        "it gets 27 (25 after LeaveGroup)",
        "Kafka's fault: it drops the response.",
        _is_abandoned,
    ),
    Known(
        "JoinGroup whose subscription has a list longer than its bytes",
        "-1, or no answer where it is in a timer",
        "0; the member's topics are unknown",
        "Kafka's fault: it expects another exception.",
        _is_misleading,
    ),
    Known(
        "JoinGroup with a protocol name twice",
        "no answer, or -1",
        "0",
        "Kafka's fault: it counts the member twice.",
        _has_protocol_twice,
    ),
    Known(
        "JoinGroup with an unknown member id to a consumer group without members",
        "25, and the group is lost until the next start",
        "25",
        "Kafka's fault: it removes the group from memory without a record.",
        _is_lost,
    ),
    Known(
        "commit that names a topic twice and is refused for the group's sake",
        "the topic twice",
        "once",
        "As in other responses with errors.",
        _names_topic_twice,
        is_final=False,
    ),
    Known(
        "consumer group whose members prefer two assignors equally often",
        "one of them by its hash",
        "the one that the broker lists first",
        "The choice can be configured.",
        _is_tie,
    ),
    Known(
        "JoinGroup with an unknown member id and owned partitions, to a consumer group",
        "0: a new member",
        "25",
        "The member was removed; its partitions may have another owner already.",
        _owns_after_removal,
    ),
    Known(
        "OffsetFetch with a member epoch and a null member id",
        "-1",
        "25",
        "Kafka's fault: it looks up a null id.",
        _has_only_epoch,
        is_final=False,
    ),
    Known(
        "leader of a classic group after its leader was removed",
        "any member",
        "the member that joined first",
        "Kafka takes the first of a hash table of random member ids.",
        _follows_removal,
    ),
    Known(
        "IncrementalAlterConfigs with an unknown operation",
        "-1",
        "42",
        "Kafka's fault: it throws while it decodes the operation.",
        _is_unknown_operation,
        is_final=False,
    ),
    Known(
        "heartbeat at epoch 0 of a member that joined without an instance id and has "
        "one now",
        "0, and it is static",
        "42",
        "Kafka's fault: the member gets an empty target and keeps its old index.",
        _becomes_static,
    ),
    Known(
        "heartbeat at epoch 0 of a static member with its own member id",
        "111",
        "0",
        "Kafka's fault: a member that missed the first response cannot join.",
        _returns_by_its_id,
    ),
    Known(
        "static member of the consumer protocol takes the place of a classic one whose "
        "JoinGroup waits",
        "-1",
        "0",
        "Kafka's fault: it converts a member without a protocol.",
        _fails_in_kafka,
    ),
    Known(
        "which partitions and which remainder a member gets of the assignor uniform",
        "depends on hashes of ids",
        "depends on the order of ids",
        "Every balanced and sticky assignment is right. Means of 60 random groups with "
        "different subscriptions (`tests/differential/balance.py`): spread 1.92 in "
        "Kafka and 1.93 in Coterie; partitions that move needlessly when a member "
        "leaves 0.57 and 0.53, when it joins again 0.28 and 0.25.",
        _is_uniform,
    ),
    Known(
        "which partitions each member gets in a group with classic members",
        "depends on their random ids",
        "depends on their random ids",
        "Assignors sort members by their ids.",
        _is_permuted,
    ),
    Known(
        "first group epoch of a new consumer group",
        "2",
        "1",
        "As Kafka 4.2 and before; clients do not depend on it. The comparison takes "
        "a constant shift for equal.",
    ),
    Known(
        "static classic member that has not synced becomes a member of the consumer "
        "protocol with the same topics",
        "nothing assigned until the next bump",
        "assigned at once",
        "Kafka's fault: its partitions stay unread.",
    ),
    Known(
        "join without topics while a target assignment is due",
        "the target gives it partitions that it cannot take",
        "an empty target",
        "Kafka's fault: the partitions stay unread until the next target.",
        _joins_without_topics,
    ),
    Known(
        "flexible request with tagged fields out of order or twice",
        "read",
        "closes the connection",
        "KIP-482 requires an ascending order.",
    ),
    Known(
        "ApiVersions of an unknown version with malformed tagged fields",
        "closes the connection",
        "35 in the format of version 0",
        "The client learns what it may send.",
    ),
    Known(
        "FindCoordinator for a share group",
        "a node, or 15",
        "42",
        "There are no share groups.",
    ),
    Known(
        "DeleteGroups v3 (KIP-1331)",
        "not served: 0 to 2",
        "served: it has error messages",
        "Later Kafka has it; the comparison sends 0 to 2.",
    ),
    Known(
        "TxnOffsetCommit under another transactional id, not the first one",
        "0",
        "49 (42 for an empty id in v5)",
        "Kafka verifies the first write of a transaction only.",
    ),
    Known(
        "InitProducerId when a block of 1,000 producer ids is used up",
        "14, while the next block is fetched",
        "0",
        "There is no other broker to ask for a block.",
        _needs_new_ids,
    ),
    Known(
        "InitProducerId with its own id and epoch 32765 while a transaction is open",
        "-1",
        "epoch 32766",
        "Kafka's fault.",
    ),
    Known(
        "configurations of one broker; a broker setting with its default value",
        "of this broker; source 4",
        "of every node; source 5",
        "The nodes of a process share their settings, and keep no origin of values.",
    ),
    Known(
        "configurations of client metrics and of broker loggers",
        "accepted",
        "42",
        "There is no client telemetry, and there are no such loggers.",
    ),
    Known(
        "broker settings that only Kafka has (log.retention.hours), that are unset, or "
        "whose defaults come from Java (JKS, GSSAPI)",
        "null, or Java's default",
        "empty, or the default that docs/connecting.md names",
        "The settings are those of the own server.",
    ),
    Known(
        "max.connections*, ssl.*, sasl.enabled.mechanisms and "
        "group.consumer.assignment.interval.ms; transaction.max.timeout.ms",
        "dynamic; read-only",
        "read-only; dynamic",
        "As the own server can change them at run time.",
    ),
    Known(
        "session time-out of classic members in a consumer group after a restart",
        "the group's",
        "their own",
        "Kafka's fault: see E8-06b.",
    ),
    Known(
        "heartbeat joins a classic group before its first generation",
        "-1; pending joins get 27",
        "upgraded",
        "Kafka's fault: it reads a protocol name that is not set.",
        _is_upgrade,
    ),
    Known(
        "heartbeat upgrades a classic group that is not Stable, with the same topics",
        "no bump",
        "the epoch is bumped",
        "Kafka's fault: members without partitions get none until the next bump.",
        _is_upgrade,
    ),
    Known(
        "last static consumer member joins by the classic protocol",
        'leader "", no members; Stable',
        "leads, knows the members; rebalances if a member has not reconciled",
        "Nobody reacts to changed topics in Kafka's group; two members may own a "
        "partition.",
        _is_downgrade,
    ),
    Known(
        "downgrade while members have not reconciled: DescribeGroups, the next upgrade",
        "the members' targets",
        "what they own",
        "A partition could get two owners.",
        _is_permuted,
    ),
    Known(
        "consumer group of classic members only, with changed topics: Heartbeat",
        "0 until a member joins",
        "27",
        "Partitions would stay unread.",
        _is_early_rebalance,
    ),
    Known(
        "upgrade with user data of range, roundrobin, sticky or cooperative-sticky",
        "69",
        "upgraded",
        "The data is disposable; group.consumer.migration.drop.user.data=false does as "
        "Kafka, also in the comparison.",
    ),
    Known(
        "upgrade that fails while joins or syncs wait",
        "they get 27",
        "they wait on",
        "A failed request has no effect.",
        _is_failed_upgrade,
    ),
    Known(
        "upgrade or downgrade with contradictory assignments or subscriptions",
        "-1",
        "69, or without what does not exist",
        "Kafka's fault: unhandled exceptions.",
        _is_upgrade,
    ),
    Known(
        "time-outs of members that changed their protocol",
        "stale ones still fence",
        "only those of the new protocol",
        "Kafka's fault.",
    ),
    Known(
        "upgrade of a classic group whose members name partitions that they own and "
        "their last assignments do not contain",
        "the partitions are free",
        "their owners revoke them first",
        "Two members could own a partition. The simulation shows it.",
    ),
    Known(
        "static JoinGroup whose member id would be longer than 32,767 bytes",
        "no answer",
        "-1",
        "No record can hold the id.",
    ),
    Known(
        "JoinGroup whose metadata is larger than 4 * message.max.bytes",
        "0, and -1 to SyncGroup",
        "-1",
        "The group's record could not be written.",
    ),
    Known(
        "full group that rebalances: a member refused with 81 was the last one awaited",
        "waits for the rebalance time-out",
        "the rebalance completes",
        "Kafka's fault: it looks at the group before it removes the member.",
    ),
    Known(
        "when a changed regular expression is resolved and bumps the epoch",
        "in the background, every 10 s at most",
        "beside the heartbeat, as often",
        "Depends on time; the exchanges of expressions are played on both.",
        _is_resolved_later,
    ),
    Known(
        "regular expression with a group name twice",
        "128",
        "accepted",
        "Groups capture nothing here; RE2 does not check their names.",
    ),
    Known(
        "regular expression with nested repetitions, such as "
        "((((a{100}){100}){100}){100})",
        "expanded until the heap is full: the broker dies",
        "128",
        "Every request has a bound.",
    ),
    Known(
        "CreateTopics or DeleteTopics with a time-out of zero or less",
        "7",
        "done",
        "Topics change at once here; there is nothing to wait for.",
        _has_no_time,
    ),
    Known(
        "Metadata that creates a topic",
        "3, and the partitions to a later request",
        "the partitions",
        "The topic is complete when the response is sent: no other broker has to learn "
        "of it. Clients retry 3 after 100 ms or more, which every test would wait for.",
    ),
    Known(
        "Produce with null records, or a size that overflows 32 bits",
        "no answer; -1",
        "87",
        "Kafka's fault: unhandled exceptions.",
    ),
    Known(
        "batch of an unknown compression, or whose records cannot be decompressed or "
        "decoded",
        "-1",
        "2; 87",
        "Kafka's fault: unhandled exceptions.",
    ),
    Known(
        "Produce or ListOffsets with a partition twice; ListOffsets with a topic "
        "without partitions",
        "the last batch is appended; one row; no topic",
        "both are appended; a row each; an empty topic",
        "Clients do not send it, and no part of a request is dropped in silence.",
    ),
    Known(
        "ListOffsets with timestamp -3 after DeleteRecords in a segment",
        "an offset below the log start",
        "the first record with the greatest timestamp that is left",
        "Kafka's fault: a fetch of this offset is out of range.",
    ),
    Known(
        "group.min.session.timeout.ms and group.max.session.timeout.ms below 1; "
        "log.retention.* and queued.max.request.bytes below -1; "
        "connections.max.idle.ms below 1000; more than 10,000 partitions",
        "accepted",
        "refused at start-up",
        "No client could stay a member or connected; a larger number is an error.",
    ),
)


def known(found: Found, steps: Sequence[Step]) -> Known | None:
    """Return the known difference that a difference is an instance of."""
    for each in KNOWN:
        if each.matches is not None and each.matches(found, steps):
            return each
    return None
