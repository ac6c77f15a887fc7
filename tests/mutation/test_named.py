"""Named mutants: parsing, applying, and errors that say what to change."""

from __future__ import annotations

import pytest

from mutation.named import (
    InvalidMutant,
    NamedMutant,
    problems,
    read_mutants,
    texts_of_mutants,
)
from tools.sources import read_sources

SOURCE = """\
class Epochs:
    def check(self) -> bool:
        return self.epoch > 1

    def other(self) -> bool:
        return self.epoch > 1
"""
TEXTS = {
    "docs/facts.tsv": "id\tsection\nE7-31\tE7\n",
    "src/coterie/epochs.py": SOURCE,
}


def mutant_of(**changed: str) -> NamedMutant:
    given = {"old": "epoch > 1", "new": "epoch >= 1", "within": "Epochs.check"}
    given |= changed
    file = given.pop("file", "epochs.py")
    return NamedMutant(
        ("E7-31",), file, given["old"], given["new"], given["within"], "E07.toml"
    )


def advice_of(*mutants: NamedMutant) -> list[str]:
    return [advice for _, advice in problems(mutants, TEXTS)]


def test_a_table_is_a_mutant_of_the_rows_in_its_name() -> None:
    text = '["E7-31, E7-32"]\nfile = "a.py"\nold = "1"\nnew = "2"\n'
    (mutant,) = read_mutants({"E07.toml": text})
    assert mutant == NamedMutant(("E7-31", "E7-32"), "a.py", "1", "2", "", "E07.toml")
    assert (mutant.path, mutant.ids) == ("src/coterie/a.py", "E7-31, E7-32")


@pytest.mark.parametrize(
    "text",
    [
        '["A-1"]\nfile = "a.py"\nold = "1"\n',
        '["A-1"]\nfile = "a.py"\nold = "1"\nnew = 2\n',
        '["A-1"]\nfile = "a.py"\nold = "1"\nnew = "2"\nwhere = "f"\n',
        "A = 1\n",
    ],
)
def test_a_table_with_wrong_keys_is_refused(text: str) -> None:
    with pytest.raises(InvalidMutant, match="needs the strings file, old, new"):
        read_mutants({"A.toml": text})


def test_a_file_that_is_not_toml_is_refused() -> None:
    with pytest.raises(InvalidMutant, match=r"A\.toml is not valid TOML"):
        read_mutants({"A.toml": "old ="})


def test_only_the_named_function_is_changed() -> None:
    edit = mutant_of(within="Epochs.other").apply(SOURCE)
    assert edit.path == "src/coterie/epochs.py"
    assert edit.text.splitlines()[2].endswith("> 1")
    assert edit.text.splitlines()[5].endswith(">= 1")


def test_a_mutant_that_applies_has_no_problem() -> None:
    assert advice_of(mutant_of()) == []


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"within": ""}, "occurs 2 times in src/coterie/epochs.py: add neighbouring"),
        ({"old": "gone"}, "occurs 0 times in Epochs.check of src/coterie/epochs.py"),
        ({"new": "epoch > 1"}, "are the same"),
        ({"within": "check"}, "has 0 classes or functions check"),
        ({"file": "gone.py"}, "src/coterie/gone.py does not exist"),
    ],
)
def test_a_mutant_that_does_not_apply_is_a_problem(
    changed: dict[str, str], advice: str
) -> None:
    (found,) = advice_of(mutant_of(**changed))
    assert advice in found


def test_a_row_needs_to_exist_and_has_one_mutant() -> None:
    unknown = mutant_of()._replace(facts=("E7-" + "99",))
    (found,) = advice_of(unknown)
    assert "has no row" in found
    (found,) = advice_of(mutant_of(), mutant_of())
    assert "E07.toml has a mutant of E7-31, too: remove one" in found


@pytest.mark.slow
def test_every_mutant_of_the_repository_applies() -> None:
    texts = {source.path: source.text for source in read_sources()}
    mutants = read_mutants(texts_of_mutants())
    assert list(problems(mutants, texts)) == []
    for mutant in mutants:
        compile(mutant.apply(texts[mutant.path]).text, mutant.path, "exec")
