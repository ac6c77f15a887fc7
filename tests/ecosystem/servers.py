"""The servers that a suite runs on: `coterie serve`, or Apache Kafka to compare."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.ecosystem.suites import Suite
from tests.interop.kafka import KafkaNode, Unavailable, fetch_jars, listens
from tests.support.server_process import start_server

_MECHANISMS: Final = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
_OF_COTERIE: Final = ("authorizer",)
"""Settings that Kafka does not have."""


@contextmanager
def serving(suite: Suite, folder: Path) -> Iterator[dict[str, str]]:
    """Run the servers that a suite needs; yield the values of `{address}` and so on.

    Raises:
        Unavailable: the suite needs a port that is in use.
    """
    folder.mkdir(parents=True, exist_ok=True)
    advertised = ("--memory", "--advertised", suite.host)
    with ExitStack() as stack:
        if suite.port and listens(suite.port):
            raise Unavailable(f"its tests need port {suite.port}, which is in use")
        listen = f"127.0.0.1:{suite.port}"
        server = stack.enter_context(
            start_server(*advertised, settings=suite.settings, listen=listen)
        )
        values = _values(suite, server.addresses[0][1])
        if suite.sasl_users:
            users = folder / "users.toml"
            lines = [f'{name} = "{word}"\n' for name, word in suite.sasl_users.items()]
            users.write_text("".join(["[users]\n", *lines]), encoding="utf-8")
            with_sasl = start_server(
                *advertised,
                settings={
                    **suite.settings,
                    "sasl.users.file": str(users),
                    "sasl.enabled.mechanisms": _MECHANISMS,
                },
                listen="SASL_PLAINTEXT://127.0.0.1:0",
            )
            stack.enter_context(with_sasl)
            values["sasl_port"] = str(with_sasl.addresses[0][1])
        yield values


@contextmanager
def serving_kafka(suite: Suite, jars: Path) -> Iterator[dict[str, str]]:
    """Run one node of Apache Kafka with a suite's settings and users; yield the values.

    Raises:
        Unavailable: the jars cannot be fetched.
    """
    users = suite.sasl_users
    listeners = {"PLAIN": "PLAINTEXT"}
    settings = {
        name: value for name, value in suite.settings.items() if name not in _OF_COTERIE
    }
    if suite.settings.get("authorizer") == "acl":
        authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        settings["authorizer.class.name"] = authorizer
    if users:
        listeners["SASL"] = "SASL_PLAINTEXT"
        modules = "org.apache.kafka.common.security"
        words = " ".join(f'user_{name}="{word}"' for name, word in users.items())
        scram = f"{modules}.scram.ScramLoginModule required;"
        settings |= {
            "sasl.enabled.mechanisms": _MECHANISMS,
            "listener.name.sasl.plain.sasl.jaas.config": (
                f"{modules}.plain.PlainLoginModule required {words};"
            ),
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": scram,
        }
    credentials = [
        f"SCRAM-SHA-{size}=[name={name},password={word}]"
        for name, word in users.items()
        for size in (256, 512)
    ]
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaNode(
            fetch_jars(jars),
            Path(directory, "kafka"),
            listeners=listeners,
            settings=settings,
            format_with=[
                word for each in credentials for word in ("--add-scram", each)
            ],
            advertised=suite.host,
        ) as node,
    ):
        ports = {
            name: address.rpartition(":")[2] for name, address in node.addresses.items()
        }
        values = _values(suite, int(ports["PLAIN"]))
        if users:
            values["sasl_port"] = ports["SASL"]
        yield values


def _values(suite: Suite, port: int) -> dict[str, str]:
    return {"address": f"{suite.host}:{port}", "port": str(port)}
