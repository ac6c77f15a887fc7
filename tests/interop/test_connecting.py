"""How the client and the command line come in: the same settings at both doors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.client import AdminClient, ClientOptions, Plain, Scram, Secret
from coterie.client.admin.user_values import ScramDeletion, ScramUpsertion
from coterie.client.oauth import FixedToken, UnsecuredToken
from coterie.client.sasl import Credentials, OAuthBearer
from coterie.errors import AuthenticationFailed
from coterie.types import ScramMechanism
from tests.clients.waiting import eventually

from .door import Door
from .node import PASSWORDS

pytestmark = pytest.mark.slow

WAIT_S = 30
PREPARED_OTHERWISE = "p\u00e4ssw\u00f6rd \ufb01"
"""RFC 4013 would change it; Kafka and its clients hash the bytes."""
ADMIN = Plain("admin", Secret(PASSWORDS["admin"]))


def nodes_seen(door: Door, credentials: Credentials) -> int:
    """How many brokers a client sees, if it is let in."""

    async def look() -> int:
        options = ClientOptions(sasl=credentials)
        async with AdminClient(door.address, options) as admin:
            return len((await admin.describe_cluster()).nodes)

    return asyncio.run(look())


@pytest.fixture
def checked(
    door: Door, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], tuple[int, str]]:
    """Runs `coterie config check` with a client.properties; exit code and output."""

    def check(text: str) -> tuple[int, str]:
        file = tmp_path / "client.properties"
        file.write_text(text)
        file.chmod(0o600)
        where = ["--bootstrap-server", door.address, "--command-config", str(file)]
        code = main(["config", "check", "-o", "json", *where])
        return code, capsys.readouterr().out

    return check


def java_file(password: str) -> str:
    """What Apache's own tools take."""
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        f'  username="admin" password="{password}";\n'
    )


def test_javas_client_properties_let_us_in(
    checked: Callable[[str], tuple[int, str]],
) -> None:
    code, out = checked(java_file(PASSWORDS["admin"]))
    [item] = json.loads(out)["items"]
    assert code == 0
    assert item["authenticated_as"] == "admin by PLAIN"
    assert item["error"] is None


def test_a_wrong_password_is_refused_in_the_same_words(
    checked: Callable[[str], tuple[int, str]],
) -> None:
    code, out = checked(java_file("hunter2"))
    [error] = json.loads(out)["errors"]
    assert (code, error["code"]) == (1, "AuthenticationFailed")
    said = "refuses PLAIN: Authentication failed: Invalid username or password"
    assert error["message"].endswith(said)
    assert "hunter2" not in out


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_user_who_has_just_been_made_comes_in(
    mechanism: ScramMechanism, door: Door, name: str
) -> None:
    known, word = mechanism.sasl_name, Secret(PREPARED_OTHERWISE)

    async def change(what: ScramUpsertion | ScramDeletion) -> None:
        options = ClientOptions(sasl=ADMIN)
        async with AdminClient(door.address, options) as admin:
            (await admin.alter_scram_users([what])).one(name)

    def comes_in() -> bool:
        """Kafka's brokers learn of a user a moment after the controller."""
        try:
            return nodes_seen(door, Scram(known, name, word)) == 1
        except AuthenticationFailed:
            return False

    asyncio.run(change(ScramUpsertion(name, mechanism, word)))
    eventually(comes_in, within_s=WAIT_S, wanted="a broker that knows the user")
    said = "Authentication failed during authentication due to invalid credentials"
    with pytest.raises(
        AuthenticationFailed, match=f"refuses {known}: {said} with SASL"
    ):
        nodes_seen(door, Scram(known, name, Secret("p\u00e4ssw\u00f6rd fi")))
    asyncio.run(change(ScramDeletion(name, mechanism)))


def test_tokens_are_taken_where_they_are(door: Door) -> None:
    """Kafka takes unsecured ones here; Coterie has no OAUTHBEARER."""
    anybody = OAuthBearer(UnsecuredToken("admin"))
    if door.kind == "coterie":
        with pytest.raises(AuthenticationFailed, match="does not take OAUTHBEARER; it"):
            nodes_seen(door, anybody)
        return
    assert nodes_seen(door, anybody) == 1
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        nodes_seen(door, OAuthBearer(FixedToken(Secret("rubbish"))))
