"""Mutation operators: what each makes of a line, and which places are left out."""

from __future__ import annotations

import pytest

from mutation.operators import Mutant, compiles, mutants_of

PATH = "src/coterie/a.py"
FUNCTION = "def f(a, b, c, logs):\n    {}\n"


def made_of(statement: str) -> set[str]:
    """Return the mutants of one statement in a function."""
    text = FUNCTION.format(statement)
    mutants = mutants_of(PATH, text)
    assert all(compiles(mutant.apply(text)) for mutant in mutants)
    return {mutant.new for mutant in mutants}


@pytest.mark.parametrize(
    ("statement", "mutants"),
    [
        ("a = b < c", {"a = (b <= c)", "a = (b >= c)"}),
        ("a = b is not c", {"a = (b is c)"}),
        (
            "a = 1 <= b < c",
            {
                "a = (1 < b < c)",
                "a = (1 > b < c)",
                "a = (1 <= b <= c)",
                "a = (1 <= b >= c)",
                "a = (2) <= b < c",
                "a = (0) <= b < c",
            },
        ),
        ("a = b and c", {"a = ((b) or (c))", "a = ((b))", "a = ((c))"}),
        ("a = not b", {"a = (b)"}),
        ("a = b + c", {"a = ((b) - (c))"}),
        ("a = True", {"a = False"}),
        ("a += b", {"a -= b", "pass"}),
        ("a.b = c", {"pass"}),
        ("a(b)", {"pass"}),
        ("a = b(a, c)", {"a = b(c, a)"}),
        ("a = b(c=c)", {"a = b()"}),
        ("a = min(b)", {"a = max(b)"}),
        ("return b", {"return None"}),
        ("return a == b", {"return not (a == b)", "return (a != b)"}),
        ("if a: raise b", {"if (not (a)): raise b", "if False: raise b"}),
        ("a = [b for b in c if b]", {"a = [b for b in c if (not (b))]"}),
    ],
)
def test_an_operator_changes_one_place(statement: str, mutants: set[str]) -> None:
    made = made_of(statement)
    assert mutants <= made
    always_true = {each for each in made if " True" in each or "pass" in each}
    assert made - mutants <= always_true


@pytest.mark.parametrize(
    "statement",
    [
        '"""Return 1."""',
        "assert a < 1",
        '_LOGGER.warning("%d", a + 1)',
        "a: Literal[1] = b",
        'a = f"{b + 1}"',
        "import b",
        "return",
        "return None",
    ],
)
def test_a_place_without_behaviour_is_left_out(statement: str) -> None:
    assert made_of(statement) == set()


def test_methods_that_only_show_a_value_are_left_out() -> None:
    assert mutants_of(PATH, "def __repr__(self):\n    return 'x' + self.y\n") == []


def test_a_mutant_knows_its_place_and_shows_its_change() -> None:
    text = (
        'A = 1\n\n\nclass B:\n    def é(self):\n        return g("é",\n            A)\n'
    )
    [before, after, nothing, swapped] = mutants_of(PATH, text)
    assert [each.at_import for each in (before, after)] == [True, True]
    assert [each.new for each in (before, after)] == ["A = (0)", "A = (2)"]
    assert (nothing.within, nothing.line, nothing.at_import) == ("B.é", 6, False)
    assert (swapped.operator, swapped.statement) == ("arguments swapped", 6)
    assert swapped.new == 'return g(A, "é")'
    assert swapped.old == 'return g("é", A)'
    assert isinstance(swapped, Mutant)
    assert swapped.diff(text).splitlines()[-3:] == [
        '-        return g("é",',
        "-            A)",
        '+        return g(A, "é")',
    ]
