"""The assignments that the leader makes: no shard has two live owners."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.client import JoinedMember
from coterie.gateway.node_assignment import assign_nodes
from coterie.gateway.view import NO_VIEW, NodeInfo, View

from .test_node_protocol import A, B, member, metadata_of


def make_view(members: list[JoinedMember], shard_count: int, previous: View) -> View:
    """Return the view that the node of each name gets."""
    assignments = assign_nodes(members, shard_count, previous)
    owned = [each.view for each in assignments.values() if any_owner(each.view)]
    assert all(view == owned[0] for view in owned)
    return owned[0]


def any_owner(view: View) -> bool:
    return any(owner >= 0 for owner in view.owners)


def test_nodes_keep_their_shards_and_others_share_the_rest() -> None:
    members = [
        member("2", metadata_of(B, (1, 3), 7)),
        member("1", metadata_of(A)),
    ]
    assert make_view(members, 4, NO_VIEW) == View((A, B), (0, 1, 0, 1), -1)


def test_a_restarted_node_claims_what_it_owned() -> None:
    before = View((A, B), (1, 0, 1, 0), 7)
    members = [member("1", metadata_of(A)), member("2", metadata_of(B, (0, 2), 7))]
    assert make_view(members, 4, before).owners == (1, 0, 1, 0)
    # The leader was cut off and did not see that B took all shards over.
    newer = [member("1", metadata_of(A)), member("2", metadata_of(B, (0, 1, 2, 3), 8))]
    assert make_view(newer, 4, before).owners == (1, 1, 0, 0)


def test_restarted_nodes_claim_what_each_of_them_owned() -> None:
    before = View((A, B), (1, 0), 7)
    members = [member("1", metadata_of(A)), member("2", metadata_of(B))]
    assert make_view(members, 2, before).owners == (1, 0)


def test_of_two_processes_with_one_name_the_newer_one_is_the_node() -> None:
    moved = NodeInfo(name="a", host="moved", port=9092, broker_port=9093)
    members = [
        member("1", metadata_of(moved, started=2)),
        member("2", metadata_of(A, (0, 1), 7, started=1)),
    ]
    assert make_view(members, 2, NO_VIEW) == View((moved,), (0, 0), -1)


def test_a_member_that_is_no_node_gets_no_shard() -> None:
    members = [JoinedMember("1", None, b"?"), member("2", metadata_of(A))]
    assert make_view(members, 2, NO_VIEW) == View((A,), (0, 0), -1)


def test_a_shard_that_another_node_serves_is_released_first() -> None:
    serving = metadata_of(A, (0, 1, 2, 3), 7, is_serving=True)
    view = make_view([member("1", serving), member("2", metadata_of(B))], 4, NO_VIEW)
    assert view.owners == (0, 0, -1, -1)
    released = metadata_of(A, (0, 1), 8, is_serving=True)
    view = make_view([member("1", released), member("2", metadata_of(B))], 4, NO_VIEW)
    assert view.owners == (0, 0, 1, 1)


def test_a_removed_node_keeps_no_shard_from_its_new_owner() -> None:
    removed = metadata_of(A, (0, 1, 2, 3), 7)
    owner = metadata_of(B, (0, 1, 2, 3), 8, is_serving=True)
    view = make_view([member("1", removed), member("2", owner)], 4, NO_VIEW)
    assert view.owners == (1, 1, -1, -1)


def test_a_node_that_has_to_release_a_shard_and_the_others_are_told() -> None:
    serving = metadata_of(A, (0, 1, 2, 3), 7, is_serving=True)
    members = [member("1", serving), member("2", metadata_of(B))]
    first, second = assign_nodes(members, 4, NO_VIEW).values()
    assert first.is_interim
    assert first.has_to_release
    assert second.is_interim
    assert not second.has_to_release
    released = metadata_of(A, (0, 1), 8, is_serving=True)
    members = [member("1", released), member("2", metadata_of(B))]
    for each in assign_nodes(members, 4, first.view).values():
        assert not each.is_interim
        assert not each.has_to_release


def test_late_metadata_count_as_what_the_leader_has_assigned_since() -> None:
    # A has joined by generation 7, and the leader has given it all shards in 8.
    late = metadata_of(A, (0,), 7, is_serving=True)
    previous = View((A, B), (0, 0, 0, 0), 8)
    members = [member("1", late), member("2", metadata_of(B, (), 8, is_serving=True))]
    first, second = assign_nodes(members, 4, previous).values()
    assert first.view.owners == (0, 0, -1, -1)
    assert first.has_to_release
    assert not second.has_to_release


def test_a_replaced_process_releases_its_shards_first() -> None:
    older = metadata_of(A, (0, 1), 7, started=1, is_serving=True)
    newer = metadata_of(A, started=2)
    members = [member("1", newer), member("2", older)]
    first, second = assign_nodes(members, 2, NO_VIEW).values()
    assert first.view.owners == second.view.owners == (-1, -1)
    assert second.has_to_release
    assert not first.has_to_release
    gone = metadata_of(A, (), 8, started=1, is_serving=True)
    members = [member("1", newer), member("2", gone)]
    first, second = assign_nodes(members, 2, NO_VIEW).values()
    assert first.view.owners == (0, 0)
    assert second.view.owners == (-1, -1)
    assert not second.has_to_release


def test_a_node_that_is_about_to_leave_serves_its_shards_until_then() -> None:
    leaving = metadata_of(A, (0, 1), 7, is_serving=True, is_leaving=True)
    other = metadata_of(B, (2, 3), 7, is_serving=True)
    first, second = assign_nodes(
        [member("1", leaving), member("2", other)], 4, NO_VIEW
    ).values()
    assert first.view == second.view == View((A, B), (-1, -1, 1, 1), -1)
    assert first.has_to_release
    assert second.is_interim
    [alone] = assign_nodes([member("1", leaving)], 2, NO_VIEW).values()
    assert alone.view.owners == (-1, -1)


# Any number of rebalances, in which nodes die and assignments are lost.

NAMES = "abcd"
SHARDS = 5


@dataclass
class ModelNode:
    """A node that serves shards by the assignment of a generation."""

    name: str
    served: frozenset[int] = frozenset()
    generation: int = -1
    view: View = NO_VIEW

    def joined(self) -> JoinedMember:
        info = NodeInfo(name=self.name, host="host", port=9092, broker_port=9093)
        metadata = metadata_of(
            info,
            tuple(self.served),
            self.generation,
            is_serving=self.generation >= 0,
        )
        return member(self.name, metadata)


def rebalance(
    nodes: dict[str, ModelNode], generation: int, leader: str, lost: set[str]
) -> bool:
    """Make a generation; `lost` nodes do not get their assignment. Return whether
    another one has to follow."""
    joined = [node.joined() for node in nodes.values()]
    assignments = assign_nodes(joined, SHARDS, nodes[leader].view)
    for name, assignment in assignments.items():
        if name in lost:
            continue
        node = nodes[name]
        node.view = assignment.view._replace(generation=generation)
        node.generation = generation
        node.served = frozenset(
            shard
            for shard, owner in enumerate(node.view.owners)
            if owner >= 0 and node.view.nodes[owner].name == name
        )
        served = [shard for each in nodes.values() for shard in each.served]
        assert len(served) == len(set(served)), "a shard has two owners"
    return any(each.has_to_release for each in assignments.values())


rounds = st.lists(
    st.tuples(
        st.sets(st.sampled_from(NAMES), min_size=1),
        st.sampled_from(NAMES),
        st.sets(st.sampled_from(NAMES)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60)
@given(rounds)
def test_no_shard_has_two_owners_while_nodes_die_and_assignments_are_lost(
    scenario: list[tuple[set[str], str, set[str]]],
) -> None:
    nodes: dict[str, ModelNode] = {}
    generation = 0
    for live, leader, lost in scenario:
        # A node that died has lost its lease before the group rebalances without it.
        nodes = {name: nodes.get(name) or ModelNode(name) for name in sorted(live)}
        generation += 1
        rebalance(nodes, generation, leader if leader in live else min(live), lost)
    leader = min(nodes)
    for _ in range(3):
        generation += 1
        if not rebalance(nodes, generation, leader, set()):
            break
    else:
        raise AssertionError("the rebalances do not end")
    assert sorted(s for each in nodes.values() for s in each.served) == [*range(SHARDS)]
    sizes = [len(each.served) for each in nodes.values()]
    assert max(sizes) - min(sizes) <= 1
