"""The operations that each API needs, compared between Coterie and Apache Kafka."""

from __future__ import annotations

import pytest

from coterie.auth.acl import OPERATIONS, Operation
from tests.broker.server.apis.acl_rows import topic
from tests.broker.server.apis.acl_table import COMMON_ROWS
from tests.broker.server.apis.test_apis_authorized_operations import (
    KINDS,
    bits,
    right_to,
)

from .acl_environment import AclEnvironment
from .sasl_listener import SaslListener

pytestmark = pytest.mark.slow


def test_each_api_needs_exactly_the_listed_operations(sasl: SaslListener) -> None:
    environment = AclEnvironment(sasl, "rita")
    differences = []
    for row in COMMON_ROWS:
        given, needed = set(row.given), set(row.without)
        every = {right._replace(operation=Operation.ALL) for right in given | needed}
        cases = [
            (given | needed - {right}, result) for right, result in row.without.items()
        ]
        cases += [(given | set(rights), row.allowed) for rights in row.alternatives]
        cases += [(every, row.allowed), (given | needed, row.allowed)]
        for rights, wanted in cases:
            result = environment.result(row, rights)
            if result != wanted:
                differences.append((row.title, rights, result, wanted))
    environment.close()
    assert differences == []


@pytest.mark.fact("C-25b", "D-33a")
def test_authorized_operations_are_the_same_bit_field(sasl: SaslListener) -> None:
    environment = AclEnvironment(sasl, "otto")
    visible = topic(Operation.DESCRIBE)
    for asks, of, name in (case.values for case in KINDS):
        environment.join()
        every = right_to(of, Operation.ALL, name)
        environment.grant(every, visible)
        assert asks(environment) == bits(*OPERATIONS[every.resource_type])
        environment.grant(right_to(of, Operation.DESCRIBE, name), visible)
        assert asks(environment) == bits(Operation.DESCRIBE)
    environment.close()
