"""The fuzzer: deterministic for a seed, and able to detect a seeded bug."""

from __future__ import annotations

from random import Random

import pytest

from coterie.errors import MalformedFrame
from fuzz.__main__ import attempt, fuzz_decoders, main
from fuzz.mutator import INPUT_BYTES_MAX, mutate
from fuzz.target import Target
from fuzz.targets import targets


@pytest.mark.slow
def test_every_decoder_returns_a_value_or_raises_malformed_frame() -> None:
    assert fuzz_decoders(list(targets()), seconds=20, count=20_000, seed=1) == 0


def test_each_seed_input_is_valid() -> None:
    for target in targets():
        for seed in target.seeds:
            if seed or target.name not in {"gzip", "snappy", "lz4", "zstd"}:
                assert attempt(target, seed), target.name


def test_the_same_seed_makes_the_same_inputs() -> None:
    def inputs(seed: int) -> list[bytes]:
        chance = Random(seed)
        return [mutate(b"some input", [b"another"], chance) for _ in range(50)]

    assert inputs(1) == inputs(1) != inputs(2)


def test_mutated_inputs_have_a_size_limit() -> None:
    chance, data = Random(1), b"x" * INPUT_BYTES_MAX
    for _ in range(200):
        data = mutate(data, [data], chance)
        assert len(data) <= INPUT_BYTES_MAX


def test_fuzzing_detects_a_seeded_bug(capsys: pytest.CaptureFixture[str]) -> None:
    def buggy(data: bytes) -> None:
        if data:
            raise IndexError(data[0])
        raise MalformedFrame("empty")

    target = Target("buggy", buggy, [b"x"])
    assert attempt(target, b"") is False
    assert attempt(target, b"\7") is None
    assert "bytes.fromhex('07')" in capsys.readouterr().out


def test_an_unknown_decoder_is_a_usage_error() -> None:
    assert main(["--only", "no such decoder"]) == 2
