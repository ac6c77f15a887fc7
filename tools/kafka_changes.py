"""List what is new in a release of Apache Kafka, and what of it Coterie lacks.

    python -m tools.kafka_changes 4.3.1 4.4.0      # the changes from one to the other
    make kafka-changes ARGS='4.3.1 4.4.0'

It fetches the jars of both releases and compares their API versions, error codes,
configurations, and the fields of all messages and records. The lines marked with a star
are those that Coterie does not have. What the code of a release does differently is
found by running against it: `make interop` and `make differential` with the newer
version in tests/interop/pom.xml.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from coterie.broker.catalog.configs import TOPIC_CONFIGS
from coterie.broker.catalog.group_configs import GROUP_CONFIGS
from coterie.wire import messages
from coterie.wire.api import CLIENT_ONLY, IMPLEMENTED, ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.interop.kafka import Unavailable, fetch_jars

ROOT: Final = Path(__file__).resolve().parent.parent
PROGRAM: Final = Path(__file__).with_name("KafkaDefinitions.java")
JAVA_S: Final = 120.0
_SCHEMA: Final = re.compile(r"common/message/\w+\.json")
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)

Definitions: TypeAlias = dict[tuple[str, str], str]
"""What a release defines: its value by kind and name, as ("error", "25 UNKNOWN...")."""


def main(arguments: list[str]) -> int:
    """Print the changes; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("older", help="a release, as 4.3.1")
    parser.add_argument("newer", help="a later one, as 4.4.0")
    options = parser.parse_args(arguments)
    try:
        older, newer = (
            definitions_of(fetch_jars(ROOT / "build" / f"kafka-{release}", release))
            for release in (options.older, options.newer)
        )
    except Unavailable as reason:
        print(f"Apache Kafka is unavailable: {reason}", file=sys.stderr)
        return 1
    for line in changes(older, newer):
        print(line)
    return 0


def definitions_of(jars: Path) -> Definitions:
    """Return what the release in a folder of jars defines."""
    command = ["java", "-cp", f"{jars}/*", str(PROGRAM)]
    output = subprocess.run(
        command, check=True, timeout=JAVA_S, stdout=subprocess.PIPE, text=True
    ).stdout
    found = read_definitions(output)
    for jar in sorted(jars.glob("kafka-*.jar")):
        with zipfile.ZipFile(jar) as content:
            for name in filter(_SCHEMA.fullmatch, content.namelist()):
                found |= fields_of(content.read(name).decode())
    return found


def read_definitions(output: str) -> Definitions:
    """Parse the output of KafkaDefinitions.java. Identities of objects, which differ in
    every run, are left out."""
    found: Definitions = {}
    for line in output.splitlines():
        kind, name, value = line.split("\t")
        found[kind, name] = re.sub(r"@[0-9a-f]+", "", value)
    return found


def fields_of(schema: str) -> Definitions:
    """Return the versions and fields of a message or record from its JSON."""
    definition = json.loads(_COMMENT.sub("", schema))
    structs = {each["name"]: each for each in definition.get("commonStructs", ())}

    def walk(path: str, fields: list[Any]) -> Iterator[tuple[str, str]]:
        for field in fields:
            of_type = field["type"]
            inner = field.get("fields") or structs.get(
                of_type.removeprefix("[]"), {}
            ).get("fields", [])
            traits = (
                f"{name} {field[name]}"
                for name in (
                    "versions",
                    "nullableVersions",
                    "taggedVersions",
                    "default",
                )
                if name in field
            )
            yield f"{path}.{field['name']}", f"{of_type}, {', '.join(traits)}"
            yield from walk(f"{path}.{field['name']}", inner)

    name = definition["name"]
    flexible = definition.get("flexibleVersions", "none")
    return {
        ("message", name): f"{definition['validVersions']}, flexible {flexible}",
        **{
            ("field", path): value
            for path, value in walk(name, definition.get("fields", []))
        },
    }


def changes(
    older: Mapping[tuple[str, str], str], newer: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    """Yield a line for each change: what, the values before and after, and a star
    first if Coterie lacks it. The fields of new messages are left out."""
    for key in sorted(older.keys() | newer.keys()):
        before, after = older.get(key), newer.get(key)
        kind, name = key
        message = ("message", name.partition(".")[0])
        is_of_new = kind == "field" and message not in older
        if before == after or is_of_new:
            continue
        mark = " " if after is None or is_ours(kind, name, after) else "*"
        if before is None:
            yield f"{mark} new {kind} {name}: {after}"
        elif after is None:
            yield f"{mark} gone {kind} {name}: {before}"
        else:
            yield f"{mark} changed {kind} {name}: {before} -> {after}"


def is_ours(kind: str, name: str, value: str) -> bool:
    """Return whether Coterie has what a release defines. A broker's configuration that
    we do not have is not a gap."""
    match kind:
        case "api":
            number = int(name.split(maxsplit=1)[0])
            if number not in {key.value for key in ApiKey}:
                return False
            key = ApiKey(number)
            ours = IMPLEMENTED.get(key) or CLIENT_ONLY[key]
            return ours.high >= int(value.partition("-")[2])
        case "error":
            return int(name.split(maxsplit=1)[0]) in {code.value for code in ErrorCode}
        case "topic config":
            return name in TOPIC_CONFIGS
        case "group config":
            return name in GROUP_CONFIGS
        case "message":
            return hasattr(messages, name)
        case "field":
            return _has_field(name)
    return True


def _has_field(path: str) -> bool:
    """Return whether the message of a path like "FooRequest.Topics.TopicId" has a field
    of this name, here or in one of its structs."""
    name, *fields = path.split(".")
    message = getattr(messages, name, None)
    if message is None:
        return False
    struct = message
    for field in fields:
        ours = struct.FIELDS.get(re.sub(r"(?<!^)(?=[A-Z])", "_", field).lower())
        if ours is None:
            return False
        struct = getattr(ours, "element", None) or struct
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
