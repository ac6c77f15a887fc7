import asyncio

import pytest

from coterie.errors import SettingError
from coterie.operations.selection import TopicSelector, resolve_partitions
from coterie.types import TopicPartition
from tests.operations.cluster_model import ClusterModel
from tests.operations.fake_admin import FakeLog


@pytest.mark.fact("C-64a")
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
    assert TopicSelector.parse(text) == selector
    assert TopicSelector.parse(str(selector)) == selector


@pytest.mark.fact("C-64a")
@pytest.mark.parametrize(
    "text",
    ["", ":0", "t:", "t:0,", "t:-1", "t:a", "t:0:1", "t: 0", "t:4294967296", "t:²"],
)
def test_invalid_input_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is not a topic or topic:0,1,2"):
        TopicSelector.parse(text)


def test_only_whole_topics_need_a_request() -> None:
    model = ClusterModel(
        known_logs={TopicPartition("a", each): FakeLog() for each in (0, 1)}
    )
    selectors = [TopicSelector("b", (3,)), TopicSelector("a"), TopicSelector("gone")]
    found = asyncio.run(resolve_partitions(model, selectors))
    assert found.partitions == (("a", 0), ("a", 1), ("b", 3))
    assert [topic for topic, _ in found.errors] == ["gone"]

    found = asyncio.run(resolve_partitions(model, selectors[:1]))
    assert found.partitions == (("b", 3),)
    assert model.calls == ["describe_topics"]
