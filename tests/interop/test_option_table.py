"""Coterie's drop-in compared with kafka-consumer-groups.sh, option by option.

Every command line of `option_table` must print and do the same with --strict, but for
the differences of docs/kafka-consumer-groups.tsv. The table has a node of its own: it
lists, describes, resets and deletes all groups of the cluster.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .kafka import JARS, GroupCommand, KafkaNode
from .option_table.cases import table
from .option_table.cluster import Cluster
from .option_table.differences import RULES
from .option_table.runs import compare_all


# One test, so that one worker runs the table once.
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_line_is_equal_but_for_declared_differences(
    tmp_path: Path,
) -> None:
    jars = Path(os.environ[JARS])
    with (
        KafkaNode(jars, tmp_path / "node", listeners={"PLAIN": "PLAINTEXT"}) as node,
        GroupCommand(jars) as apache,
        Cluster(node.addresses["PLAIN"]) as cluster,
    ):
        comparisons = compare_all(table(), apache, cluster, tmp_path)
    unequal = [str(each) for each in comparisons if not each.is_equal]
    assert not unequal, f"{len(unequal)} differ:\n" + "\n".join(unequal[:20])
    assert len(comparisons) >= 1_000
    seen = {name for each in comparisons for name in each.differences}
    assert seen == set(RULES), "a declared difference is not seen"
