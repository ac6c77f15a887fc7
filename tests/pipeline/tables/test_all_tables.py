"""Files of SQL name what exists, and are ordered so that they can be built."""

from __future__ import annotations

import pyarrow as pa
import pytest

from coterie.pipeline.gold import plans
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import GOLD, TABLES, VIEWS, load, read_of
from coterie.pipeline.tables.table import TIME, Layer

QUERIES = {**GOLD, **VIEWS}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_names_tables_and_views_that_exist(name: str) -> None:
    assert QUERIES[name].names
    for each in QUERIES[name].names:
        how, table = read_of(each)
        assert table in TABLES or (how == "all" and table in VIEWS), each


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_names_known_parameters(name: str) -> None:
    known = GoldSettings().parameters().keys() | {"base", "cuts", "kept", "days"}
    assert QUERIES[name].parameters <= known


def test_each_gold_table_follows_those_that_it_reads() -> None:
    built: set[str] = set()
    for name, query in GOLD.items():
        assert not (query.inputs & GOLD.keys()) - built, name
        built.add(name)


def test_a_table_has_its_columns_key_and_options() -> None:
    for table in TABLES.values():
        assert {*table.key} <= {*table.schema.names}
        assert table.question.endswith("?")
        assert all(each.meaning for each in table.columns)
    for query in GOLD.values():
        assert query.merge in {"append", "replace", "since"}
        assert hasattr(plans, query.options.get("plan", "plan_all"))
    query = load("lag_history")
    assert (query.declared.layer, query.declared.day_of) == (Layer.GOLD, "sample_ts")
    assert query.merge == "since"
    assert query.declared.schema.field("sample_ts") == pa.field(
        "sample_ts", TIME, nullable=False
    )


def test_the_inputs_of_a_table_are_those_of_its_views_too() -> None:
    assert "partition_ownership_history" in GOLD["lag_history"].inputs
    assert "lag_history" not in GOLD["lag_history"].inputs


def test_structs_may_have_structs() -> None:
    member = TABLES["classic_group_records"].schema.field("members").type.value_type
    assert member.field("subscribed_topics").type == pa.list_(pa.string())
    assert member.field("assigned").type.value_type.num_fields == 3
