"""kcat, from Debian, with the librdkafka of that package."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.real_clients.confluent_admin import committed_offsets, produce

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
ANSWER_S = 120

pytestmark = pytest.mark.skipif(
    KCAT is None,
    reason="KCAT IS NOT INSTALLED: nothing was proven about it (apt install kcat)",
)


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    """Run kcat and return its standard output."""
    assert KCAT is not None
    command = [KCAT, "-b", bootstrap, *arguments]
    done = subprocess.run(
        command,
        check=False,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=ANSWER_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_metadata_lists_the_broker_and_the_topic(bootstrap: str, topic: str) -> None:
    output = kcat(bootstrap, "-L")
    assert all(f"at {address}" in output for address in bootstrap.split(","))
    assert f'topic "{topic}" with 4 partitions' in output


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_reads_the_lines_it_produced(
    bootstrap: str, topic: str, codec: str
) -> None:
    lines = "".join(f"{i} {'coterie ' * 20}\n" for i in range(100))
    kcat(bootstrap, "-P", "-t", topic, "-p", "1", "-z", codec, stdin=lines)
    read = kcat(bootstrap, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q")
    assert read == lines


def test_keys_and_offsets_are_shown(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", stdin="a:1\nb:2\n")
    where = ("-t", topic, "-p", "0", "-o", "beginning", "-e", "-q")
    assert kcat(bootstrap, "-C", *where, "-f", "%o %k=%s\n") == "0 a=1\n1 b=2\n"


def test_offsets_are_listed_by_timestamp(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, {0: [b"x"] * 7})
    output = kcat(bootstrap, "-Q", "-t", f"{topic}:0:1")
    assert output.split() == [topic, "[0]", "offset", "0"]


@pytest.mark.fact("G4-03")
def test_a_group_reads_each_record_once_and_commits(
    bootstrap: str, topic: str, group: str
) -> None:
    values = {p: [b"%d-%d" % (p, i) for i in range(25)] for p in range(4)}
    produce(bootstrap, topic, values)
    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=45000")
    output = kcat(bootstrap, "-G", group, "-c", "100", "-q", *settings, topic)
    assert sorted(output.split()) == sorted(
        value.decode() for those in values.values() for value in those
    )
    assert committed_offsets(bootstrap, group) == {(topic, p): 25 for p in range(4)}
