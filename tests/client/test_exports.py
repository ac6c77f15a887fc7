"""What `coterie.client` offers, and that it costs nothing until it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import coterie.client


@pytest.mark.parametrize("name", coterie.client.__all__)
def test_every_name_that_is_offered_is_there(name: str) -> None:
    assert getattr(coterie.client, name).__name__ == name


def test_no_other_name_is() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Member'"):
        getattr(coterie.client, "Member")  # noqa: B009 (mypy knows that it is not there)


@pytest.mark.slow
def test_an_admin_does_not_wait_for_what_members_need() -> None:
    look = "import sys, coterie.client.admin.admin_client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", look], check=True, capture_output=True, text=True
    )
    assert "coterie.client.group_member" not in done.stdout.split()
