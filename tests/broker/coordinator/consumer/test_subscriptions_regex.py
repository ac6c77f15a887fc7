"""Validation of regular expressions, and the topics that they match."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.consumer import subscriptions
from coterie.broker.coordinator.consumer.subscriptions import check_regex, matching
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "missing closing )"),
        (")", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("[z-a]", "invalid character class range"),
        (r"(a)\1", "invalid escape sequence"),
        (r"a\C", "invalid escape sequence"),
        (r"\Qa\E\C", "invalid escape sequence"),
        ("a\\", "trailing backslash at end of expression"),
        ("(?P<n", "invalid named capture"),
        ("foo(?=bar)", "invalid or unsupported Perl syntax"),
        ("(?<!foo)bar", "invalid or unsupported Perl syntax"),
        ("x{2000}", "invalid repeat count"),
        ("((((a{100}){100}){100}){100})", "invalid repeat count"),
    ],
)
@pytest.mark.fact("E14-02", "E14-04")
def test_syntax_outside_re2_is_refused(text: str, why: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_regex(text)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION == 128
    message = refused.value.message or ""
    assert message.endswith(f"`{text}` is not a valid regular expression: {why}.")


@pytest.mark.parametrize(
    "text",
    ["foo", "foo.*", "(?i)FOO", r"\bfoo\b|b[ar]+", ".*", r"\Q\C\E|foo", r"\\C|foo"],
)
@pytest.mark.fact("E14-02")
def test_syntax_of_re2_is_accepted(text: str) -> None:
    check_regex(text)
    assert matching([text], ["foo"]) == {text: ["foo"]}


@pytest.mark.fact("E14-03")
def test_an_expression_must_match_the_whole_topic_name() -> None:
    names = ["foo", "foobar", "xfoo", "fo"]
    found = matching(["foo", "foo.*", "fo|foo", "oo"], names)
    assert found["foo"] == ["foo"]
    assert found["foo.*"] == ["foo", "foobar"]
    assert found["fo|foo"] == ["fo", "foo"]
    assert found["oo"] == []


@pytest.mark.fact("E14-09")
def test_internal_topics_are_matched() -> None:
    assert matching([".*"], ["t", "__consumer_offsets"]) == {
        ".*": ["__consumer_offsets", "t"]
    }


def test_topic_names_beyond_ascii_are_matched() -> None:
    assert matching(["t.l."], ["télé", "tele", "tél"]) == {"t.l.": ["tele", "télé"]}


def test_without_expressions_or_topics_nothing_matches() -> None:
    assert matching([], ["foo"]) == {}
    assert matching(["foo"], []) == {"foo": []}


def test_matching_one_by_one_gives_the_same_result_as_matching_as_a_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"team-{n % 5}.topic-{n}" for n in range(60)]
    regexes = [r"team-1\..*", ".*-[0-9]", "team-7.*", r".*\.topic-(1|2|3)+"]
    together = matching(regexes, names)
    monkeypatch.setattr(subscriptions, "_as_set", lambda _: None)
    assert matching(regexes, names) == together
    assert [len(found) for found in together.values()] == [12, 10, 0, 12]


@pytest.mark.fact("E14-02")
def test_expressions_too_large_for_a_set_are_matched_one_by_one() -> None:
    regexes = [f"(a|b)*{letter}(.|b){{250}}" for letter in "abcdefghijklmnop" * 5]
    regexes = [f"{text}{at}|foo" for at, text in enumerate(regexes)]
    assert subscriptions._as_set(regexes) is None
    found = matching(regexes, ["foo", "bar"])
    assert set(map(tuple, found.values())) == {("foo",)}
