"""Packages whose names are imported on first use."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coterie import client, operations

SOURCE = Path(client.__file__).parent.parent.parent


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'coterie.client' has no attribute 'x'"):
        client.x  # type: ignore[attr-defined] # noqa: B018


def test_names_are_listed() -> None:
    assert "AdminClient" in dir(client)
    assert "select_groups" in dir(operations)


@pytest.mark.slow
def test_names_are_imported_from_a_zip_file(tmp_path: Path) -> None:
    archive = tmp_path / "coterie.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in SOURCE.glob("coterie/**/*.py*"):
            if path.suffix in {".py", ".pyi"}:
                file.write(path, path.relative_to(SOURCE))
    program = "from coterie import client; print(client.AdminClient, client.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(archive) in done.stdout
