import json

import pytest

from comity.identity.secrets import new_vault_key
from comity.node.commands.settings import MASKED


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


def test_a_setting_is_written_to_the_file_and_the_rest_of_it_stays(comity, data):
    data.mkdir(mode=0o700)
    file = data / "config.toml"
    file.write_text("# mine\nport = 9000  # the old one\n\n[http]\n# how much\nbody_limit = 65536\n")
    said = comity("config", "set", "port", "9001", "http.public", "true", "audit.retention_days", "30")
    assert said.code == 0, said.err
    assert said.out.splitlines()[0] == f"port = 9001 (from {file})"
    assert file.read_text() == (
        "# mine\nport = 9001  # the old one\n\n[http]\n# how much\nbody_limit = 65536\npublic = true\n\n"
        "[audit]\nretention_days = 30\n"
    )
    assert comity("config", "unset", "port", "http.public").code == 0
    assert "port" not in file.read_text()
    assert "# how much\nbody_limit = 65536\n" in file.read_text()


def test_the_first_setting_makes_the_file(comity, data):
    said = comity("config", "set", "dispatch.allowed_hosts", "a.example,10.1.0.0/16", "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out)["settings"]["dispatch.allowed_hosts"]["value"] == ["a.example", "10.1.0.0/16"]
    assert (data / "config.toml").read_text() == '[dispatch]\nallowed_hosts = ["a.example", "10.1.0.0/16"]\n'
    assert (data / "config.toml").stat().st_mode & 0o777 == 0o600
    assert data.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in data.iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["prot", "9"], "the setting prot is unknown; did you mean port?"),
        (
            ["retention_days", "9"],
            "the setting retention_days is unknown; did you mean audit.retention_days?",
        ),
        (["port", "many"], "port must be a whole number from 0 to 65535, not 'many'"),
        (["http.body_limit", "5"], "http.body_limit must be a whole number from 1024"),
        (["host", "0.0.0.0"], "host 0.0.0.0 can be reached from other machines"),
        (["tls.cert", "cert.pem"], "tls.cert is set without tls.key; set both or neither"),
        (["port"], "port has no value"),
        (["data", "/elsewhere"], "would move the folder that this file lies in"),
    ],
)
def test_what_is_not_valid_is_not_written(comity, data, arguments, told):
    said = comity("config", "set", *arguments)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert not (data / "config.toml").exists()


def test_a_file_that_cannot_be_changed_safely_stays_as_it_is(comity, data):
    data.mkdir(mode=0o700)
    file = data / "config.toml"
    file.write_text("http = { body_limit = 65536 }\n")
    said = comity("config", "set", "http.public", "true")
    assert said.code == 2
    assert f"{file}: line 1, column 1: http is written as an inline table" in said.err
    assert file.read_text() == "http = { body_limit = 65536 }\n"
    assert [path.name for path in data.iterdir()] == ["config.toml"]


def test_a_variable_that_overrides_the_file_is_named(comity, data, monkeypatch):
    monkeypatch.setenv("COMITY_PORT", "9100")
    said = comity("config", "set", "port", "9000")
    assert said.out == "port = 9100 (from COMITY_PORT)\n"
    assert f"COMITY_PORT overrides what {data / 'config.toml'} says" in said.err


def test_another_file_can_be_changed_and_checked(comity, tmp_path):
    file = tmp_path / "my.toml"
    file.write_text("port = 9000\n")
    assert comity("config", "set", "log_level", "debug", "--config", file).code == 0
    assert file.read_text() == 'port = 9000\nlog_level = "debug"\n'
    said = comity("config", "validate", "--config", file)
    assert said.code == 0
    assert said.out.startswith(f"Valid: {file}. ")
    file.write_text("prot = 9000\n")
    said = comity("config", "validate", "--config", file)
    assert (said.code, said.out) == (2, "")
    assert "the setting prot is unknown; did you mean port?" in said.err


def test_without_a_file_the_defaults_are_valid(comity, data):
    said = comity("config", "validate")
    assert said.code == 0
    assert f"Valid: the defaults, for there is no {data / 'config.toml'}." in said.out
    assert json.loads(comity("config", "validate", "--json").out)["valid"] is True
