"""The node of Apache Kafka that all tests share: listeners, users and authorizer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .kafka import KafkaNode

LISTENERS: Final = {"PLAIN": "PLAINTEXT", "SASL": "SASL_PLAINTEXT"}
PASSWORDS: Final = {
    "admin": "admin-secret",
    "alice": "alice-secret",
    "rita": "rita-secret",
    "otto": "otto-secret",
}
"""Users with PLAIN; tests create those with SCRAM. The rights of Rita and of Otto each
belong to one test."""
_PREFIX: Final = "COTERIE_TEST_KAFKA_AT_"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer"
_MODULES: Final = "org.apache.kafka.common.security"


def variable_of(listener: str) -> str:
    """Return the environment variable that holds a listener's address."""
    return _PREFIX + listener


def open_node(
    jars: Path, directory: Path, more: Mapping[str, str] | None = None
) -> KafkaNode:
    """Start the node with `more` settings; the listener PLAIN authorizes everything,
    SASL needs bindings."""
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    users = " ".join(f'user_{name}="{word}"' for name, word in PASSWORDS.items())
    unsecured = 'unsecuredLoginStringClaim_sub="admin"'
    bearer = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required {unsecured};"
    mechanisms = {
        "plain": f"{_MODULES}.plain.PlainLoginModule required {users};",
        "scram-sha-256": scram,
        "scram-sha-512": scram,
        "oauthbearer": bearer,
    }
    return KafkaNode(
        jars,
        directory,
        listeners=LISTENERS,
        settings={
            "authorizer.class.name": f"{_AUTHORIZER}.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "sasl.enabled.mechanisms": ",".join(mechanisms).upper(),
            **{
                f"listener.name.sasl.{mechanism}.sasl.jaas.config": module
                for mechanism, module in mechanisms.items()
            },
            **(more or {}),
        },
    )
