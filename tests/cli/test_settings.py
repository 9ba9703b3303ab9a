import json

import pytest

from comity.cli.settings import MASKED
from comity.keys.vault_key import new_vault_key


def rows(out):
    return {line.split("  ")[0]: line.split() for line in out.splitlines()}


def test_every_value_is_shown_with_its_source(comity, data, monkeypatch):
    data.mkdir()
    (data / "config.toml").write_text("[rate]\nrequests = 5\n")
    monkeypatch.setenv("COMITY_PORT", "9000")
    shown = json.loads(comity("config", "show", "--json").out)
    assert shown["settings"]["port"] == {"value": 9000, "source": "COMITY_PORT"}
    assert shown["settings"]["rate.requests"] == {"value": 5, "source": str(data / "config.toml")}
    assert shown["settings"]["data"] == {"value": str(data), "source": "COMITY_DATA"}
    assert shown["settings"]["host"] == {"value": "127.0.0.1", "source": "default"}
    assert shown["file"] == str(data / "config.toml")

    table = rows(comity("config", "show").out)
    assert table["port"] == ["port", "9000", "COMITY_PORT"]
    assert table["http.public"] == ["http.public", "false", "default"]
    assert table["http.allowed_hosts"] == ["http.allowed_hosts", "none", "default"]
    assert table["http.shutdown_seconds"] == ["http.shutdown_seconds", "10", "default"]


def test_without_a_file_it_says_which_one_would_be_read(comity, data):
    assert f"{data / 'config.toml'} would be read" in comity("config", "show").out


def test_a_secret_is_masked_wherever_it_lives(comity, data, identity, monkeypatch):
    key = new_vault_key().decode()
    monkeypatch.setenv("VCP_CONTEXT_ENCRYPTION_KEY", key)
    (data / "token").write_text("a-very-secret-token")
    plain, as_json = comity("config", "show").out, comity("config", "show", "--json").out
    for secret in (key, "a-very-secret-token", identity.seed.hex()):
        assert secret not in plain + as_json
    secrets = json.loads(as_json)["secrets"]
    assert secrets["identity"] == {"value": MASKED, "source": str(data / "identity.json")}
    assert secrets["vault key"] == {"value": MASKED, "source": "VCP_CONTEXT_ENCRYPTION_KEY"}


def test_a_secret_that_is_not_there_yet_is_said_to_be_so(comity, data):
    assert json.loads(comity("config", "show", "--json").out)["secrets"]["token"] == {
        "value": None,
        "source": str(data / "token"),
    }
    assert "not made yet" in comity("config", "show").out


@pytest.mark.parametrize(
    ("text", "words"),
    [("prot = 1", "did you mean port?"), ("port = ", "is not valid TOML"), ('port = "x"', "port in ")],
)
def test_a_bad_file_is_one_sentence(comity, tmp_path, text, words):
    file = tmp_path / "my.toml"
    file.write_text(text)
    outcome = comity("config", "show", "--config", file)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert outcome.err.count("\n") == 1
