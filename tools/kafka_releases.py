"""Write the versions of every API that each Kafka release advertises.

    python -m tools.kafka_releases                                # rewrite the table
    python -m tools.kafka_releases --compare 3.9 127.0.0.1:9092   # with a broker

The versions are read from the jars of kafka-clients, which Maven fetches, by
KafkaReleases.java. Each release is represented by its newest patch release in
`RELEASES`. The table is for a broker with default settings: of a cluster with ZooKeeper
before 3.3, with KRaft since then; without unstable versions and telemetry.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from coterie.wire import messages as m

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "src" / "coterie" / "wire" / "kafka_releases.tsv"
JARS: Final = ROOT / "build" / "kafka-releases"
PROGRAM: Final = Path(__file__).with_name("KafkaReleases.java")
MAVEN_S: Final = 600.0
JAVA_S: Final = 120.0

RELEASES: Final[Mapping[str, str]] = {
    "0.11.0": "0.11.0.3",
    "1.0": "1.0.2",
    "1.1": "1.1.1",
    "2.0": "2.0.1",
    "2.1": "2.1.1",
    "2.2": "2.2.2",
    "2.3": "2.3.1",
    "2.4": "2.4.1",
    "2.5": "2.5.1",
    "2.6": "2.6.3",
    "2.7": "2.7.2",
    "2.8": "2.8.2",
    "3.0": "3.0.2",
    "3.1": "3.1.2",
    "3.2": "3.2.3",
    "3.3": "3.3.2",
    "3.4": "3.4.1",
    "3.5": "3.5.2",
    "3.6": "3.6.2",
    "3.7": "3.7.2",
    "3.8": "3.8.1",
    "3.9": "3.9.1",
    "4.0": "4.0.1",
    "4.1": "4.1.1",
    "4.2": "4.2.0",
    "4.3": "4.3.1",
    "4.4": "4.4.0",
}
"""The patch release that represents each release."""

_PARENT: Final = """\
<project><modelVersion>4.0.0</modelVersion><groupId>coterie</groupId>
<artifactId>releases</artifactId><version>1</version><packaging>pom</packaging>
<build><plugins><plugin><groupId>org.apache.maven.plugins</groupId>
<artifactId>maven-dependency-plugin</artifactId><configuration>
<outputDirectory>{into}</outputDirectory><artifactItems>{items}</artifactItems>
</configuration></plugin></plugins></build></project>
"""
_ITEM: Final = """\
<artifactItem><groupId>{group}</groupId><artifactId>{name}</artifactId>
<version>{version}</version></artifactItem>
"""
_SLF4J: Final = ("org.slf4j", "slf4j-api", "1.7.36")


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--compare", nargs=2, metavar=("RELEASE", "HOST:PORT"))
    compare = parser.parse_args(arguments).compare
    if compare:
        return _compare(*compare)
    rows = read_rows(_run_java(_fetch_jars(JARS)))
    TABLE.write_text(format_table(rows), encoding="utf-8")
    print(f"{TABLE.relative_to(ROOT)}: {len(RELEASES)} releases")
    return 0


Rows = dict[int, dict[str, str]]
"""The cells of each API's row, by column, by API key. Ranges are written "0-3"."""
_NAME: Final = "api"


def read_rows(output: str) -> Rows:
    """Parse the output of KafkaReleases.java."""
    rows: Rows = {}
    for line in output.splitlines():
        release, key, name, low, high = line.split("\t")
        row = rows.setdefault(int(key), {})
        row[_NAME] = name  # the newest release's: APIs have been renamed
        row[release] = f"{low}-{high}"
    return rows


def format_table(rows: Rows) -> str:
    """Return the table: a row for each API, a column for each release."""
    columns = (_NAME, *RELEASES)
    lines = ["\t".join(("key", *columns))]
    for key, row in sorted(rows.items()):
        cells = (row.get(column, "-") for column in columns)
        lines.append("\t".join((str(key), *cells)))
    return "\n".join(lines) + "\n"


def differences(ours: Mapping[int, str], theirs: Mapping[int, str]) -> Iterable[str]:
    """Yield a line for each API whose range differs."""
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            yield f"API {key}: table {ours.get(key)}, broker {theirs.get(key)}"


def _fetch_jars(into: Path) -> Path:
    into.mkdir(parents=True, exist_ok=True)
    wanted = [("org.apache.kafka", "kafka-clients", each) for each in RELEASES.values()]
    items = "".join(
        _ITEM.format(group=group, name=name, version=version)
        for group, name, version in [*wanted, _SLF4J]
    )
    pom = into / "pom.xml"
    pom.write_text(_PARENT.format(into=into, items=items), encoding="utf-8")
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy"]
    subprocess.run(command, check=True, timeout=MAVEN_S)
    return into


def _run_java(jars: Path) -> str:
    slf4j = jars / f"{_SLF4J[1]}-{_SLF4J[2]}.jar"
    releases = (
        f"{release}={jars / f'kafka-clients-{patch}.jar'}"
        for release, patch in RELEASES.items()
    )
    command = ["java", "-cp", str(slf4j), str(PROGRAM), *releases]
    done = subprocess.run(
        command, check=True, timeout=JAVA_S, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _compare(release: str, address: str) -> int:
    header, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    column = header.split("\t").index(release)
    cells = [line.split("\t") for line in lines]
    ours = {int(row[0]): row[column] for row in cells if row[column] != "-"}
    found = list(differences(ours, asyncio.run(_advertised(address))))
    print("\n".join(found) or f"{release}: {len(ours)} APIs, no difference")
    return 1 if found else 0


async def _advertised(address: str) -> dict[int, str]:
    """Return the ranges that a broker advertises. Raises OSError."""
    from coterie.wire.codec import decode, encode
    from coterie.wire.framing import RequestHeaderV0, write_request

    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = encode(m.ApiVersionsRequest(), 0)
    header = RequestHeaderV0(m.ApiVersionsRequest.API_KEY, 0, 1)
    writer.write(write_request(header, "releases", body, flexible=False))
    size = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(size)
    writer.close()
    response, _ = decode(m.ApiVersionsResponse, 0, frame, 4)
    return {
        each.api_key: f"{each.min_version}-{each.max_version}"
        for each in response.api_keys
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
