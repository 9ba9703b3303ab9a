"""What goes wrong with the file is told in our own words: no text of SQLite reaches a user."""

from pathlib import Path

import apsw
import pytest

from comity.store.sqlite.connection import compact_database, copy_database, translate, translated_errors
from comity.wire.errors import StoreCorruptError, StoreError, StoreUnavailableError

FILE = Path("/data/comity.db")
KINDS = [
    kind
    for kind in vars(apsw).values()
    if isinstance(kind, type) and issubclass(kind, apsw.Error) and kind is not apsw.Error
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_error_of_sqlite_is_quoted(kind):
    shown = translate(kind("near FROM: secret internals"), FILE)
    assert isinstance(shown, StoreError)
    assert "secret internals" not in shown.message
    assert str(FILE) in shown.message
    assert ";" in shown.message  # and what to do


def test_the_cause_stays_for_whoever_looks_for_it():
    with pytest.raises(StoreError) as refused, translated_errors(FILE):
        raise apsw.SQLError("near FROM: secret internals")
    assert isinstance(refused.value.__cause__, apsw.SQLError)


def _database(path):
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def test_a_database_of_another_program_is_neither_copied_nor_compacted(tmp_path):
    _database(tmp_path / "theirs.db")
    before = (tmp_path / "theirs.db").read_bytes()
    with pytest.raises(StoreCorruptError, match="of another program"):
        copy_database(tmp_path / "theirs.db", tmp_path / "copy.db")
    with pytest.raises(StoreCorruptError, match="of another program"):
        compact_database(tmp_path / "theirs.db")
    assert (tmp_path / "theirs.db").read_bytes() == before


def test_a_copy_is_a_new_file_or_none(tmp_path):
    (tmp_path / "copy.db").write_bytes(b"mine")
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        copy_database(tmp_path / "theirs.db", tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == b"mine"
