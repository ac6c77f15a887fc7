"""The nodes that have left a gateway, as the others remember them."""

from __future__ import annotations

from coterie.gateway.view import FORMER_MS, FormerNode, FormerNodes, NodeInfo, View


def ages(former: tuple[FormerNode, ...]) -> dict[str, int]:
    return {each.name: each.age_ms for each in former}


def view(*names: str, former: tuple[FormerNode, ...] = ()) -> View:
    nodes = tuple(
        NodeInfo(name=name, host="host", port=1, broker_port=2) for name in names
    )
    return View(nodes, (), 1, former)


def test_a_node_that_leaves_is_a_former_one_until_it_returns() -> None:
    now = [1_000]
    nodes = FormerNodes(lambda: now[0])

    assert ages(nodes.of_next(view(), view("a", "b", "c"))) == {}
    assert ages(nodes.of_next(view("a", "b", "c"), view("a"))) == {"b": 0, "c": 0}
    now[0] += 500
    assert ages(nodes.of_next(view("a"), view("a", "c"))) == {"b": 500}
    now[0] += FORMER_MS - 501
    assert ages(nodes.of_next(view("a", "c"), view("a"))) == {
        "b": FORMER_MS - 1,
        "c": 0,
    }
    now[0] += 1
    assert ages(nodes.of_next(view("a"), view("a"))) == {"c": 1}


def test_what_another_node_knows_does_not_last_longer() -> None:
    now = [FORMER_MS]
    nodes = FormerNodes(lambda: now[0])

    told = view(
        "a", former=(FormerNode(name="b", age_ms=70), FormerNode(name="c", age_ms=10))
    )
    assert ages(nodes.of_next(view("c"), told)) == {"b": 70, "c": 10}
    now[0] += 10
    late = view(
        "a",
        former=(
            FormerNode(name="b", age_ms=5),
            FormerNode(name="old", age_ms=FORMER_MS),
        ),
    )
    assert ages(nodes.of_next(told, late)) == {"b": 80, "c": 20}
