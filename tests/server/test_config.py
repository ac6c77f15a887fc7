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
        ("ssl.client.auth=Required", "ssl_client_auth", "required"),
        ("sasl.enabled.mechanisms=plain", "sasl_enabled_mechanisms", ("PLAIN",)),
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
        ("group.consumer.max.size=0", "from 1 to 2147483647"),
        ("group.consumer.regex.refresh.interval.ms=9999", "from 10000 to"),
        ("group.consumer.migration.policy=up", "'up' is none of them"),
        ("group.coordinator.rebalance.protocols=classic,share", "'share' is none"),
        ("group.coordinator.rebalance.protocols=consumer", "must contain classic"),
        ("ssl.key.password=x", "put it into a file, and name that with --config"),
        ("ssl.keystore.password=x", "ssl.key.password is its key's"),
        ("ssl.keystore.type=JKS", "is made of PEM; 'JKS' is none of them"),
        ("ssl.client.auth=maybe", "is made of none, requested, required"),
        ("sasl.enabled.mechanisms=GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("sasl.enabled.mechanisms=", "must name at least one mechanism"),
        ("authorizer=none", "authorizer is made of by-listener, allow-all, acl"),
        ("authorizer.class.name=a.B", "authorizer=acl is the StandardAuthorizer"),
        ("super.users=alice", "'alice', which is no principal; write for example"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(
    assignment: str, says: str
) -> None:
    with pytest.raises(SettingError) as refused:
        read_settings(None, [assignment])
    assert says in str(refused.value)


def test_a_file_may_have_secrets_and_they_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text('ssl.key.password = "open sesame"\n')
    settings = read_settings(file)
    assert settings.ssl_key_password == "open sesame"
    assert "sesame" not in repr(settings)


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


def refusal(**values: object) -> str:
    """Why these settings together are refused; `max_x` is group.consumer.max.x."""
    with pytest.raises(SettingError) as refused:
        make_settings(
            {f"group.consumer.{key.replace('_', '.')}": v for key, v in values.items()}
        )
    return str(refused.value)


@pytest.mark.fact("E24-01")
@pytest.mark.parametrize(
    "what", ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"]
)
def test_a_value_lies_between_its_least_and_its_most(what: str) -> None:
    key = what.replace(".", "_")
    bounds = {f"min_{key}": 10_000, f"max_{key}": 20_000}
    names = (f"group.consumer.{what}", f"min.{what}", f"max.{what}")
    for value, bound in ((9_999, names[1]), (20_001, names[2])):
        said = refusal(**bounds, **{key: value})
        assert all(name in said for name in (names[0], bound, str(value)))
    said = refusal(**{f"min_{key}": 70_001, f"max_{key}": 70_000})
    assert all(name in said for name in (*names[1:], "70001", "70000"))


def test_a_value_may_be_its_least_or_its_most() -> None:
    for value in (10_000, 20_000):
        name = "group.consumer.session.timeout.ms"
        bounds = {name.replace(".session", ".min.session"): 10_000}
        bounds[name.replace(".session", ".max.session")] = 20_000
        settings = make_settings({**bounds, name: value})
        assert settings.group_consumer_session_timeout_ms == value


@pytest.mark.fact("E24-01")
@pytest.mark.parametrize("session", [15_000, 14_999])
def test_a_session_is_longer_than_the_heartbeat_interval(session: int) -> None:
    said = refusal(
        min_session_timeout_ms=1,
        session_timeout_ms=session,
        heartbeat_interval_ms=15_000,
    )
    assert "group.consumer.heartbeat.interval.ms (15000) must be less" in said
    assert f"group.consumer.session.timeout.ms ({session})" in said


@pytest.mark.fact("E24-01")
@pytest.mark.parametrize("none", ["", " , ", []])
def test_there_is_an_assignor_at_least(none: object) -> None:
    assert "group.consumer.assignors must name" in refusal(assignors=none)


@pytest.mark.fact("E24-01")
@pytest.mark.parametrize("twice", ["range,uniform, range", ["range", "range"]])
def test_no_assignor_is_named_twice(twice: object) -> None:
    assert refusal(assignors=twice) == "group.consumer.assignors names 'range' twice"


@pytest.mark.parametrize("word", ["disabled", "Upgrade", "DOWNGRADE", "bidirectional"])
def test_the_case_of_a_word_does_not_matter(word: str) -> None:
    settings = make_settings(
        {
            "group.consumer.migration.policy": word,
            "group.coordinator.rebalance.protocols": ["Classic"],
        }
    )
    assert settings.group_consumer_migration_policy == word.lower()
    assert settings.group_coordinator_rebalance_protocols == ("classic",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("group.coordinator.new.enable", "one coordinator"),
        ("group.coordinator.threads", "one event loop"),
        ("group.coordinator.background.threads", "one event loop"),
        ("group.coordinator.append.linger.ms", "one flush"),
        ("group.coordinator.cached.buffer.max.bytes", "one flush"),
        ("group.consumer.assignor.offload.enable", "one event loop"),
        ("offsets.load.buffer.size", "no buffer"),
        ("offsets.topic.segment.bytes", "no segments"),
        ("offsets.topic.replication.factor", "no replicas"),
        ("offsets.topic.compression.codec", "not compressed"),
        ("group.share.session.timeout.ms", "classic groups or consumer groups"),
    ],
)
def test_what_would_do_nothing_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(SettingError) as refused:
        read_settings(None, [f"{name}=1"])
    assert str(refused.value).startswith(f"{name} means nothing here: ")
    assert why in str(refused.value)


@pytest.mark.fact("F5-14")
def test_the_assignors_on_offer_are_kafkas_and_uniform_is_the_first() -> None:
    assert make_settings({}).group_consumer_assignors == ("uniform", "range")
