"""Coterie's drop-in compared with kafka-consumer-groups.sh, option by option.

Every command line of `option_table` must print and do the same with --strict, but for
the differences of docs/kafka-consumer-groups.tsv. The table has a node of its own: it
lists, describes and resets all groups of the cluster.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .kafka import JARS, GroupCommand, KafkaNode
from .option_table.cases import table
from .option_table.cluster import Cluster
from .option_table.differences import RULES
from .option_table.runs import Comparison, compare_all

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("option-table")]


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Comparison]]:
    """Every command line with both outputs."""
    jars, folder = Path(os.environ[JARS]), tmp_path_factory.mktemp("option-table")
    listeners = {"PLAIN": "PLAINTEXT"}
    with (
        KafkaNode(jars, folder / "node", listeners=listeners) as node,
        GroupCommand(jars) as apache,
        Cluster(node.addresses["PLAIN"]) as cluster,
    ):
        yield compare_all(table(), apache, cluster, folder)


def test_every_command_line_is_equal_but_for_declared_differences(
    comparisons: list[Comparison],
) -> None:
    assert len(comparisons) >= 500
    unequal = [str(each) for each in comparisons if not each.is_equal]
    assert not unequal, f"{len(unequal)} differ:\n" + "\n".join(unequal[:20])


def test_every_declared_difference_is_seen(comparisons: list[Comparison]) -> None:
    seen = Counter(name for each in comparisons for name in each.differences)
    assert set(seen) == set(RULES)
