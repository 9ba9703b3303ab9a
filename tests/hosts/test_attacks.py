"""Files, links and moments that somebody arranged."""

import json
import os
import stat
import sys
import threading

import pytest

from comity.hosts import config_file
from comity.hosts.clients import Launch
from comity.hosts.config_file import Records, look, replace
from comity.hosts.install import aim, install, uninstall
from comity.wire.errors import ConflictError

LAUNCH = Launch(command='/p/it\'s "quoted" \\ {x} ${y}/python', args=("-m", "comity", "mcp"), env={})
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs links and mode bits")


@pytest.fixture
def file(home):
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    return path


def test_a_command_with_every_kind_of_quote_reads_the_same_in_every_client(machine, data):
    for client in ("cursor", "codex", "goose"):
        target = aim(client, "user", "comity", machine)
        assert not install(target, LAUNCH, machine, Records(data)).fault
        held = target.language.find(target.file.read_text(), (*target.about.holder, "comity"))
        assert LAUNCH.command in (held.get("command"), held.get("cmd"))


@posix
def test_a_link_stays_a_link_and_its_target_is_changed(comity, home, file, tmp_path):
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text("{}\n")
    file.symlink_to(real)
    assert comity("install", "cursor").code == 0
    assert file.is_symlink()
    assert "comity" in json.loads(real.read_text())["mcpServers"]
    assert comity("uninstall", "cursor").code == 0
    assert file.is_symlink()
    assert real.read_text() == "{}\n"


@posix
def test_a_link_to_nothing_gets_its_file_and_loses_it_again(comity, file, tmp_path):
    file.symlink_to(tmp_path / "later" / "mcp.json")
    assert comity("install", "cursor").code == 0
    assert (tmp_path / "later" / "mcp.json").exists()
    assert comity("uninstall", "cursor").code == 0
    assert file.is_symlink()
    assert not (tmp_path / "later").exists()


@posix
def test_links_in_a_circle_are_refused(comity, file):
    file.symlink_to(file)
    outcome = comity("install", "cursor")
    assert outcome.code == 1
    assert outcome.err.count("error:") == 1


@posix
def test_a_read_only_file_is_refused_even_to_root(comity, file):
    file.write_text("{}")
    file.chmod(0o444)
    outcome = comity("install", "cursor")
    assert outcome.code == 1
    assert "is read-only; if it may be changed, run: chmod u+w" in outcome.err
    assert file.read_text() == "{}"


def test_a_folder_in_the_place_of_the_file_is_refused(comity, file):
    file.mkdir()
    outcome = comity("install", "cursor")
    assert outcome.code == 1
    assert "is not a regular file" in outcome.err
    assert comity("uninstall", "--all").code == 0


def test_a_file_in_the_place_of_the_folder_is_refused(comity, home, tree):
    (home / ".cursor").write_text("")
    before = tree()
    assert comity("install", "cursor").code == 1
    assert tree() == before


@pytest.mark.parametrize("content", [b"\xff\xfe{\x00}\x00", b'{"a": "\xe9"}', b"\x00", b"{" * 100_000])
def test_bytes_that_are_no_text_of_the_kind_are_refused_and_left(comity, file, content):
    file.write_bytes(content)
    outcome = comity("install", "cursor")
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert "unexpected error" not in outcome.err
    assert file.read_bytes() == content


def test_mode_and_line_ends_stay(comity, file):
    file.write_bytes(b'{\r\n  "a": 1\r\n}\r\n')
    file.chmod(0o640)
    comity("install", "cursor")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n")


def test_a_file_that_changes_under_our_hands_is_not_overwritten(file):
    file.write_text("{}")
    found = look(file)
    file.write_text('{"theirs": 1}')
    with pytest.raises(ConflictError, match="was changed by another program"):
        replace(found, b"ours", mode=0o600)
    assert file.read_text() == '{"theirs": 1}'
    assert [path.name for path in file.parent.iterdir()] == ["mcp.json"]


def test_a_write_that_fails_leaves_file_folders_and_records_as_they_were(
    machine, data, home, tree, monkeypatch
):
    before = tree()
    target = aim("kiro", "user", "comity", machine)

    def fails(*_, **__):
        raise OSError(28, "No space left on device", str(target.file))

    monkeypatch.setattr(config_file.os, "fchmod", fails)
    monkeypatch.setattr(Records, "keep", lambda *_, **__: None)
    outcome = install(target, LAUNCH, machine, Records(data))
    assert "no space left" in outcome.fault
    assert tree() == before
    assert Records(data).read(target.file) is None


def test_stopped_between_record_and_file_everything_can_be_taken_back(machine, data, home, monkeypatch, tree):
    target = aim("cursor", "user", "comity", machine)
    target.file.parent.mkdir()
    target.file.write_text("{ }")
    before = tree()
    real = config_file.replace

    def stops(found, content, *, mode):
        if found.path == target.file:
            raise KeyboardInterrupt
        real(found, content, mode=mode)

    monkeypatch.setattr(config_file, "replace", stops)
    with pytest.raises(KeyboardInterrupt):
        install(target, LAUNCH, machine, Records(data))
    monkeypatch.undo()
    assert tree() == before
    assert not uninstall(target, machine, Records(data)).fault
    assert tree() == before


@posix
def test_many_at_the_same_time_lose_nothing(machine, data, file):
    file.write_text("{ }\n")
    names = [f"server-{number}" for number in range(8)]
    faults = []

    def at_once(act, *more):
        def run(name):
            faults.append(act(aim("cursor", "user", name, machine), *more).fault)

        threads = [threading.Thread(target=run, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    at_once(install, LAUNCH, machine, Records(data))
    assert sorted(json.loads(file.read_text())["mcpServers"]) == names
    at_once(uninstall, machine, Records(data))
    assert set(faults) == {""}
    assert file.read_text() == "{ }\n"


def test_a_damaged_record_is_said_and_nothing_is_guessed(comity, file, data):
    file.write_text("{}")
    comity("install", "cursor")
    (record,) = (data / "installed").glob("*.json")
    record.write_text("{")
    there = file.read_text()
    for call in ("install", "uninstall"):
        outcome = comity(call, "cursor", *(["--preset", "core"] if call == "install" else []))
        assert outcome.code == 1
        assert f"{record} is damaged" in outcome.err
    assert file.read_text() == there


def test_a_copy_that_is_gone_or_was_changed_is_not_used(comity, file, data):
    for meddle in (lambda copy: copy.unlink(), lambda copy: copy.write_text("not what it was")):
        file.write_text('{"theirs": 1}')
        comity("install", "cursor")
        (copy,) = (data / "installed").glob("*.before")
        meddle(copy)
        assert comity("uninstall", "cursor").code == 0
        assert json.loads(file.read_text()) == {"theirs": 1}


@posix
def test_the_copy_of_a_file_is_closed_to_others(comity, file, data):
    file.write_text('{"token": "theirs"}')
    file.chmod(0o644)
    comity("install", "cursor")
    kept = list((data / "installed").iterdir())
    assert len(kept) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    comity("uninstall", "cursor")
    assert not (data / "installed").exists()


def test_what_a_stranger_named_cannot_steer_a_terminal(comity, home, file):
    file.write_text('{"a": "\x1b[2J"')
    outcome = comity("install", "cursor")
    assert "\x1b" not in outcome.err + outcome.out


def test_a_written_file_is_synced_before_its_name_points_to_it(machine, data, monkeypatch):
    order = []
    rename = config_file.Path.replace
    monkeypatch.setattr(os, "fsync", lambda _: order.append("sync"))
    monkeypatch.setattr(
        config_file.Path, "replace", lambda self, to: (order.append("rename"), rename(self, to))[1]
    )
    install(aim("cursor", "user", "comity", machine), LAUNCH, machine, Records(data))
    assert order == ["sync", "rename", "sync"] * 3
