"""kcat, the tool people have at hand: Debian's, with the librdkafka it came with."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from .admin import committed_offsets, produce

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
ANSWER_S = 40

pytestmark = pytest.mark.skipif(
    KCAT is None,
    reason="KCAT IS NOT INSTALLED: nothing was proven about it (apt install kcat)",
)


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    """Run kcat to its end and return what it printed."""
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


def test_the_metadata_name_the_broker_and_the_topic(bootstrap: str, topic: str) -> None:
    said = kcat(bootstrap, "-L")
    assert f"at {bootstrap}" in said
    assert f'topic "{topic}" with 4 partitions' in said


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_as_they_went(bootstrap: str, topic: str, codec: str) -> None:
    lines = "".join(f"{i} {'coterie ' * 20}\n" for i in range(100))
    kcat(bootstrap, "-P", "-t", topic, "-p", "1", "-z", codec, stdin=lines)
    read = kcat(bootstrap, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q")
    assert read == lines


def test_keys_and_offsets_are_shown(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", stdin="a:1\nb:2\n")
    where = ("-t", topic, "-p", "0", "-o", "beginning", "-e", "-q")
    assert kcat(bootstrap, "-C", *where, "-f", "%o %k=%s\n") == "0 a=1\n1 b=2\n"


def test_an_offset_is_found_by_time(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, {0: [b"x"] * 7})
    said = kcat(bootstrap, "-Q", "-t", f"{topic}:0:1")
    assert said.split() == [topic, "[0]", "offset", "0"]


@pytest.mark.fact("G4-03")
def test_a_group_reads_everything_once_and_commits(
    bootstrap: str, topic: str, group: str
) -> None:
    values = {p: [b"%d-%d" % (p, i) for i in range(25)] for p in range(4)}
    produce(bootstrap, topic, values)
    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000")
    said = kcat(bootstrap, "-G", group, "-c", "100", "-q", *settings, topic)
    assert sorted(said.split()) == sorted(
        value.decode() for those in values.values() for value in those
    )
    assert committed_offsets(bootstrap, group) == {(topic, p): 25 for p in range(4)}
