from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.classic.draft import Overlay

KEYS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS),
        st.tuples(st.just("take"), KEYS),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=20,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(KEYS, unique=True), STEPS)
def test_an_overlay_equals_a_dict_with_the_same_changes(
    below: list[int], steps: list[tuple[str, int]]
) -> None:
    base = dict.fromkeys(below, -1)
    untouched = dict(base)
    real, overlay = dict(base), Overlay(base)
    for number, (step, key) in enumerate(steps):
        if step == "put":
            real[key] = overlay[key] = number
        elif step == "take":
            assert overlay.pop(key, None) == real.pop(key, None)
        else:
            real.clear()
            overlay.clear()
        assert list(overlay.items()) == list(real.items())
        assert len(overlay) == len(real)
        assert [k in overlay for k in range(6)] == [k in real for k in range(6)]
    assert base == untouched


def test_a_removed_key_raises_key_error() -> None:
    overlay = Overlay({1: 1})
    del overlay[1]
    with pytest.raises(KeyError):
        overlay[1]
    with pytest.raises(KeyError):
        del overlay[1]
