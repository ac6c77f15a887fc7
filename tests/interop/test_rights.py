"""Who may do what: the table of rights, asked of Coterie and of Apache Kafka."""

from __future__ import annotations

import pytest

from coterie.auth.authorizer import OPERATIONS, Operation
from tests.server.apis.acl_rows import topic
from tests.server.apis.acl_table import COMMON_ROWS
from tests.server.apis.test_authorized_operations import KINDS, bits, right_to

from .door import Door
from .guarded import World

pytestmark = pytest.mark.slow


def test_every_right_is_asked_for_and_no_other(door: Door) -> None:
    world = World(door, "rita")
    differences = []
    for row in COMMON_ROWS:
        given, needed = set(row.given), set(row.without)
        every = {right._replace(operation=Operation.ALL) for right in given | needed}
        cases = [
            (given | needed - {right}, told) for right, told in row.without.items()
        ]
        cases += [(given | set(rights), row.allowed) for rights in row.instead]
        cases += [(every, row.allowed), (given | needed, row.allowed)]
        for rights, wanted in cases:
            told = world.told(row, rights)
            if told != wanted:
                differences.append((row.title, rights, told, wanted))
    world.close()
    assert differences == []


@pytest.mark.fact("C-25", "D-33")
def test_what_may_be_done_is_told_in_the_same_bits(door: Door) -> None:
    world = World(door, "otto")
    visible = topic(Operation.DESCRIBE)
    for asks, of, name in (case.values for case in KINDS):
        world.join()
        every = right_to(of, Operation.ALL, name)
        world.grant(every, visible)
        assert asks(world) == bits(*OPERATIONS[every.resource_type])
        world.grant(right_to(of, Operation.DESCRIBE, name), visible)
        assert asks(world) == bits(Operation.DESCRIBE)
    world.close()
