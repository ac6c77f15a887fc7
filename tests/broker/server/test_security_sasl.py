"""SASL authentication over sockets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.auth.acl import Operation, RequestContext, ResourceType
from coterie.auth.authorizer import AllowAll
from coterie.broker.log.memory import MemoryLog
from coterie.broker.server import log_limit
from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.failed_attempts import FREE_BY_USER
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import ThreadServer, WireClient
from tests.broker.server.secured import (
    MECHANISMS,
    USERS,
    handshake,
    plain_token,
    send_bare,
    send_token,
    sign_in,
    users_file,
)
from tests.support.waiting import eventually

ILLEGAL = ErrorCode.ILLEGAL_SASL_STATE
REFUSED = ErrorCode.SASL_AUTHENTICATION_FAILED


class Listening(AllowAll):
    """An authorizer that records request contexts."""

    def __init__(self) -> None:
        self.callers: set[str] = set()

    def authorize(
        self,
        caller: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        self.callers.add(str(caller.principal))
        return True


def secured(
    directory: Path, *, log: MemoryLog | None = None, **settings: Any
) -> ThreadServer:
    values: dict[str, Any] = {
        "sasl_enabled_mechanisms": MECHANISMS,
        "sasl_users_file": str(users_file(directory)),
        "connection_failed_authentication_delay_ms": 20,
        "sasl_failure_backoff_ms": 0,
        **settings,
    }
    return ThreadServer(protocol=SecurityProtocol.SASL_PLAINTEXT, log=log, **values)


@pytest.fixture(autouse=True)
def _every_log_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limit, "INTERVAL_S", 0.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    with secured(tmp_path_factory.mktemp("users")) as running:
        yield running


@pytest.fixture
def client(server: ThreadServer) -> Iterator[WireClient]:
    with server.client() as connected:
        yield connected


# Successful authentication.


@pytest.mark.fact("G4-05")
@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("user", USERS)
def test_a_password_authenticates(client: WireClient, user: str, version: int) -> None:
    assert client.call(m.ApiVersionsRequest(), 2).error_code == 0
    shaken = handshake(client, "PLAIN")
    assert (shaken.error_code, tuple(shaken.mechanisms)) == (0, MECHANISMS)
    answer = send_token(client, plain_token(user, USERS[user]), version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)
    assert client.call(m.MetadataRequest(topics=[])).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_authorizer_gets_the_principal(tmp_path: Path, mechanism: str) -> None:
    listening = Listening()
    with secured(tmp_path) as server:
        server.server.assembly.broker.authorizer = listening
        with server.client() as client:
            assert sign_in(client, "bob", mechanism=mechanism).error_code == 0
            client.call(m.DescribeGroupsRequest(groups=["g"]), 5)
    assert listening.callers == {"User:bob"}


@pytest.mark.fact("G4-05")
def test_old_clients_send_tokens_without_request_headers(client: WireClient) -> None:
    assert handshake(client, "PLAIN", version=0).error_code == 0
    assert send_bare(client, plain_token("alice", USERS["alice"])) == b""
    assert client.call(m.MetadataRequest(topics=[])).brokers


def test_handshake_token_and_requests_can_arrive_together(client: WireClient) -> None:
    token = m.SaslAuthenticateRequest(auth_bytes=plain_token("alice", USERS["alice"]))
    pieces = [
        client.frame(m.ApiVersionsRequest(), 2),
        client.frame(m.SaslHandshakeRequest(mechanism="PLAIN"), 1),
        client.frame(token, 2),
        client.frame(m.HeartbeatRequest(group_id="g"), 4),
        client.frame(m.HeartbeatRequest(group_id="g"), 4),
    ]
    client.socket.sendall(b"".join(frame for frame, _ in pieces))
    codes = [client.receive().error_code for _ in pieces]
    assert codes == [0, 0, 0, *[ErrorCode.UNKNOWN_MEMBER_ID] * 2]


# Failed authentication.


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_failed_authentication_gets_an_error_and_is_disconnected(
    client: WireClient, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    handshake(client, mechanism)
    refused = send_token(client, plain_token("alice", "wrong"))
    assert refused.error_code == REFUSED
    assert refused.error_message.startswith("Authentication failed")
    assert client.is_closed()
    assert "not authenticated: Authentication failed" in caplog.text


@pytest.mark.slow
def test_an_unknown_user_fails_like_a_wrong_password(tmp_path: Path) -> None:
    # In Kafka a SCRAM client fails one token earlier when the user does not exist.
    log = MemoryLog()
    with secured(tmp_path, log=log) as server:
        first = {user: shown(server, user) for user in ("alice", "mallory", "bob")}
        again = {user: shown(server, user) for user in first}
        kept = dict(server.server.assembly.broker.log.items("broker"))
    assert first == again, "the same each time"
    assert len({salt for salt, _ in first.values()}) == 3
    assert {(len(salt), rounds) for salt, rounds in first.values()} == {(44, "4096")}
    for key, value in kept.items():
        log.put("broker", key, value)
    log.flush()
    with secured(tmp_path, log=log) as server:
        assert shown(server, "mallory") == first["mallory"], "after a restart as well"


def shown(server: ThreadServer, user: str) -> tuple[str, str]:
    """Return the salt and iterations that the server sends for a user."""
    with server.client() as client:
        handshake(client, "SCRAM-SHA-256")
        first = send_token(client, f"n,,n={user},r=abc".encode())
        assert first.error_code == 0
        _, salt, rounds = (part[2:] for part in first.auth_bytes.decode().split(","))
        last = send_token(client, b"c=biws,r=abc,p=AAAA")
        assert last.error_message.startswith("Authentication failed during authentica")
        assert last.error_message.endswith("with SASL mechanism SCRAM-SHA-256")
        return salt, rounds


def test_a_wrong_token_without_header_gets_no_response(client: WireClient) -> None:
    handshake(client, "PLAIN", version=0)
    with pytest.raises(EOFError):
        send_bare(client, plain_token("alice", "wrong"))


def test_an_unsupported_mechanism_returns_the_enabled_ones(
    client: WireClient,
) -> None:
    answer = handshake(client, "GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert tuple(answer.mechanisms) == MECHANISMS
    assert client.is_closed()


def test_no_other_request_is_served_before_authentication(
    client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.send(m.MetadataRequest(topics=[]))
    assert client.is_closed()
    assert "a request with API key 3 before authentication" in caplog.text


@pytest.mark.parametrize(
    ("request_", "version"),
    [(m.ApiVersionsRequest(), 2), (m.SaslHandshakeRequest(mechanism="PLAIN"), 1)],
)
def test_other_requests_during_the_exchange_are_out_of_order(
    client: WireClient, request_: Any, version: int
) -> None:
    handshake(client, "PLAIN")
    assert client.call(request_, version).error_code == ILLEGAL
    assert client.is_closed()


def test_an_early_reauthentication_keeps_the_session(client: WireClient) -> None:
    sign_in(client)
    assert handshake(client, "SCRAM-SHA-256").error_code == ILLEGAL
    answer = send_token(client, b"")
    assert answer.error_code == ILLEGAL
    assert "after successful authentication" in answer.error_message
    assert client.call(m.MetadataRequest(topics=[])).brokers


@pytest.mark.slow
def test_a_client_that_does_not_authenticate_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {"connection_authentication_timeout_ms": 200}
    with secured(tmp_path, **settings) as server:
        with server.client() as client:
            handshake(client, "PLAIN")
            assert client.is_closed()
        with server.client() as client:
            sign_in(client)
            with server.client() as silent:
                assert silent.is_closed(), "two limits after the other was let in"
            assert client.call(m.MetadataRequest(topics=[])).brokers
    assert "authentication timed out after 0.2 s" in caplog.text


def test_a_disconnect_during_authentication_does_not_affect_others(
    server: ThreadServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    for version, token in [(1, b"n,,n=alice,r=abc"), (0, b""), (1, b"")]:
        with server.client() as client:
            handshake(client, "SCRAM-SHA-256", version)
            if token:
                send_token(client, token)
    for _ in range(5):  # clients disconnect while their passwords are checked
        with server.client() as client:
            handshake(client, "PLAIN")
            token = plain_token("alice", "wrong")
            client.send(m.SaslAuthenticateRequest(auth_bytes=token), 2)
    with server.client() as client:
        assert sign_in(client).error_code == 0
    assert caplog.text == ""


# Reauthentication.


def test_a_session_has_a_lifetime_and_can_be_renewed(tmp_path: Path) -> None:
    with secured(tmp_path, connections_max_reauth_ms=60_000) as server:
        with server.client() as client:
            assert sign_in(client).session_lifetime_ms == 60_000
            assert sign_in(client).session_lifetime_ms == 60_000
            assert client.call(m.MetadataRequest(topics=[])).brokers
            assert handshake(client, "SCRAM-SHA-256").error_code == ILLEGAL, "too soon"
        with server.client() as client:
            sign_in(client, "alice", mechanism="PLAIN")
            handshake(client, "PLAIN")
            other = send_token(client, plain_token("bob", USERS["bob"]))
            assert other.error_code == REFUSED
            assert other.error_message.startswith("Cannot change principals")
            assert client.is_closed()


@pytest.mark.slow
def test_reauthentication_waits_for_earlier_responses(tmp_path: Path) -> None:
    # A fetch waits for records, and the handshake and its token wait behind it.
    with (
        secured(tmp_path, connections_max_reauth_ms=60_000) as server,
        server.client() as client,
    ):
        sign_in(client, mechanism="PLAIN")
        connection = the_connection(server)
        new_topic = m.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        client.call(m.CreateTopicsRequest(topics=[new_topic], timeout_ms=5_000), 5)
        token = m.SaslAuthenticateRequest(
            auth_bytes=plain_token("alice", USERS["alice"])
        )
        frames = [
            client.frame(waiting_fetch(), 11),
            client.frame(m.SaslHandshakeRequest(mechanism="PLAIN"), 1),
            client.frame(token, 2),
        ]
        client.socket.sendall(b"".join(frame for frame, _ in frames))
        held = connection._connection
        eventually(lambda: held.is_blocked, expected="the handshake waits")
        assert held.in_flight == 1
        with server.client() as other:
            sign_in(other)
            other.call(one_record(), 9)
        assert [client.receive().error_code for _ in frames] == [0, 0, 0]
        assert client.call(m.MetadataRequest(topics=[])).brokers
        assert not held.is_blocked


def waiting_fetch() -> m.FetchRequest:
    part = m.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    topic = m.FetchTopic(topic="t", partitions=[part])
    return m.FetchRequest(
        max_wait_ms=60_000, min_bytes=1, max_bytes=1_000, topics=[topic]
    )


def one_record() -> m.ProduceRequest:
    batch = encode_batch([LogRecord(0, 1, b"k", b"v")])
    part = m.PartitionProduceData(index=0, records=batch)
    topic = m.TopicProduceData(name="t", partition_data=[part])
    return m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])


def test_an_expired_session_serves_only_reauthentication(tmp_path: Path) -> None:
    with secured(tmp_path, connections_max_reauth_ms=60_000) as server:
        broker = server.server.assembly.broker
        now_ms = broker.clock()
        with server.client() as late, server.client() as later:
            sign_in(late)
            sign_in(later)
            for client in (late, later):
                heartbeat = client.call(m.HeartbeatRequest(group_id="g"), 4)
                assert heartbeat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            broker.clock = lambda: now_ms + 70_000
            assert sign_in(late).error_code == 0
            assert late.call(m.MetadataRequest(topics=[])).brokers
            later.send(m.HeartbeatRequest(group_id="g"), 4)
            assert later.is_closed()


def test_the_memo_is_not_used_after_the_sasl_session_expires(tmp_path: Path) -> None:
    # The memo is not used after the session has expired.
    settings: dict[str, Any] = {
        "connections_max_reauth_ms": 60_000,
        "group_max_session_timeout_ms": 10**7,
    }
    with (
        secured(tmp_path, group_initial_rebalance_delay_ms=0, **settings) as server,
        server.client() as client,
    ):
        sign_in(client)
        heartbeat = settled_member(client)
        memo = the_connection(server)._heartbeats
        for _ in range(3):
            assert client.call(heartbeat, 3).error_code == 0
        assert len(memo._stored) == 1
        assert sign_in(client).error_code == 0
        assert client.call(heartbeat, 3).error_code == 0
        broker = server.server.assembly.broker
        now_ms = broker.clock()
        broker.clock = memo._clock = lambda: now_ms + 70_000
        client.send(heartbeat, 3)
        assert client.is_closed()


def settled_member(client: WireClient) -> m.HeartbeatRequest:
    """Join a group alone; return the heartbeat of its member."""
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=bytes(6))
    join = m.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10**6,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = client.call(join, 3)
    assert joined.error_code == 0
    member = {
        "group_id": "g",
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    assert client.call(m.SyncGroupRequest(**member), 3).error_code == 0
    return m.HeartbeatRequest(**member)


def the_connection(server: ThreadServer) -> ClientConnection:
    listener = server.server._listener
    assert listener is not None
    (connection,) = listener.connections
    assert isinstance(connection, ClientConnection)
    return connection


# Users.


def test_users_of_the_file_survive_its_removal(tmp_path: Path) -> None:
    log = MemoryLog()
    with secured(tmp_path) as server:
        entries = list(server.server.assembly.broker.log.items(SPACE))
    assert len(entries) == len(USERS) * 2
    assert all(password not in str(entries) for password in USERS.values())
    for key, value in entries:
        log.put(SPACE, key, value)
    log.flush()
    with (
        ThreadServer(protocol=SecurityProtocol.SASL_PLAINTEXT, log=log) as server,
        server.client() as client,
    ):
        assert sign_in(client).error_code == 0


SPACE = "catalog/scram-credential"


def test_a_server_without_users_logs_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ThreadServer(protocol=SecurityProtocol.SASL_PLAINTEXT):
        pass
    assert "there are no users, so no client can authenticate" in caplog.text


def test_a_bug_in_a_mechanism_closes_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def buggy(*_: object) -> bool:
        raise AssertionError("a bug")

    with secured(tmp_path) as server:
        monkeypatch.setattr("coterie.auth.sasl.password_matches", buggy)
        with server.client() as client:
            handshake(client, "PLAIN")
            token = plain_token("alice", USERS["alice"])
            client.send(m.SaslAuthenticateRequest(auth_bytes=token), 2)
            assert client.is_closed()
        with server.client() as client:
            assert sign_in(client).error_code == 0
    assert "a bug in checking a password" in caplog.text


# Guessing passwords.


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_user_under_attack_authenticates_from_another_address(
    tmp_path: Path,
    mechanism: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_limit, "INTERVAL_S", 60.0)
    with secured(
        tmp_path,
        sasl_failure_backoff_ms=3_600_000,
        sasl_failure_backoff_max_ms=3_600_000,
        connection_failed_authentication_delay_ms=0,
        connection_authentication_timeout_ms=10_000,
    ) as server:
        for _ in range(FREE_BY_USER + 1):
            with server.client() as client:
                handshake(client, "PLAIN")
                guess = send_token(client, plain_token("alice", "a guess"))
                assert guess.error_code == REFUSED
                assert client.is_closed()
        security = server.server._listener.connections.security  # type: ignore[union-attr]
        checks = security._checks
        assert checks is not None
        with server.client() as client:
            handshake(client, "PLAIN")
            token = plain_token("alice", USERS["alice"])
            client.send(m.SaslAuthenticateRequest(auth_bytes=token), 2)
            eventually(lambda: checks.delayed_count, expected="the check is delayed")
        with server.client(source="127.0.0.2") as client:
            assert sign_in(client, mechanism=mechanism).error_code == ErrorCode.NONE
        with server.client() as client:
            other = sign_in(client, "bob", mechanism=mechanism)
            assert other.error_code == ErrorCode.NONE, "another user is not delayed"
    lines = [line for line in caplog.messages if "not authenticated" in line]
    assert len(lines) == 1
