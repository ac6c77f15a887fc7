"""The comparison of both builds with another server, from given results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.beside.servers import (
    COMPILED_FOLDER,
    Against,
    Sample,
    absolute,
    builds,
    compare,
    runs_compiled,
)
from benchmarks.harness.figures import Bar


def per_second(value: float) -> str:
    return f"{value:.0f}/s"


def results(*rounds: tuple[float, float]) -> list[dict[str, Sample]]:
    return [
        {
            "pure": Sample(value=ours, cpu_us=100.0),
            "Kafka": Sample(value=kafka, cpu_us=30.0),
        }
        for ours, kafka in rounds
    ]


def test_the_ratio_is_the_median_of_the_ratios_within_a_round() -> None:
    measured = results((10, 20), (40, 40), (30, 10))
    against = Against(other="Kafka", bars={"pure": 0.8, "compiled": 1.5})
    (figure,) = compare("commits", measured, against, per_second, Bar.AT_LEAST)
    assert (figure.value, figure.bar, figure.build) == (1.0, 0.8, "pure")
    assert figure.name == "commits: of Kafka"
    assert figure.ours == "30/s, 100 us CPU"
    assert figure.other == "Kafka 20/s, 30 us CPU"
    assert (figure.cpu_us, figure.other_cpu_us) == (100.0, 30.0)


def test_each_build_has_its_bar() -> None:
    measured = [each | {"compiled": Sample(value=60)} for each in results((10, 20))]
    against = Against(other="Kafka", bars={"pure": 0.8, "compiled": 1.5})
    figures = compare("commits", measured, against, per_second, Bar.AT_LEAST)
    assert [(figure.build, figure.verdict) for figure in figures] == [
        ("pure", "MISSED"),
        ("compiled", "met"),
    ]


@pytest.mark.parametrize(("share", "is_marked"), [(0.94, False), (0.96, True)])
def test_a_load_that_the_generator_limits_is_marked(
    share: float, is_marked: bool
) -> None:
    measured = [{"pure": Sample(value=1, client_cpu=share), "Kafka": Sample(value=1)}]
    against = Against(other="Kafka", bars={})
    (figure,) = compare("commits", measured, against, per_second, Bar.AT_LEAST)
    assert ("generator at its limit" in figure.ours) is is_marked
    assert "generator at its limit" not in figure.other


def test_an_absolute_value_states_that_of_kafka() -> None:
    values = {"Kafka": 32.0, "pure": 40.0}
    (figure,) = absolute("commit: CPU", values, {"pure": 35.0}, "us")
    assert (figure.value, figure.side, figure.verdict) == (40.0, Bar.AT_MOST, "close")
    assert figure.other == "Kafka 32.0 us"


def test_the_compiled_build_comes_first_on_the_path_of_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "coterie" / "wire").mkdir(parents=True)
    (tmp_path / "coterie" / "wire" / "codec.so").touch()
    monkeypatch.setenv(COMPILED_FOLDER, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    expected = {"PYTHONPATH": f"{tmp_path}:elsewhere"}
    assert builds() == {"pure": {}, "compiled": expected}


def test_a_folder_without_compiled_modules_is_no_compiled_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "coterie").mkdir()
    (tmp_path / "coterie" / "codec.py").touch()
    monkeypatch.setenv(COMPILED_FOLDER, str(tmp_path))
    assert list(builds()) == ["pure"]


def test_a_server_with_compiled_modules_is_told_from_a_pure_one() -> None:
    line = "7f00-7f10 r-xp 00000000 fe:00 77    /build/{}\n"
    library = line.format("coterie/.venv/numpy/core/_multiarray.so")
    assert not runs_compiled(library)
    assert runs_compiled(library + line.format("compiled/coterie/wire/codec.cp311.so"))
