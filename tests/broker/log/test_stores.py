"""The stores of a log, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.log.sqlite_file import FILE_NAME
from coterie.broker.log.stores import STORES, open_log, store_of
from coterie.errors import LogError


@pytest.mark.parametrize("store", STORES)
def test_the_store_of_a_directory_is_recognised(tmp_path: Path, store: str) -> None:
    assert store_of(tmp_path / "data") is None
    log = open_log(tmp_path / "data", store, is_synced=False)
    assert store_of(tmp_path / "data") == store
    log.close()
    assert store_of(tmp_path / "data") == store


@pytest.mark.parametrize("store", STORES)
def test_a_file_in_place_of_the_directory_is_an_error(
    tmp_path: Path, store: str
) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(LogError, match="data"):
        open_log(tmp_path / "data", store)


def test_another_file_of_that_name_is_no_store(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database, and longer than a header" * 99)
    with pytest.raises(LogError, match="is not a Coterie store"):
        store_of(tmp_path)


def test_a_store_with_journals_is_not_opened_as_sqlite(tmp_path: Path) -> None:
    open_log(tmp_path, "journal", is_synced=False).close()
    with pytest.raises(LogError, match=r"log\.store=journal"):
        open_log(tmp_path, "sqlite")
    open_log(tmp_path, "journal", is_synced=False).close()
