"""The tool that writes the table of Kafka releases."""

from __future__ import annotations

import pytest

from tests.broker.server.harness import ThreadServer
from tools import kafka_releases
from tools.kafka_releases import differences, format_table, read_rows

OUTPUT = """\
3.9\t1\tFETCH\t0\t17
3.9\t43\tELECT_PREFERRED_LEADERS\t0\t2
4.3\t1\tFETCH\t4\t18
4.3\t43\tELECT_LEADERS\t0\t2
4.3\t0\tPRODUCE\t0\t13
"""


def test_row_has_the_newest_name_of_an_api() -> None:
    rows = read_rows(OUTPUT)
    assert rows[43] == {"api": "ELECT_LEADERS", "3.9": "0-2", "4.3": "0-2"}


def test_table_is_ordered_by_key_and_has_a_dash_for_a_missing_api() -> None:
    header, *lines = format_table(read_rows(OUTPUT)).splitlines()
    columns = header.split("\t")
    rows = [dict(zip(columns, line.split("\t"), strict=True)) for line in lines]
    assert [row["key"] for row in rows] == ["0", "1", "43"]
    assert (rows[0]["3.9"], rows[0]["4.3"]) == ("-", "0-13")
    assert rows[1]["2.8"] == "-"


def test_differences_name_both_ranges() -> None:
    ours, theirs = {0: "0-3", 1: "0-5"}, {0: "0-3", 1: "0-6", 2: "0-2"}
    assert list(differences(ours, theirs)) == [
        "API 1: table 0-5, broker 0-6",
        "API 2: table None, broker 0-2",
    ]


def test_comparison_with_a_server_lists_the_apis_that_it_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ThreadServer(act_as="3.9") as server:
        host, port = server.addresses[0]
        assert kafka_releases.main(["--compare", "3.9", f"{host}:{port}"]) == 1
    found = capsys.readouterr().out.splitlines()
    assert "API 38: table 0-3, broker None" in found  # CreateDelegationToken
    assert not any(line.startswith("API 3:") for line in found)
