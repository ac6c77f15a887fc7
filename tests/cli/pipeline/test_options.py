"""The options of all `coterie pipeline` commands: the source and its settings."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

import pytest

from coterie.cli.pipeline.options import add_source_options, open_source_option
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
