import io
import json
import stat
from functools import partial

import pytest

from comity.identity.key_files import create_identity, identity_file, load_identity, needs_passphrase
from comity.identity.passphrase import SealingCost


@pytest.fixture(autouse=True)
def cheap_sealing(monkeypatch):
    cheap = SealingCost(passes=1, memory=8 * 1024)
    monkeypatch.setattr("comity.identity.key_files.SealingCost", lambda: cheap)
    monkeypatch.setattr("comity.node.commands.identity.identity_file", partial(identity_file, cost=cheap))


@pytest.fixture
def passphrase_file(tmp_path):
    path = tmp_path / "pass.txt"
    path.write_text("correct horse\nanything after the first line\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def at_terminal(monkeypatch):
    """Somebody sits at the terminal and types these lines."""

    def type_lines(*lines):
        answers = iter(lines)
        terminal = io.StringIO("".join(f"{line}\n" for line in lines))
        terminal.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", terminal)
        monkeypatch.setattr("getpass.getpass", lambda _: next(answers))

    return type_lines


def test_new_makes_an_identity_and_show_shows_the_same(comity, data):
    made = comity("id", "new", "--json")
    assert made.code == 0
    shown = comity("id", "show", "--json")
    assert json.loads(made.out) == json.loads(shown.out)
    key = load_identity(data)
    assert json.loads(shown.out) == {
        "vacant_id": key.vacant_id.hex(),
        "short": key.vacant_id.short(),
        "did_key": key.vacant_id.did_key(),
        "key_type": "Ed25519",
        "key_file": str(data / "identity.json"),
        "kept": "here",
    }
    assert stat.S_IMODE((data / "identity.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_show_for_people_names_every_form_and_the_place_of_the_key(comity, identity, data):
    out = comity("id", "show").out
    for part in (identity.vacant_id.hex(), identity.vacant_id.did_key(), str(data / "identity.json")):
        assert part in out
    assert "readable only by its owner" in out
    assert identity.seed.hex() not in out


def test_an_identity_is_never_overwritten(comity, data):
    comity("id", "new")
    before = (data / "identity.json").read_bytes()
    for flags in ([], ["--passphrase-file", "not even looked at"]):
        outcome = comity("id", "new", *flags)
        assert outcome.code == 1
        assert "exists and is never overwritten" in outcome.err
    assert (data / "identity.json").read_bytes() == before


def test_without_an_identity_the_remedy_is_named(comity):
    for command in ("show", "export"):
        outcome = comity("id", command)
        assert outcome.code == 1
        assert "comity id new" in outcome.err


def test_a_damaged_identity_is_refused_and_left_alone(comity, data, identity):
    path = data / "identity.json"
    path.write_bytes(b"{")
    outcome = comity("id", "show")
    assert (outcome.code, outcome.out) == (1, "")
    assert "is not an identity file" in outcome.err
    assert path.read_bytes() == b"{"


def test_new_can_be_sealed_by_a_passphrase_from_a_file(comity, data, passphrase_file):
    assert comity("id", "new", "--passphrase-file", passphrase_file).code == 0
    assert needs_passphrase(data)
    assert load_identity(data, passphrase="correct horse")
    assert "encrypted with a passphrase" in comity("id", "show").out


def test_new_can_be_sealed_by_a_passphrase_from_stdin(comity, data, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\r\n"))
    assert comity("id", "new", "--passphrase-file", "-").code == 0
    assert load_identity(data, passphrase="from a pipe")


def test_new_can_ask_for_the_passphrase(comity, data, at_terminal):
    at_terminal("typed", "mistyped")
    refused = comity("id", "new", "--passphrase")
    assert refused.code == 2
    assert "the two passphrases differ" in refused.err
    assert not data.exists()
    at_terminal("typed", "typed")
    assert comity("id", "new", "--passphrase").code == 0
    assert load_identity(data, passphrase="typed")


def test_without_a_terminal_nothing_is_asked(comity, data, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    outcome = comity("id", "new", "--passphrase")
    assert outcome.code == 2
    assert "use --passphrase-file FILE" in outcome.err
    assert not data.exists()


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"\n", 0o600, "the first line"),
        (b"\xff\n", 0o600, "is not UTF-8 text"),
        (b"secret\n", 0o644, "is open to others"),
        (None, 0, "does not exist"),
    ],
)
def test_a_passphrase_file_that_cannot_be_used_is_refused(comity, data, tmp_path, content, mode, words):
    path = tmp_path / "bad.txt"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    outcome = comity("id", "new", "--passphrase-file", path)
    assert outcome.code == 1
    assert words in outcome.err
    assert not data.exists()


def test_one_way_to_keep_the_key_is_enough(comity, passphrase_file):
    outcome = comity("id", "new", "--passphrase-file", passphrase_file, "--keyring")
    assert outcome.code == 2
    assert "cannot be combined" in outcome.err


def test_export_prints_the_public_card_and_nothing_secret(comity, identity):
    outcome = comity("id", "export")
    card = json.loads(outcome.out)
    assert card["vacant_id"] == identity.vacant_id.hex()
    assert card["did_key"] == identity.vacant_id.did_key()
    assert identity.seed.hex() not in outcome.out


def test_export_writes_the_card_into_a_new_file_only(comity, identity, tmp_path):
    target = tmp_path / "card.json"
    assert comity("id", "export", "--to", target).code == 0
    assert json.loads(target.read_text())["vacant_id"] == identity.vacant_id.hex()
    before = target.read_bytes()
    outcome = comity("id", "export", "--to", target)
    assert outcome.code == 1
    assert "never overwritten" in outcome.err
    assert target.read_bytes() == before
    assert comity("id", "export", "--to", tmp_path / "no" / "card.json").code == 1


def test_a_secret_is_exported_into_a_private_file_that_is_the_same_node_again(comity, identity, tmp_path):
    target = tmp_path / "other" / "identity.json"
    target.parent.mkdir(mode=0o700)
    outcome = comity("id", "export", "--secret", "--to", target, "--yes")
    assert outcome.code == 0
    assert identity.seed.hex() not in outcome.out + outcome.err
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert load_identity(target.parent).seed == identity.seed


def test_a_secret_is_printed_only_when_stdout_is_asked_for(comity, identity, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    refused = comity("id", "export", "--secret", "--yes")
    assert (refused.code, refused.out) == (2, "")
    unasked = comity("id", "export", "--secret", "--to", tmp_path / "x")
    assert unasked.code == 2
    assert "use --yes" in unasked.err
    assert not (tmp_path / "x").exists()
    printed = comity("id", "export", "--secret", "--stdout", "--yes")
    assert json.loads(printed.out)["secret"]["seed"] == identity.seed.hex()


def test_a_secret_is_exported_when_the_person_says_yes_and_not_when_no(
    comity, identity, tmp_path, at_terminal
):
    at_terminal("n")
    refused = comity("id", "export", "--secret", "--to", tmp_path / "x")
    assert refused.code == 1
    assert "stopped before anything was done" in refused.err
    assert not (tmp_path / "x").exists()
    at_terminal("yes")
    assert comity("id", "export", "--secret", "--to", tmp_path / "x").code == 0


def test_a_sealed_identity_is_exported_sealed(comity, data, passphrase_file, tmp_path, at_terminal):
    key = create_identity(data, passphrase="correct horse", cost=SealingCost(passes=1, memory=8 * 1024))
    folder = tmp_path / "other"
    folder.mkdir(mode=0o700)
    flags = ("--passphrase-file", passphrase_file, "--yes")
    assert comity("id", "export", "--secret", "--to", folder / "identity.json", *flags).code == 0
    assert needs_passphrase(folder)
    assert load_identity(folder, passphrase="correct horse").seed == key.seed
    printed = comity("id", "export", "--secret", "--stdout", *flags)
    assert json.loads(printed.out)["secret"]["kept"] == "sealed"
    at_terminal("wrong")
    refused = comity("id", "export", "--secret", "--stdout", "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "the passphrase does not open it" in refused.err


def test_an_open_identity_may_be_exported_under_a_passphrase(comity, identity, passphrase_file, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir(mode=0o700)
    flags = ("--passphrase-file", passphrase_file, "--yes")
    assert comity("id", "export", "--secret", "--to", folder / "identity.json", *flags).code == 0
    assert load_identity(folder, passphrase="correct horse").seed == identity.seed


def test_options_of_a_secret_are_refused_without_one(comity, identity):
    assert comity("id", "export", "--yes").code == 2
    assert comity("id", "export", "--stdout").code == 2
