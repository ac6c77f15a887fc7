"""Settings: Kafka's names and defaults, and errors for invalid values."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.catalog.configs import BROKER_CONFIGS
from coterie.broker.server.config import make_settings, read_settings
from coterie.errors import SettingError
from coterie.settings import Settings


def test_the_defaults_are_kafkas() -> None:
    assert read_settings() == Settings()


def test_every_setting_has_a_name_with_dots() -> None:
    assert BROKER_CONFIGS["group.initial.rebalance.delay.ms"] == (
        "group_initial_rebalance_delay_ms"
    )
    assert all("_" not in name for name in BROKER_CONFIGS)


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
        ("offset.metadata.max.bytes=-1", "offset_metadata_max_bytes", -1),
        (
            "group.initial.rebalance.delay.ms=-1",
            "group_initial_rebalance_delay_ms",
            -1,
        ),
    ],
)
def test_a_name_value_pair_sets_a_value(
    assignment: str, attribute: str, value: object
) -> None:
    assert getattr(read_settings(None, [assignment]), attribute) == value


def test_a_name_value_pair_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text('num.partitions = 3\n"offset.metadata.max.bytes" = 100\n')
    settings = read_settings(file, ["num.partitions=4"])
    assert (settings.num_partitions, settings.offset_metadata_max_bytes) == (4, 100)


def test_defaults_are_overridden_by_the_file_and_by_a_pair(tmp_path: Path) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text("num.partitions = 3\n")
    names = ("num.partitions", "group.max.size", "offset.metadata.max.bytes")
    settings = read_settings(file, ["group.max.size=4"], dict.fromkeys(names, "2"))
    assert (settings.num_partitions, settings.group_max_size) == (3, 4)
    assert settings.offset_metadata_max_bytes == 2


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("num.partitions", "NAME=VALUE"),
        ("num.partition=3", "did you mean num.partitions?"),
        ("max.connections.per.ip=0", "no client could connect"),
        ("max.connections.per.ip.overrides=here", "'here' is not HOST:LIMIT"),
        ("queued.max.request.bytes=1", "must not be less than socket.request.max"),
        ("connection.request.timeout.ms=999", "from 1000"),
        ("log.journal.bytes=65535", "from 65536 to 1073741824"),
        ("ssl.client.auth=maybe", "ssl.client.auth: 'maybe' is invalid; valid are "),
        ("zzz=3", "unknown setting 'zzz'"),
        ("num.partitions=0", "from 1 to 10000, not 0"),
        ("num.partitions=many", "a whole number from 1 to 10000, not 'many'"),
        ("num.partitions=1.5", "a whole number"),
        ("auto.create.topics.enable=1", "must be true or false, not '1'"),
        ("group.max.size=2147483648", "from 1 to 2147483647"),
        ("group.min.session.timeout.ms=2000000", "group.max.session.timeout.ms"),
        ("socket.request.max.bytes=1000", "message.max.bytes"),
        ("socket.request.without.records.max.bytes=0", "from 1024 to 2147483647"),
        ("socket.request.max.elements=0", "from 1000 to 2147483647"),
        ("max.partitions=0", "from 1 to 2147483647"),
        ("catalog.max.entries=0", "from 1 to 2147483647"),
        ("group.max.pending.members=0", "from 1 to 2147483647"),
        ("offsets.topic.partition.max.groups=0", "from 1 to 2147483647"),
        (
            "max.incremental.fetch.session.cache.partitions=-1",
            "from 0 to 2147483647",
        ),
        ("batch.records.max=0", "from 1 to 2147483647"),
        ("batch.decompressed.bytes.max=1000", "from 65536 to 2147483647"),
        ("message.max.bytes=1000", "offset.metadata.max.bytes"),
        ("group.consumer.max.size=0", "from 1 to 2147483647"),
        ("group.consumer.regex.refresh.interval.ms=9999", "from 10000 to"),
        (
            "group.consumer.migration.policy=up",
            "'up' is invalid",
        ),
        ("group.coordinator.rebalance.protocols=classic,share", "'share' is invalid"),
        ("group.coordinator.rebalance.protocols=consumer", "must contain classic"),
        ("ssl.key.password=x", "put it into a file, and name the file with --config"),
        ("ssl.keystore.password=x", "ssl.key.password decrypts its key"),
        ("ssl.keystore.type=JKS", "'JKS' is invalid; valid are PEM"),
        ("ssl.client.auth=maybe", "valid are none, requested, required"),
        ("sasl.enabled.mechanisms=GSSAPI", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ("sasl.enabled.mechanisms=", "must name at least one mechanism"),
        (
            "authorizer=none",
            "valid are by-listener, allow-all, acl",
        ),
        ("authorizer.class.name=a.B", "authorizer=acl is the StandardAuthorizer"),
        ("connections.max.idle.ms=999", "at least 1000, or -1 for no limit"),
        ("super.users=alice", "'alice' is not a principal; write for example"),
    ],
)
def test_an_invalid_value_is_refused_with_the_valid_values(
    assignment: str, message: str
) -> None:
    with pytest.raises(SettingError) as refused:
        read_settings(None, [assignment])
    assert message in str(refused.value)


def test_secrets_of_a_file_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text('ssl.key.password = "open sesame"\n')
    settings = read_settings(file)
    assert settings.ssl_key_password == "open sesame"
    assert "sesame" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("num.partitions = ", "is not TOML"),
        ("num.partitions = true", "a whole number"),
        ('auto.create.topics.enable = "maybe"', "true or false"),
        ("num.partitions = [1]", "a whole number"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "coterie.toml"
    file.write_text(text)
    with pytest.raises(SettingError) as refused:
        read_settings(file)
    assert message in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot read"):
        read_settings(tmp_path / "none.toml")


def test_values_may_be_numbers_and_booleans() -> None:
    settings = make_settings({"num.partitions": 2, "delete.topic.enable": False})
    assert (settings.num_partitions, settings.delete_topic_enable) == (2, False)


@pytest.mark.parametrize(
    "name",
    [
        "connections.max.idle.ms",
        "group.min.session.timeout.ms",
        "log.retention.bytes",
        "log.retention.ms",
        "queued.max.request.bytes",
    ],
)
def test_any_negative_number_means_no_limit(name: str) -> None:
    settings = make_settings({name: -7})
    assert getattr(settings, name.replace(".", "_")) == -7


def refusal(**values: object) -> str:
    """Return the error of these settings; `max_x` stands for group.consumer.max.x."""
    with pytest.raises(SettingError) as refused:
        make_settings(
            {f"group.consumer.{key.replace('_', '.')}": v for key, v in values.items()}
        )
    return str(refused.value)


@pytest.mark.fact("E24-01a", "E24-01b")
@pytest.mark.parametrize(
    "what", ["session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"]
)
def test_a_value_outside_its_range_is_refused(what: str) -> None:
    key = what.replace(".", "_")
    bounds = {f"min_{key}": 10_000, f"max_{key}": 20_000}
    names = (f"group.consumer.{what}", f"min.{what}", f"max.{what}")
    for value, bound in ((9_999, names[1]), (20_001, names[2])):
        error_text = refusal(**bounds, **{key: value})
        assert all(name in error_text for name in (names[0], bound, str(value)))
    error_text = refusal(**{f"min_{key}": 70_001, f"max_{key}": 70_000})
    assert all(name in error_text for name in (*names[1:], "70001", "70000"))


def test_the_bounds_of_a_range_are_valid() -> None:
    for value in (10_000, 20_000):
        name = "group.consumer.session.timeout.ms"
        bounds = {name.replace(".session", ".min.session"): 10_000}
        bounds[name.replace(".session", ".max.session")] = 20_000
        settings = make_settings({**bounds, name: value})
        assert settings.group_consumer_session_timeout_ms == value


@pytest.mark.fact("E24-01c")
@pytest.mark.parametrize("session", [15_000, 14_999])
def test_the_session_timeout_must_exceed_the_heartbeat_interval(session: int) -> None:
    error_text = refusal(
        min_session_timeout_ms=1,
        session_timeout_ms=session,
        heartbeat_interval_ms=15_000,
    )
    assert "group.consumer.heartbeat.interval.ms (15000) must be less" in error_text
    assert f"group.consumer.session.timeout.ms ({session})" in error_text


@pytest.mark.fact("E24-01d")
@pytest.mark.parametrize("none", ["", " , ", []])
def test_an_empty_list_of_assignors_is_refused(none: object) -> None:
    assert "group.consumer.assignors must name" in refusal(assignors=none)


@pytest.mark.fact("E24-01e")
@pytest.mark.parametrize("twice", ["range,uniform, range", ["range", "range"]])
def test_a_repeated_assignor_is_refused(twice: object) -> None:
    assert refusal(assignors=twice) == "group.consumer.assignors names 'range' twice"


@pytest.mark.parametrize("word", ["disabled", "Upgrade", "DOWNGRADE", "bidirectional"])
def test_enumerated_values_ignore_case(word: str) -> None:
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
        ("group.coordinator.append.linger.ms", "flushed at once"),
        ("group.coordinator.cached.buffer.max.bytes", "flushed at once"),
        ("group.consumer.assignor.offload.enable", "one event loop"),
        ("offsets.load.buffer.size", "no buffer"),
        ("offsets.topic.segment.bytes", "up to 64 MiB"),
        ("offsets.topic.replication.factor", "no replicas"),
        ("offsets.topic.compression.codec", "not compressed"),
        ("group.streams.session.timeout.ms", "streams groups are not supported"),
    ],
)
def test_a_setting_without_effect_is_refused_with_the_reason(
    name: str, why: str
) -> None:
    with pytest.raises(SettingError) as refused:
        read_settings(None, [f"{name}=1"])
    assert str(refused.value).startswith(f"{name} has no effect in Coterie: ")
    assert why in str(refused.value)


@pytest.mark.fact("F5-14")
def test_the_default_assignors_are_kafkas_and_uniform_is_first() -> None:
    assert make_settings({}).group_consumer_assignors == ("uniform", "range")


def test_the_first_backoff_after_failures_is_at_most_the_largest() -> None:
    values = ["sasl.failure.backoff.ms=2", "sasl.failure.backoff.max.ms=1"]
    with pytest.raises(SettingError, match="must not be more than"):
        read_settings(None, values)
