"""Differences from Kafka that stay, each with its reason.

Those that random requests reach have a matcher. `python -m tests.differential.page`
writes docs/differences-from-kafka.md from this list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tests.differential.matchers import (
    becomes_static,
    fails_in_kafka,
    follows_removal,
    has_no_time,
    has_only_epoch,
    has_protocol_twice,
    is_abandoned,
    is_downgrade,
    is_early_rebalance,
    is_failed_upgrade,
    is_full,
    is_lost,
    is_permuted,
    is_repeated,
    is_resolved_later,
    is_tie,
    is_uniform,
    is_unknown_operation,
    is_upgrade,
    joins_without_topics,
    names_topic_twice,
    needs_new_ids,
    owns_after_removal,
    returns_by_its_id,
)
from tests.differential.play import Found
from tests.differential.steps import Step

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


KNOWN: Final[tuple[Known, ...]] = (
    Known(
        "DescribeGroups, ConsumerGroupDescribe or DescribeConfigs names a group or "
        "resource twice",
        "described each time",
        "described once",
        "A small request could make a response of any size.",
        is_repeated,
        is_final=False,
    ),
    Known(
        "JoinGroup or SyncGroup of a member whose earlier one waits on another "
        "connection; LeaveGroup of a member whose SyncGroup waits",
        "the waiting request is never answered",
        "it gets 27 (25 after LeaveGroup)",
        "Kafka's fault: it drops the response (KAFKA-20938; after 4.4.0 it gets 16).",
        is_abandoned,
    ),
    Known(
        "JoinGroup with a protocol name twice",
        "no answer, or -1",
        "0",
        "Kafka's fault: it counts the member twice.",
        has_protocol_twice,
    ),
    Known(
        "JoinGroup with an unknown member id to a consumer group without members",
        "25, and the group is lost until the next start",
        "25",
        "Kafka's fault: it removes the group from memory without a record.",
        is_lost,
    ),
    Known(
        "commit that names a topic twice and is refused for the group's sake",
        "the topic twice",
        "once",
        "As in other responses with errors.",
        names_topic_twice,
        is_final=False,
    ),
    Known(
        "consumer group whose members prefer two assignors equally often",
        "one of them by its hash",
        "the one that the broker lists first",
        "The choice can be configured.",
        is_tie,
    ),
    Known(
        "JoinGroup with an unknown member id and owned partitions, to a consumer group",
        "0: a new member",
        "25",
        "The member was removed; its partitions may have another owner already.",
        owns_after_removal,
    ),
    Known(
        "OffsetFetch with a member epoch and a null member id",
        "-1",
        "25",
        "Kafka's fault: it looks up a null id.",
        has_only_epoch,
        is_final=False,
    ),
    Known(
        "leader of a classic group after its leader was removed",
        "any member",
        "the member that joined first",
        "Kafka takes the first of a hash table of random member ids.",
        follows_removal,
    ),
    Known(
        "IncrementalAlterConfigs with an unknown operation",
        "-1",
        "42",
        "Kafka's fault: it throws while it decodes the operation.",
        is_unknown_operation,
        is_final=False,
    ),
    Known(
        "heartbeat at epoch 0 of a member that joined without an instance id and has "
        "one now",
        "0, and it is static",
        "42",
        "Kafka's fault: the member gets an empty target and keeps its old index.",
        becomes_static,
    ),
    Known(
        "heartbeat at epoch 0 of a static member with its own member id",
        "111",
        "0",
        "Kafka's fault: a member that missed the first response cannot join.",
        returns_by_its_id,
    ),
    Known(
        "static member of the consumer protocol takes the place of a classic one whose "
        "JoinGroup waits",
        "-1",
        "0",
        "Kafka's fault: it converts a member without a protocol.",
        fails_in_kafka,
    ),
    Known(
        "which partitions and which remainder a member gets of the assignor uniform",
        "depends on hashes of ids",
        "depends on the order of ids",
        "Every balanced and sticky assignment is right. Means of 60 random groups with "
        "different subscriptions (`tests/differential/balance.py`): spread 1.92 in "
        "Kafka and 1.93 in Coterie; partitions that move needlessly when a member "
        "leaves 0.57 and 0.53, when it joins again 0.28 and 0.25.",
        is_uniform,
    ),
    Known(
        "which partitions each member gets in a group with classic members",
        "depends on their random ids",
        "depends on their random ids",
        "Assignors sort members by their ids.",
        is_permuted,
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
        joins_without_topics,
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
        "One process has the state of all share partitions: nothing sends this "
        "request.",
    ),
    Known(
        "dead letters of share groups (KIP-1191)",
        "written, with `share.version` 2",
        "not written; `share.version` is 1",
        "Not built yet. Records that Kafka was about to write dead letters of count as "
        "finished.",
    ),
    Known(
        "ShareFetch that another request of its session has followed",
        "123; what it acquired stays locked",
        "123; it acquires nothing",
        "The client cannot use the records.",
    ),
    Known(
        "AcquiredRecords of a batch whose records have different states",
        "neighbours are joined within a batch",
        "neighbours with the same count are joined",
        "They name the same records.",
    ),
    Known(
        "write of an acknowledgement that fails",
        "locks of other records stay",
        "all share partitions are loaded again, and locks are lost",
        "Nothing is undone in memory.",
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
        needs_new_ids,
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
        is_upgrade,
    ),
    Known(
        "heartbeat upgrades a classic group that is not Stable, with the same topics",
        "no bump",
        "the epoch is bumped",
        "Kafka's fault: members without partitions get none until the next bump.",
        is_upgrade,
    ),
    Known(
        "heartbeat upgrades a Stable classic group whose assignment lacks the last "
        "partitions of a topic, as those created since, with the same topics",
        "no bump",
        "the epoch is bumped",
        "Kafka's fault, by its source: they have no member until the next bump.",
    ),
    Known(
        "last static consumer member joins by the classic protocol",
        'leader "", no members; Stable',
        "leads, knows the members; rebalances if a member has not reconciled",
        "Nobody reacts to changed topics in Kafka's group; two members may own a "
        "partition.",
        is_downgrade,
    ),
    Known(
        "downgrade while members have not reconciled: DescribeGroups, the next upgrade",
        "the members' targets",
        "what they own",
        "A partition could get two owners.",
        is_permuted,
    ),
    Known(
        "consumer group of classic members only, with changed topics: Heartbeat",
        "0 until a member joins",
        "27",
        "Partitions would stay unread.",
        is_early_rebalance,
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
        is_failed_upgrade,
    ),
    Known(
        "upgrade or downgrade with contradictory assignments or subscriptions",
        "-1",
        "69, or without what does not exist",
        "Kafka's fault: unhandled exceptions.",
        is_upgrade,
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
        is_full,
    ),
    Known(
        "when a changed regular expression is resolved and bumps the epoch",
        "in the background, every 10 s at most",
        "beside the heartbeat, as often",
        "Depends on time; the exchanges of expressions are played on both.",
        is_resolved_later,
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
        has_no_time,
    ),
    Known(
        "Metadata that creates a topic",
        "3, and the partitions to a later request",
        "the partitions",
        "The topic is complete when the response is sent: no other broker has to learn "
        "of it. With 3, the first record takes 0.1 s longer (confluent-kafka, "
        "kafka-python, aiokafka), and a consumer of aiokafka that subscribed before "
        "gets nothing for more than 4 s.",
    ),
    Known(
        "Produce with null records",
        "no answer",
        "87",
        "Kafka's fault: an unhandled exception.",
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
        "group.max.session.timeout.ms below 1; connections.max.idle.ms from 0 to 999; "
        "more than 10,000 partitions",
        "accepted",
        "refused at start-up",
        "No client could stay a member or connected; a larger number is an error.",
    ),
    Known(
        "max.decompressed.message.bytes of a topic (Kafka 4.4)",
        "a larger record of a compressed batch is refused",
        "stored without effect",
        "batch.decompressed.bytes.max limits a whole batch, 100 MB by default.",
    ),
)


def known(found: Found, steps: Sequence[Step]) -> Known | None:
    """Return the known difference that a difference is an instance of."""
    for each in KNOWN:
        if each.matches is not None and each.matches(found, steps):
            return each
    return None
