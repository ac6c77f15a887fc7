import asyncio

import pytest

from coterie.errors import SettingError
from coterie.operations.scope import TopicSelector, find_partitions
from coterie.types import TopicPartition
from tests.operations.cluster_model import ClusterModel, ModelLog


@pytest.mark.fact("C-64")
@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("orders", TopicSelector("orders")),
        ("orders:0", TopicSelector("orders", (0,))),
        ("orders:2,0,2", TopicSelector("orders", (0, 2))),
    ],
)
def test_a_selector_is_a_topic_or_some_of_its_partitions(
    text: str, selector: TopicSelector
) -> None:
    assert TopicSelector.read(text) == selector
    assert TopicSelector.read(str(selector)) == selector


@pytest.mark.fact("C-64")
@pytest.mark.parametrize(
    "text",
    ["", ":0", "t:", "t:0,", "t:-1", "t:a", "t:0:1", "t: 0", "t:4294967296", "t:²"],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="write topic, or topic:0,1,2"):
        TopicSelector.read(text)


def test_whole_topics_are_looked_up_and_named_partitions_are_not() -> None:
    model = ClusterModel(
        logs={TopicPartition("a", each): ModelLog() for each in (0, 1)}
    )
    selectors = [TopicSelector("b", (3,)), TopicSelector("a"), TopicSelector("gone")]
    found = asyncio.run(find_partitions(model, selectors))
    assert found.partitions == (("a", 0), ("a", 1), ("b", 3))
    assert [topic for topic, _ in found.errors] == ["gone"]

    found = asyncio.run(find_partitions(model, selectors[:1]))
    assert found.partitions == (("b", 3),)
    assert model.calls == ["describe_topics"]
