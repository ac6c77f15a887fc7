"""Declarations: versions, defaults, and wire types that no message uses."""

from __future__ import annotations

import pytest

from coterie.errors import MalformedFrame
from coterie.wire.codec import decode, decoder, encode, encoder
from coterie.wire.schema import (
    NO_VERSIONS,
    Message,
    Struct,
    Versions,
    array,
    float64,
    int8,
    string,
    struct,
    uint16,
    uint32,
    uuid,
)
from tests.wire.hand import few, int32, many, short, text


class Inner(Struct):
    name: str = string()
    late: int = int8("2+", default=7)


class Odd(Message, versions="0-2", flexible="2+"):
    small: int = uint16()
    large: int = uint32()
    real: float = float64()
    ids: list[bytes] = array("uuid")
    names: list[str] | None = array("string", nullable="1+", default=None)
    inner: Inner = struct(Inner, "1+")
    mark: int = int8("2+", tag=3, tagged="2+", default=-1)
    label: str | None = string("2+", nullable="2+", tag=5, tagged="2+", default=None)
    inners: list[Inner] = array(Inner, "2+", tag=9, tagged="2+")
    own_id: bytes = uuid()


ID = bytes(range(16))
FIXED = b"\xff\xff" + b"\xff\xff\xff\xff" + b"\x3f\xf8" + bytes(6)


def odd(**more: object) -> Odd:
    made = Odd(small=65535, large=2**32 - 1, real=1.5, ids=[ID, bytes(16)], names=["a"])
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_every_wire_type_has_its_encoding() -> None:
    body = FIXED + many(ID, bytes(16)) + many(text("a")) + bytes(16)
    assert encode(odd(), 0) == body
    assert decode(Odd, 0, body) == (odd(), len(body))


def test_null_arrays_and_nested_structs_are_encoded() -> None:
    body = encode(odd(names=None, inner=Inner(name="n")), 1)
    expected = FIXED + many(ID, bytes(16)) + int32(-1) + text("n") + bytes(16)
    assert body == expected
    assert decode(Odd, 1, body)[0].inner == Inner(name="n")


def test_tagged_fields_of_every_kind_are_encoded_last() -> None:
    full = odd(inner=Inner(name="n"), mark=4, label="l", inners=[Inner(name="i")])
    inner = short("n") + b"\7\0"
    element = few(short("i") + b"\7\0")
    tags = b"\3" + b"\3\1\4" + b"\5\2" + short("l") + b"\x09" + bytes([len(element)])
    body = FIXED + few(ID, bytes(16)) + few(short("a")) + inner + bytes(16)
    assert encode(full, 2) == body + tags + element
    assert decode(Odd, 2, body + tags + element)[0] == full
    assert encode(odd(inner=Inner(name="n")), 2) == body + b"\0"


def test_truncated_ids_are_malformed() -> None:
    body = encode(odd(names=[]), 0)
    for cut in range(len(body)):
        with pytest.raises(MalformedFrame):
            decode(Odd, 0, body[:cut])


def test_defaults_are_fresh_for_each_value() -> None:
    one, two = Odd(), Odd()
    one.ids.append(ID)
    one.inner.name = "changed"
    assert (two.ids, two.inner.name, two.names) == ([], "", None)
    assert two.own_id == bytes(16)
    assert (two.mark, two.inner.late) == (-1, 7)


def test_version_ranges_have_kafkas_notation() -> None:
    assert Versions.parse("3+") == Versions(3, 32767)
    assert Versions.parse("0-4") == Versions(0, 4)
    assert Versions.parse("2") == Versions(2, 2)
    assert Versions.parse("none") == NO_VERSIONS
    assert 0 not in NO_VERSIONS
    assert "2" not in Versions(0, 4)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(AssertionError, match="no nulable"):
        string(nulable="0+")


def test_a_codec_is_compiled_once() -> None:
    assert encoder(Odd, 1) is encoder(Odd, 1)
    assert decoder(Odd, 1) is decoder(Odd, 1)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError):
        Odd(wrong=1)  # type: ignore[call-arg]
