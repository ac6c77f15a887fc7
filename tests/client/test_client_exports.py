"""The public names of `coterie.client` and `coterie.operations`: complete, documented
and imported on first use."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import coterie.client
import coterie.operations
from coterie.client.admin.results import Partial
from tests.support.public_surface import is_documented, mentions

PACKAGES = (coterie.client, coterie.operations)
NAMES = [(package, name) for package in PACKAGES for name in package.__all__]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
ERRORS_APART = {"SelectionResult", "ScopePartitions", "ItemResult"}
"""Classes with errors that are not those of a mapping's keys."""


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_public_name_exists(package: ModuleType, name: str) -> None:
    value = getattr(package, name)
    is_alias = value in (str, int, bytes)  # as GroupId
    if (inspect.isclass(value) and not is_alias) or inspect.isfunction(value):
        assert value.__name__ == name


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(package, "Nothing")  # noqa: B009 (mypy reports the missing name)
    assert dir(package) == sorted(package.__all__)


@pytest.mark.slow
def test_every_public_name_is_documented() -> None:
    assert [name for each, name in NAMES if not is_documented(each, name)] == []


@pytest.mark.slow
def test_every_type_that_a_public_signature_mentions_is_public() -> None:
    public = {name for package in PACKAGES for name in package.__all__}
    missing = {
        f"{each.name} of {each.module}, for {each.where}"
        for package in PACKAGES
        for each in mentions(package)
        if each.name not in public
    }
    assert not missing, "add them to __all__: " + "; ".join(sorted(missing))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(package: ModuleType) -> None:
    page = REFERENCE / f"{package.__name__.rpartition('.')[2]}.md"
    pattern = rf"^::: {re.escape(package.__name__)}\.(\w+)$"
    listed = re.findall(pattern, page.read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(package.__all__)


@pytest.mark.pure  # mypyc keeps no docstrings of methods
@pytest.mark.parametrize(("package", "name"), NAMES)
def test_every_public_method_is_documented(package: ModuleType, name: str) -> None:
    value = getattr(package, name)
    if not inspect.isclass(value) or issubclass(value, Exception):
        return
    for attribute, part in vars(value).items():
        is_part = isinstance(part, property | classmethod) or inspect.isfunction(part)
        if is_part and not attribute.startswith("_"):
            assert part.__doc__, f"{name}.{attribute}"


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_results_with_errors_are_partial_results(
    package: ModuleType, name: str
) -> None:
    value = getattr(package, name)
    if inspect.isclass(value) and hasattr(value, "errors"):
        assert issubclass(value, Partial) or name in ERRORS_APART


@pytest.mark.slow
def test_the_admin_client_does_not_import_the_group_member() -> None:
    look = "import sys, coterie.client; coterie.client.AdminClient; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    )
    assert "coterie.client.group_member" not in done.stdout.split()


@pytest.mark.slow
def test_the_packages_import_none_of_their_modules() -> None:
    look = "import sys, coterie.client, coterie.operations; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    )
    own = {each for each in done.stdout.split() if each.startswith("coterie.")}
    assert own == {"coterie.client", "coterie.lazy_names", "coterie.operations"}
