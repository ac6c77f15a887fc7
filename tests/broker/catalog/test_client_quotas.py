"""The order of precedence of quotas, their validation, filters and replay. Messages of
errors are those of Kafka's ClientQuotaControlManager and ClientQuotasImage; the tests
of tests/interop compare them."""

from __future__ import annotations

import pytest

from coterie.broker.catalog import client_quotas
from coterie.broker.catalog.client_quotas import (
    ClientQuotas,
    FilterComponent,
    MatchType,
    QuotaChange,
    QuotaEntity,
    QuotaKey,
    QuotaLimit,
    quota_entity,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

PRODUCE, FETCH, REQUEST, MUTATION, CONNECTION = QuotaKey


def user(name: str | None) -> QuotaEntity:
    return quota_entity({"user": name})


def client(name: str | None) -> QuotaEntity:
    return quota_entity({"client-id": name})


def both(user_name: str | None, client_id: str | None) -> QuotaEntity:
    return quota_entity({"user": user_name, "client-id": client_id})


def ip(address: str | None) -> QuotaEntity:
    return quota_entity({"ip": address})


def alter(quotas: ClientQuotas, *changes: QuotaChange) -> list[str | None]:
    """Apply changes; return the message of each entity's error."""
    entries, results = quotas.alter(changes)
    for entry in entries:
        quotas.replay(entry.name, entry.value)
    return [None if error is None else error.message for error in results.values()]


def put(quotas: ClientQuotas, entity: QuotaEntity, **values: float | None) -> None:
    assert alter(quotas, QuotaChange(entity, list(values.items()))) == [None]


def refused(entity: QuotaEntity, key: str = PRODUCE, value: float = 1.0) -> str | None:
    [message] = alter(ClientQuotas(), QuotaChange(entity, [(key, value)]))
    return message


# Kafka's ClientQuotaManager: the eight levels, the first one first.
LEVELS = [
    (both("u", "c"), ("u", "c")),
    (both("u", None), ("u", "c")),
    (user("u"), ("u", "")),
    (both(None, "c"), ("u", "c")),
    (both(None, None), ("u", "c")),
    (user(None), ("u", "")),
    (client("c"), ("", "c")),
    (client(None), ("", "c")),
]


def test_the_most_specific_of_eight_levels_applies() -> None:
    quotas = ClientQuotas()
    assert quotas.limit(PRODUCE, "u", "c") is None
    for bound, (entity, shared_by) in reversed(list(enumerate(LEVELS, 1))):
        put(quotas, entity, producer_byte_rate=bound)
        limit = quotas.limit(PRODUCE, "u", "c")
        assert limit == QuotaLimit(bound, *shared_by), entity


def test_each_kind_of_quota_has_its_own_precedence() -> None:
    quotas = ClientQuotas()
    put(quotas, both("u", "c"), producer_byte_rate=1)
    put(quotas, client(None), consumer_byte_rate=2)
    assert quotas.limit(FETCH, "u", "c") == QuotaLimit(2, "", "c")
    assert quotas.limit(REQUEST, "u", "c") is None


def test_another_client_has_only_the_defaults() -> None:
    quotas = ClientQuotas()
    for bound, (entity, _) in enumerate(LEVELS, 1):
        put(quotas, entity, producer_byte_rate=bound)
    assert quotas.limit(PRODUCE, "v", "c") == QuotaLimit(4, "v", "c")
    assert quotas.limit(PRODUCE, "v", "d") == QuotaLimit(5, "v", "d")
    put(quotas, both(None, None), producer_byte_rate=None)
    assert quotas.limit(PRODUCE, "v", "d") == QuotaLimit(6, "v", "")
    put(quotas, user(None), producer_byte_rate=None)
    assert quotas.limit(PRODUCE, "v", "d") == QuotaLimit(8, "", "d")


def test_an_empty_client_id_has_only_the_quotas_of_its_user() -> None:
    quotas = ClientQuotas()
    put(quotas, client(None), producer_byte_rate=1)
    put(quotas, both("u", None), producer_byte_rate=2)
    assert quotas.limit(PRODUCE, "u", "") is None
    put(quotas, user(None), producer_byte_rate=3)
    assert quotas.limit(PRODUCE, "u", "") == QuotaLimit(3, "u", "")


def test_an_address_has_its_own_connection_rate_or_the_default() -> None:
    quotas = ClientQuotas()
    assert quotas.connection_rate("10.0.0.1") is None
    put(quotas, ip("10.0.0.1"), connection_creation_rate=5)
    put(quotas, ip("2001:DB8::0:1"), connection_creation_rate=7)
    assert quotas.connection_rate("10.0.0.1") == 5
    assert quotas.connection_rate("10.0.0.2") is None
    assert quotas.connection_rate("2001:db8::1") == 7
    assert not quotas.has_client_quotas
    put(quotas, ip(None), connection_creation_rate=6)
    assert quotas.connection_rate("10.0.0.2") == 6
    put(quotas, ip("10.0.0.1"), connection_creation_rate=None)
    assert quotas.connection_rate("10.0.0.1") == 6


def test_an_entity_without_values_is_removed() -> None:
    quotas = ClientQuotas()
    put(quotas, user("u"), producer_byte_rate=1, consumer_byte_rate=2)
    assert quotas.has_client_quotas
    put(quotas, user("u"), producer_byte_rate=None)
    assert list(quotas.describe([], is_strict=False)) == [(user("u"), {FETCH: 2})]
    put(quotas, user("u"), consumer_byte_rate=None)
    assert list(quotas.describe([], is_strict=False)) == []
    assert not quotas.has_client_quotas


def test_a_change_to_the_same_value_writes_nothing() -> None:
    quotas = ClientQuotas()
    put(quotas, user("u"), producer_byte_rate=1)
    same = QuotaChange(user("u"), [(PRODUCE, 1.0), (FETCH, None)])
    assert quotas.alter([same]) == ([], {user("u"): None})


def test_the_second_change_of_an_entity_is_refused_and_the_first_takes_effect() -> None:
    quotas = ClientQuotas()
    first = QuotaChange(user("u"), [(PRODUCE, 1.0)])
    second = QuotaChange(user("u"), [(PRODUCE, 2.0)])
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={user=u})"
    assert alter(quotas, first, second) == [text]
    assert quotas.limit(PRODUCE, "u", "") == QuotaLimit(1, "u", "")
    twice = QuotaChange(client(None), [(PRODUCE, 1.0), (PRODUCE, 2.0)])
    text = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null})"
    assert alter(quotas, twice) == [text]


def test_too_many_changes_are_refused_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_quotas, "CHANGES_PER_REQUEST_MAX", 10)
    many = [QuotaChange(user(f"u{each}"), [(PRODUCE, 1.0)]) for each in range(11)]
    quotas = ClientQuotas()
    with pytest.raises(ApiError) as raised:
        quotas.alter(many)
    assert raised.value.code is ErrorCode.POLICY_VIOLATION
    assert len(quotas.alter(many[1:])[0]) == 10


@pytest.mark.slow
def test_100_000_changes_and_conditions_take_linear_time() -> None:
    count = 100_000
    quotas = ClientQuotas()
    users = [user(f"u{each}") for each in range(count)]
    removals = [QuotaChange(each, [(PRODUCE, None)]) for each in users]
    entries, results = quotas.alter(removals + removals)
    assert (len(entries), len(results)) == (0, count)
    many = [(f"key{each}", None) for each in range(count)]
    assert quotas.alter([QuotaChange(user("u"), many)]) == ([], {user("u"): None})
    same = [FilterComponent("user", MatchType.SPECIFIED, None)] * count
    with pytest.raises(ApiError, match="cannot appear more than once"):
        quotas.describe(same, is_strict=False)


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ((), "Invalid empty client quota entity"),
        (user(""), "Empty user not supported"),
        (client(""), "Empty client-id not supported"),
        (
            quota_entity({"topic": "t"}),
            "Unhandled client quota entity type: topic",
        ),
        (
            quota_entity({"ip": "10.0.0.1", "user": "u"}),
            "Invalid quota entity combination, IP entity shouldnot be combined with "
            "User or ClientId",
        ),
        (ip("nowhere!"), "nowhere! is not a valid IP or resolvable host."),
        (ip("10.0.0.1"), "Invalid configuration key producer_byte_rate"),
    ],
)
def test_an_invalid_entity_is_refused(entity: QuotaEntity, message: str) -> None:
    assert refused(entity) == message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("connection_creation_rate", 1, "Invalid configuration key {}"),
        ("retention.ms", 1, "Invalid configuration key {}"),
        (PRODUCE, 0, "Quota {} must be greater than 0"),
        (REQUEST, -1, "Quota {} must be greater than 0"),
        (REQUEST, float("nan"), "Quota {} must be greater than 0"),
        (REQUEST, float("inf"), "Quota {} must be finite"),
        (FETCH, 1.5, "{} cannot be a fractional value."),
        (FETCH, 1e19, "Proposed value for {} is too large for a LONG."),
        (FETCH, 2.0**63, None),
        (REQUEST, 0.5, None),
        (MUTATION, 0.5, None),
    ],
)
def test_values_are_checked(key: str, value: float, message: str | None) -> None:
    assert refused(user("u"), key, value) == (message and message.format(key))


def test_a_connection_rate_is_an_int() -> None:
    too_large = "Proposed value for connection_creation_rate is too large for an INT."
    assert refused(ip(None), CONNECTION, 2.0**31) == too_large
    assert refused(ip(None), CONNECTION, 2.0**31 - 1) is None


ALL = [user("u"), user(None), client("c"), both("u", "c"), ip("10.0.0.1"), ip(None)]


@pytest.mark.parametrize(
    ("components", "is_strict", "expected"),
    [
        ([], False, ALL),
        ([], True, []),
        ([("user", MatchType.EXACT, "u")], False, [user("u"), both("u", "c")]),
        ([("user", MatchType.EXACT, "u")], True, [user("u")]),
        ([("user", MatchType.DEFAULT, None)], True, [user(None)]),
        ([("user", MatchType.SPECIFIED, None)], True, [user("u"), user(None)]),
        ([("ip", MatchType.SPECIFIED, None)], True, [ip("10.0.0.1"), ip(None)]),
        (
            [("user", MatchType.EXACT, "u"), ("client-id", MatchType.EXACT, "c")],
            True,
            [both("u", "c")],
        ),
        ([("client-id", MatchType.EXACT, "d")], False, []),
    ],
)
def test_a_filter_selects_entities(
    components: list[tuple[str, int, str | None]],
    is_strict: bool,
    expected: list[QuotaEntity],
) -> None:
    quotas = ClientQuotas()
    for entity in ALL:
        key = CONNECTION if entity[0][0] == "ip" else PRODUCE
        assert alter(quotas, QuotaChange(entity, [(key, 1.0)])) == [None]
    parts = [FilterComponent(*each) for each in components]
    found = [entity for entity, _ in quotas.describe(parts, is_strict=is_strict)]
    assert found == expected


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([("", 2, None)], "Invalid empty entity type."),
        (
            [("user", 2, None), ("user", 1, None)],
            "Entity type user cannot appear more than once in the filter.",
        ),
        ([("topic", 2, None)], "Unsupported entity type topic"),
        (
            [("user", 0, None)],
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", 1, "u")],
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", 2, "u")],
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match "
            "string.",
        ),
        ([("user", 3, None)], "Unknown match type 3"),
        (
            [("ip", 1, None), ("client-id", 2, None)],
            "Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component.",
        ),
    ],
)
def test_an_invalid_filter_is_refused(
    components: list[tuple[str, int, str | None]], message: str
) -> None:
    parts = [FilterComponent(*each) for each in components]
    with pytest.raises(ApiError) as raised:
        ClientQuotas().describe(parts, is_strict=False)
    unknown = message.startswith("Unsupported")
    code = ErrorCode.UNSUPPORTED_VERSION if unknown else ErrorCode.INVALID_REQUEST
    assert (raised.value.code, raised.value.message) == (code, message)


def test_clearing_removes_all_and_changes_the_version() -> None:
    quotas = ClientQuotas()
    put(quotas, user("u"), producer_byte_rate=1)
    put(quotas, ip(None), connection_creation_rate=1)
    before = quotas.version
    quotas.clear()
    assert quotas.version > before
    assert quotas.limit(PRODUCE, "u", "c") is None
    assert quotas.connection_rate("10.0.0.1") is None
    assert not quotas.has_client_quotas
