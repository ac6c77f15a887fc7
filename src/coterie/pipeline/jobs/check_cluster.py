"""What `check` compares, fetched: the tables of a lake, the answers of a cluster, and
what came into the log between the two.

The order is what makes it right: the lake was read first, then the brokers answer, and
then the log is read on from the lake's positions. So whatever the brokers knew and the
lake did not has a record in that rest, and its group is named as changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.group_values import GroupType
from coterie.errors import ApiError, ClientError, CoterieError, SettingError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.jobs.check import Answers, Doubts, Told
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Source
from coterie.pipeline.tables.all_tables import of_layer
from coterie.pipeline.tables.current_groups import CURRENT_GROUPS
from coterie.pipeline.tables.current_members import CURRENT_MEMBERS
from coterie.pipeline.tables.current_offsets import CURRENT_OFFSETS
from coterie.pipeline.tables.table import Layer
from coterie.runtime.router import partition_for
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode

_COMPARED: Final = (CURRENT_GROUPS, CURRENT_MEMBERS, CURRENT_OFFSETS)
_KINDS: Final = {None, GroupType.CLASSIC, GroupType.CONSUMER}
"""None: the broker is too old to tell, and has no others."""
_GROUP_ID: Final = "group_id"


def tables_of(lake: Lake) -> Told:
    """The tables that are compared.

    Raises SettingError when they are older than what was read from the log.
    """
    version = lake.version
    newest = max(
        (
            file.version
            for table in of_layer(Layer.SILVER)
            for file in version.of(table.name).files
        ),
        default=0,
    )
    for table in _COMPARED:
        if version.of(table.name).through < newest:
            raise SettingError(
                f"{table.name} of {lake.storage} is older than what was read from the "
                f"log: coterie pipeline run --from {lake.identity.source} --to "
                f"{lake.storage} brings it up to date"
            )
    groups, members, offsets = (
        lake.read(table.name).to_pylist() for table in _COMPARED
    )
    return Told(groups=groups, members=members, offsets=offsets)


class Asked(NamedTuple):
    """What a cluster said, and of which groups it said nothing, with the reason."""

    answers: Answers
    errors: Mapping[GroupId, CoterieError]


async def ask(admin: AdminClient, lake: Lake) -> Asked:
    """Ask for every group that the tables may have.

    Raises SettingError when the lake is another cluster's, and ClientError or ApiError
    when some broker does not list its groups.
    """
    cluster_id = (await admin.describe_cluster()).cluster_id
    if None is not lake.identity.cluster_id != cluster_id is not None:
        raise SettingError(
            f"{lake.storage} is of the cluster {lake.identity.cluster_id}, and this is "
            f"the cluster {cluster_id}: name the one that the lake was made from"
        )
    listings = await admin.list_groups()
    for error in listings.errors.values():
        raise error
    listed = [each.group_id for each in listings.groups if each.type in _KINDS]
    groups = await admin.describe_groups(listed)
    offsets = await admin.list_groups_offsets(dict.fromkeys(listed))
    topics = (await admin.describe_topics()).values.values()
    errors = {
        group_id: error
        for group_id, error in {**offsets.errors, **groups.errors}.items()
        if not _is_gone(error)
    }
    return Asked(
        Answers(
            groups=groups.values,
            offsets=offsets.values,
            topic_names={
                each.topic_id.hex(): each.name for each in topics if each.topic_id
            },
            unread=frozenset(errors)
            | {each.group_id for each in listings.groups if each.type not in _KINDS},
        ),
        errors,
    )


def _is_gone(error: CoterieError) -> bool:
    """Whether a group was deleted since it was listed."""
    return isinstance(error, ApiError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND


class Behind(NamedTuple):
    """What the log has beyond a lake's positions."""

    doubts: Doubts
    records: int
    """That could have been read."""
    held_back: Mapping[int, int]
    """Offsets behind the first open transaction, by log partition."""


def read_rest(source: Source, positions: Mapping[int, int]) -> Behind:
    """Read the log on. Raises ClientError when it is shorter than the positions say."""
    heads = source.heads(positions)
    for number, position in positions.items():
        if number not in heads or heads[number].end_offset < position:
            raise ClientError(
                f"the lake was read up to offset {position} of log partition {number}, "
                f"where {source.describe()} has no such offset: is it another cluster?"
            )
    changed: set[GroupId] = set()
    records = 0
    for part in plan(heads, positions):
        for rows in source.read(part):
            records += len(rows.records)
            for table in decode(rows.records).values():
                if _GROUP_ID in table.schema.names:
                    changed.update(table[_GROUP_ID].unique().to_pylist())
    held_back = {
        number: head.end_offset - head.stable_offset
        for number, head in heads.items()
        if head.stable_offset < head.end_offset
    }
    count = len(heads)
    doubts = Doubts(
        changed=frozenset(changed),
        held_back=frozenset(held_back),
        partition_of=lambda group_id: partition_for(group_id, count) if count else -1,
    )
    return Behind(doubts, records, held_back)
