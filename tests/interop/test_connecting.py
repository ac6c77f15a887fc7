"""Client and command line authenticate to both servers with the same settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.users import ScramDeletion, ScramUpsertion
from coterie.client.oauth import FixedToken, UnsecuredToken
from coterie.client.options import ClientOptions
from coterie.client.sasl import Credentials, OAuthBearer, Plain, Scram
from coterie.client.secret import Secret
from coterie.errors import AuthenticationFailed
from coterie.types import ScramMechanism
from tests.support.waiting import eventually

from .node import PASSWORDS
from .sasl_listener import SaslListener

pytestmark = pytest.mark.slow

WAIT_S = 120.0
PREPARED_OTHERWISE = "p\u00e4ssw\u00f6rd \ufb01"
"""A password that SASLprep (RFC 4013) would change; Kafka hashes the raw bytes."""
ADMIN = Plain("admin", Secret(PASSWORDS["admin"]))


def nodes_seen(sasl: SaslListener, credentials: Credentials) -> int:
    """Return the number of brokers in an authenticated client's metadata."""

    async def count() -> int:
        options = ClientOptions(sasl=credentials)
        async with AdminClient(sasl.address, options) as admin:
            return len((await admin.brokers.describe()).nodes)

    return asyncio.run(count())


@pytest.fixture
def checked(
    sasl: SaslListener, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], tuple[int, str]]:
    """A function that runs `coterie config check` and returns exit code and output."""

    def check(text: str) -> tuple[int, str]:
        file = tmp_path / "client.properties"
        file.write_text(text)
        file.chmod(0o600)
        where = ["--bootstrap-server", sasl.address, "--command-config", str(file)]
        code = main(["config", "check", "-o", "json", *where])
        return code, capsys.readouterr().out

    return check


def java_file(password: str) -> str:
    """Return a client.properties file for the tools of Apache Kafka."""
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        f'  username="admin" password="{password}";\n'
    )


def test_java_client_properties_authenticate(
    checked: Callable[[str], tuple[int, str]],
) -> None:
    code, out = checked(java_file(PASSWORDS["admin"]))
    [item] = json.loads(out)["items"]
    assert code == 0
    assert item["authenticated_as"] == "admin by PLAIN"
    assert item["error"] is None


def test_a_wrong_password_is_refused_with_the_same_message(
    checked: Callable[[str], tuple[int, str]],
) -> None:
    code, out = checked(java_file("hunter2"))
    [error] = json.loads(out)["errors"]
    assert (code, error["code"]) == (1, "AuthenticationFailed")
    reason = "rejects PLAIN: Authentication failed: Invalid username or password"
    assert error["message"].endswith(reason)
    assert "hunter2" not in out


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_new_scram_user_authenticates(
    mechanism: ScramMechanism, sasl: SaslListener, name: str
) -> None:
    known, word = mechanism.sasl_name, Secret(PREPARED_OTHERWISE)

    async def change(what: ScramUpsertion | ScramDeletion) -> None:
        options = ClientOptions(sasl=ADMIN)
        async with AdminClient(sasl.address, options) as admin:
            (await admin.users.alter([what])).one(name)

    def is_accepted() -> bool:
        """Return whether the changed user can authenticate; brokers have a delay."""
        try:
            return nodes_seen(sasl, Scram(known, name, word)) == 1
        except AuthenticationFailed:
            return False

    asyncio.run(change(ScramUpsertion(name, mechanism, word)))
    eventually(is_accepted, within_s=WAIT_S, expected="a broker that knows the user")
    reason = "Authentication failed during authentication due to invalid credentials"
    with pytest.raises(
        AuthenticationFailed, match=f"rejects {known}: {reason} with SASL"
    ):
        nodes_seen(sasl, Scram(known, name, Secret("p\u00e4ssw\u00f6rd fi")))
    asyncio.run(change(ScramDeletion(name, mechanism)))


def test_oauthbearer_tokens_are_accepted_by_kafka_only(sasl: SaslListener) -> None:
    """Authenticate with an unsecured token, for which Kafka is configured.

    Coterie does not support OAUTHBEARER.
    """
    anybody = OAuthBearer(UnsecuredToken("admin"))
    if sasl.kind == "coterie":
        with pytest.raises(
            AuthenticationFailed, match="does not support OAUTHBEARER; it"
        ):
            nodes_seen(sasl, anybody)
        return
    assert nodes_seen(sasl, anybody) == 1
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        nodes_seen(sasl, OAuthBearer(FixedToken(Secret("rubbish"))))
