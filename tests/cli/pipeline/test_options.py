"""The options of all `coterie pipeline` commands: the source and its settings."""

from __future__ import annotations

import argparse
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coterie.cli.pipeline.options import (
    add_source_options,
    open_source_option,
    read_as_of,
)
from coterie.client.sasl import Plain
from coterie.client.secret import Secret
from coterie.pipeline.sources.cluster import ClusterSource
from coterie.pipeline.sources.source import Source


def opened(*words: str) -> Source:
    parser = argparse.ArgumentParser()
    add_source_options(parser)
    return open_source_option(parser.parse_args(words))


def test_a_cluster_has_the_settings_of_file_and_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=elsewhere:1\n"
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.username=alice\nsasl.password=xyzzy\n"
    )
    file.chmod(0o600)
    words = ("--command-config", str(file), "-X", "client.id=me", "--timeout", "500")
    source = pickle.loads(pickle.dumps(opened("--from", "kafka:broker:9092", *words)))
    assert isinstance(source, ClusterSource)
    assert source.describe() == "kafka:broker:9092"
    assert "xyzzy" not in repr(source)
    target = source.settings.target()
    assert target.bootstrap == "broker:9092"
    assert target.options.sasl == Plain("alice", Secret("xyzzy"))
    assert (target.options.client_id, target.options.api_timeout_ms) == ("me", 500)
    assert "PLAIN without TLS" in capsys.readouterr().err


def test_a_source_of_files_requires_no_connection_settings(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-0").mkdir()
    source = opened("--from", f"segments:{tmp_path}")
    assert source.describe() == f"segments:{tmp_path}"


def test_as_of_is_a_number_a_date_time_or_a_span_before_now() -> None:
    assert read_as_of("12") == 12
    at = datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert read_as_of("2026-11-21T10:00:00Z") == at
    assert read_as_of("2026-11-21 11:00:00+01:00") == at
    assert read_as_of("99999999999d") == datetime(1970, 1, 1, tzinfo=UTC)
    ago = read_as_of("1d2h")
    assert isinstance(ago, datetime)
    assert timedelta(hours=25) < datetime.now(UTC) - ago < timedelta(hours=27)


@pytest.mark.parametrize("text", ["yesterday", "-1", "1.5", ""])
def test_an_invalid_version_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected its number, a date"):
        read_as_of(text)
