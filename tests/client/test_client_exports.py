"""The exported names of `coterie.client`, which are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import coterie.client


@pytest.mark.parametrize("name", coterie.client.__all__)
def test_every_exported_name_exists(name: str) -> None:
    assert getattr(coterie.client, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Member'"):
        getattr(coterie.client, "Member")  # noqa: B009 (mypy reports the missing name)


@pytest.mark.slow
def test_the_admin_client_does_not_import_the_group_member() -> None:
    look = "import sys, coterie.client.admin.admin_client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    )
    assert "coterie.client.group_member" not in done.stdout.split()
