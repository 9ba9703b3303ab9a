import json

from evals.__main__ import main
from evals.table import Table, shown
from evals.tables import TABLES
from evals.tables.examples import PAGE, page


def test_tables_are_printed_for_people(capsys):
    assert main(["crisis"]) == 0
    told = capsys.readouterr().out
    assert "test half" in told
    assert "false alarms" in told


def test_tables_are_dumped_for_programs(capsys):
    assert main(["crisis", "--json"]) == 0
    tables = {table["name"]: table for table in json.loads(capsys.readouterr().out)}
    rows = {row[0]: row for row in tables["crisis_test"]["rows"]}
    assert rows["all"][1] == sum(row[1] for name, row in rows.items() if name != "all")
    assert len(rows["en"]) == len(tables["crisis_test"]["columns"])


def test_an_unknown_table_is_named(capsys):
    assert main(["weather"]) == 2
    assert "no table weather; there are crisis" in capsys.readouterr().err


def test_a_table_may_be_notes_alone(monkeypatch, capsys):
    monkeypatch.setitem(
        TABLES, "notes", lambda: [Table(name="notes", title="Notes", notes=["[nothing] to see"])]
    )
    assert main(["notes"]) == 0
    assert "[nothing] to see" in capsys.readouterr().out


def test_cells_are_short():
    assert [shown(cell) for cell in (None, 3, 0.98765, "all")] == ["-", "3", "0.988", "all"]


def test_every_example_says_something(capsys):
    assert main(["examples", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    assert len(table["rows"]) >= 60
    assert len({row[0] for row in table["rows"]}) == 10
    assert all(row[2].strip() for row in table["rows"])


def test_the_page_of_examples_says_what_the_code_says():
    assert PAGE.read_text("utf-8") == page(), "run `make docs`"
