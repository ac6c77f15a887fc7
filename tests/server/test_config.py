"""Settings: Kafka's names and defaults; what cannot be is refused in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.errors import SettingError
from coterie.server.config import NAMES, make_settings, read_settings
from coterie.settings import Settings


def test_without_a_word_the_defaults_are_kafkas() -> None:
    assert read_settings() == Settings()


def test_every_setting_has_a_name_with_dots() -> None:
    assert NAMES["group.initial.rebalance.delay.ms"] == (
        "group_initial_rebalance_delay_ms"
    )
    assert all("_" not in name for name in NAMES)


@pytest.mark.parametrize(
    ("assignment", "attribute", "value"),
    [
        ("num.partitions=3", "num_partitions", 3),
        (" num.partitions = 3 ", "num_partitions", 3),
        ("group.initial.rebalance.delay.ms=0", "group_initial_rebalance_delay_ms", 0),
        ("auto.create.topics.enable=false", "auto_create_topics_enable", False),
        ("auto.create.topics.enable=TRUE", "auto_create_topics_enable", True),
        ("log.retention.ms=-1", "log_retention_ms", -1),
    ],
)
def test_an_assignment_sets(assignment: str, attribute: str, value: object) -> None:
    assert getattr(read_settings(None, [assignment]), attribute) == value


def test_a_file_sets_and_an_assignment_counts_more(tmp_path: Path) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text('num.partitions = 3\n"offset.metadata.max.bytes" = 100\n')
    settings = read_settings(file, ["num.partitions=4"])
    assert (settings.num_partitions, settings.offset_metadata_max_bytes) == (4, 100)


@pytest.mark.parametrize(
    ("assignment", "says"),
    [
        ("num.partitions", "NAME=VALUE"),
        ("num.partition=3", "did you mean num.partitions?"),
        ("zzz=3", "there is no setting 'zzz'"),
        ("num.partitions=0", "from 1 to 10000, not 0"),
        ("num.partitions=many", "a whole number from 1 to 10000, not 'many'"),
        ("num.partitions=1.5", "a whole number"),
        ("auto.create.topics.enable=1", "must be true or false, not '1'"),
        ("group.max.size=2147483648", "from 1 to 2147483647"),
        ("group.min.session.timeout.ms=2000000", "group.max.session.timeout.ms"),
        ("socket.request.max.bytes=1000", "message.max.bytes"),
        ("message.max.bytes=1000", "offset.metadata.max.bytes"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(
    assignment: str, says: str
) -> None:
    with pytest.raises(SettingError) as refused:
        read_settings(None, [assignment])
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("num.partitions = ", "is not TOML"),
        ("num.partitions = true", "a whole number"),
        ('auto.create.topics.enable = "maybe"', "true or false"),
        ("num.partitions = [1]", "a whole number"),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as refused:
        read_settings(file)
    assert says in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read"):
        read_settings(tmp_path / "none.toml")


def test_values_may_be_typed() -> None:
    settings = make_settings({"num.partitions": 2, "delete.topic.enable": False})
    assert (settings.num_partitions, settings.delete_topic_enable) == (2, False)
