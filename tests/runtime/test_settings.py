import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.runtime.settings import (
    AuditSettings,
    HttpSettings,
    Settings,
    StoreSettings,
    TlsSettings,
    VaultSettings,
)
from comity.runtime.settings_file import DEFAULT, load_settings, read_settings, values_of
from comity.system import is_loopback
from comity.wire.errors import ConfigError


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def load(home):
    def load(flags=None, environ=None, platform="linux"):
        return read_settings(flags or {}, environ or {}, home=home, platform=platform)

    return load


@pytest.fixture
def data_with_file(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()

    def write(text):
        (folder / "config.toml").write_text(text, encoding="utf-8")
        return {"data": str(folder)}

    return write


@pytest.fixture
def tls(tmp_path):
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("x")
    return {"tls.cert": str(tmp_path / "cert.pem"), "tls.key": str(tmp_path / "key.pem")}


def refusal(load, *args, **kwargs):
    with pytest.raises(ConfigError) as refused:
        load(*args, **kwargs)
    return refused.value.message


def test_without_any_source_every_value_is_a_default(load):
    loaded = load()
    assert loaded.settings.host == "127.0.0.1"
    assert loaded.settings.port == 8420
    assert loaded.settings.environment == "development"
    assert loaded.settings.store.engine == "sqlite"
    assert loaded.settings.http == HttpSettings(body_limit=1_048_576, shutdown_seconds=10)
    assert loaded.settings.rate.requests == 6000
    assert loaded.settings.rate.per_seconds == 60
    assert set(loaded.sources.values()) == {DEFAULT}
    assert loaded.file is None


def test_values_and_sources_name_the_same_keys(load):
    loaded = load()
    assert values_of(loaded.settings).keys() == loaded.sources.keys()
    assert values_of(loaded.settings)["http.body_limit"] == 1_048_576


def test_a_flag_beats_a_variable_which_beats_the_file(load, data_with_file):
    flags = data_with_file('port = 1001\nlog_level = "debug"\n[rate]\nrequests = 5\n')
    from_file = load(flags)
    assert from_file.settings.port == 1001
    assert from_file.sources["port"] == str(from_file.file)

    environ = {"COMITY_PORT": "1002", "COMITY_RATE_REQUESTS": "6"}
    from_environment = load(flags, environ)
    assert from_environment.settings.port == 1002
    assert from_environment.settings.rate.requests == 6
    assert from_environment.sources["rate.requests"] == "COMITY_RATE_REQUESTS"

    from_flag = load({**flags, "port": "1003"}, environ)
    assert from_flag.settings.port == 1003
    assert from_flag.sources["port"] == "--port"
    assert from_flag.settings.log_level == "debug"


def test_a_flag_that_is_none_was_not_given(load):
    assert load({"port": None, "config": None}).sources["port"] == DEFAULT


def test_an_empty_variable_was_not_given(load):
    assert load(environ={"COMITY_PORT": "", "COMITY_CONFIG": ""}).settings.port == 8420


@pytest.mark.parametrize(
    ("variable", "value", "key", "expected"),
    [
        ("COMITY_HOST", "::1", "host", "::1"),
        ("COMITY_PORT", " 0 ", "port", 0),
        ("COMITY_LOG_LEVEL", "WARNING", "log_level", "warning"),
        ("COMITY_LOG_JSON", "yes", "log_json", True),
        ("COMITY_STORE_ENGINE", "memory", "store.engine", "memory"),
        ("COMITY_HTTP_BODY_LIMIT", "2048", "http.body_limit", 2048),
        (
            "COMITY_HTTP_ALLOWED_HOSTS",
            "a.example, b.example",
            "http.allowed_hosts",
            ("a.example", "b.example"),
        ),
        (
            "COMITY_HTTP_ALLOWED_ORIGINS",
            "https://a.example:8443",
            "http.allowed_origins",
            ("https://a.example:8443",),
        ),
        (
            "COMITY_HTTP_TRUSTED_PROXIES",
            "127.0.0.1, 10.1.0.0/16,2001:db8::/32",
            "http.trusted_proxies",
            ("127.0.0.1", "10.1.0.0/16", "2001:db8::/32"),
        ),
        ("COMITY_RATE_LIMIT_LOOPBACK", "on", "rate.limit_loopback", True),
        ("COMITY_RATE_BYTES", "2048", "rate.bytes", 2048),
        ("COMITY_STORAGE_PAIR_BYTES", "2048", "storage.pair_bytes", 2048),
        ("COMITY_HTTP_PUBLIC", "off", "http.public", False),
        ("COMITY_HTTP_SHUTDOWN_SECONDS", "2.5", "http.shutdown_seconds", 2.5),
        ("COMITY_AUDIT_LEVEL", "full", "audit.level", "full"),
        ("COMITY_AUDIT_RETENTION_DAYS", "30", "audit.retention_days", 30),
        ("COMITY_RATE_PER_SECONDS", "1", "rate.per_seconds", 1.0),
        ("COMITY_VAULT_PLAINTEXT", "1", "vault.plaintext", True),
    ],
)
def test_each_setting_has_its_variable(load, variable, value, key, expected):
    loaded = load(environ={variable: value})
    assert values_of(loaded.settings)[key] == expected
    assert loaded.sources[key] == variable


@pytest.mark.parametrize(
    ("variable", "value", "wanted"),
    [
        ("COMITY_PORT", "abc", "COMITY_PORT must be a whole number from 0 to 65535, not 'abc'"),
        ("COMITY_PORT", "65536", "from 0 to 65535"),
        ("COMITY_PORT", "-1", "from 0 to 65535"),
        ("COMITY_PORT", "80.0", "a whole number"),
        ("COMITY_PORT", "٨٠", "a whole number"),
        ("COMITY_PORT", "9" * 5000, "a whole number"),
        ("COMITY_HOST", "two words", "COMITY_HOST must be an address or a host name"),
        ("COMITY_HOST", "http://a", "COMITY_HOST must be an address or a host name"),
        ("COMITY_LOG_JSON", "maybe", "COMITY_LOG_JSON must be true or false, not 'maybe'"),
        ("COMITY_STORE_ENGINE", "postgres", "COMITY_STORE_ENGINE must be sqlite or memory"),
        ("COMITY_HTTP_BODY_LIMIT", "0", "from 1024 to 1073741824"),
        ("COMITY_HTTP_ALLOWED_HOSTS", "a.example,,b", "COMITY_HTTP_ALLOWED_HOSTS must be a list"),
        ("COMITY_HTTP_ALLOWED_ORIGINS", "*", "COMITY_HTTP_ALLOWED_ORIGINS must be a list"),
        ("COMITY_HTTP_TRUSTED_PROXIES", "proxy.example", "each an address such as 127.0.0.1 or a network"),
        ("COMITY_HTTP_TRUSTED_PROXIES", "10.1.2.3/16", "each an address such as 127.0.0.1 or a network"),
        ("COMITY_HTTP_TRUSTED_PROXIES", "10.0.0.0/33", "each an address such as 127.0.0.1 or a network"),
        ("COMITY_HTTP_SHUTDOWN_SECONDS", "nan", "a number from 0 to 600"),
        ("COMITY_HTTP_SHUTDOWN_SECONDS", "1e3", "a number from 0 to 600"),
        ("COMITY_RATE_REQUESTS", "0", "from 1 to"),
        ("COMITY_AUDIT_LEVEL", "loud", "minimal, standard, full or diagnostic"),
        ("COMITY_DATA", "a\0b", "COMITY_DATA must be a path"),
        ("COMITY_CONFIG", "a\0b", "COMITY_CONFIG must be a path"),
        ("COMITY_ENVIRONMENT", "qa", "COMITY_ENVIRONMENT must be production, prod, staging"),
        ("ENVIRONMENT", "qa", "ENVIRONMENT must be production, prod, staging"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_by_the_name_of_its_source(load, variable, value, wanted):
    message = refusal(load, environ={variable: value})
    assert wanted in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("place", "given"),
    [
        ("COMITY_PORT", {"environ": {"COMITY_PORT": "abc"}}),
        ("--port", {"flags": {"port": "abc"}}),
        ("--directory-url", {"flags": {"directory.url": "nowhere"}}),
        ("", {"flags": {"host": "0.0.0.0"}}),
    ],
)
def test_a_refusal_knows_what_it_is_said_of(load, place, given):
    with pytest.raises(ConfigError) as refused:
        load(**given)
    assert refused.value.place == place
    assert refused.value.message.startswith(place)


def test_a_refusal_may_call_its_place_by_another_name():
    refused = ConfigError("must be an address, not '--agent-url x'", place="--agent-url")
    assert refused.message == "--agent-url must be an address, not '--agent-url x'"
    again = refused.called("--url")
    assert (again.message, again.place) == ("--url must be an address, not '--agent-url x'", "--url")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('port = "8420"', "port in {file} must be a whole number from 0 to 65535, not '8420'"),
        ("port = true", "port in {file} must be a whole number"),
        ("port = 1.5", "port in {file} must be a whole number"),
        ("log_json = 1", "log_json in {file} must be true or false, not 1"),
        ("host = 5", "host in {file} must be an address"),
        ("[http]\nallowed_hosts = 'a.example'", "http.allowed_hosts in {file} must be a list"),
        ("[http]\nallowed_hosts = [1]", "http.allowed_hosts in {file} must be a list"),
        ("[http]\nshutdown_seconds = nan", "http.shutdown_seconds in {file} must be a number"),
        ("http = 5", "http in {file} must be a section that begins with [http]"),
        ("[port]\nx = 1", "port in {file} must be a whole number"),
        ("tls.cert = 5", "tls.cert in {file} must be a path"),
        ("prot = 1", "{file}: the setting prot is unknown; did you mean port?"),
        ("body_limit = 2048", "{file}: the setting body_limit is unknown; did you mean http.body_limit?"),
        ("[http]\nbody_limitt = 1", "the setting http.body_limitt is unknown; did you mean http.body_limit?"),
        ("[htpp]\npublic = true", "the section [htpp] is unknown; did you mean [http]?"),
        ("[[http]]\npublic = true", "http in {file} must be a section"),
        ("zzzzzzzzzz = 1", "is unknown; `comity config show` lists all that exist"),
        ("port = ", "{file} is not valid TOML"),
        ("port = 1\nport = 2", "{file} is not valid TOML"),
        ("x = " + "[" * 100_000, "{file} is not valid TOML"),
        ("data = '/elsewhere'", "data in {file} would move the folder"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_key_and_file(load, data_with_file, text, wanted):
    flags = data_with_file(text)
    assert wanted.format(file=f"{flags['data']}/config.toml") in refusal(load, flags)


def test_a_file_that_is_not_text_is_refused(load, tmp_path):
    file = tmp_path / "x.toml"
    file.write_bytes(b"port = 1 # \xff")
    assert "is not UTF-8 text" in refusal(load, {"config": file})
    file.write_bytes(b"#" * (1024 * 1024 + 1))
    assert "larger than 1,048,576 bytes" in refusal(load, {"config": file})
    assert "cannot be read" in refusal(load, {"config": tmp_path})


def test_a_data_folder_that_may_not_be_read_is_refused_by_its_name(load, data_with_file, monkeypatch):
    def closed(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    flags = data_with_file("port = 1")
    monkeypatch.setattr("pathlib.Path.open", closed)
    message = refusal(load, flags)
    assert f"the data folder {flags['data']} cannot be read: permission denied" in message
    assert "the settings file" in refusal(load, {"config": f"{flags['data']}/config.toml"})


@pytest.mark.parametrize(
    ("variable", "nearest"),
    [
        ("COMITY_PRT", "COMITY_PORT"),
        ("COMITY_STORE_ENGIN", "COMITY_STORE_ENGINE"),
        ("COMITY_HTTP_BODYLIMIT", "COMITY_HTTP_BODY_LIMIT"),
        ("COMITY_DEBG", "COMITY_DEBUG"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest_name(load, variable, nearest):
    assert (
        refusal(load, environ={variable: "1"})
        == f"the variable {variable} is unknown; did you mean {nearest}?"
    )


def test_an_unknown_flag_is_refused_with_the_nearest_name(load):
    assert "the flag --prot is unknown; did you mean --port?" in refusal(load, {"prot": "1"})


def test_variables_of_other_programs_and_of_the_tests_are_left_alone(load):
    for name in ("COMITY_VECTORS", "COMITY_SIM_SEEDS", "COMITY_TORTURE_ROUNDS", "COMITY_DEBUG", "OTHER_PORT"):
        load(environ={name: "1"})


def test_the_named_file_must_exist_and_the_one_in_the_data_folder_need_not(load, tmp_path):
    assert load({"data": tmp_path / "none"}).file is None
    assert "does not exist" in refusal(load, {"config": tmp_path / "none.toml"})
    assert "does not exist" in refusal(load, environ={"COMITY_CONFIG": str(tmp_path / "none.toml")})


def test_the_file_is_the_flag_else_the_variable_else_the_one_in_the_data_folder(
    load, data_with_file, tmp_path
):
    flags = data_with_file("port = 1")
    for number, name in ((2, "variable.toml"), (3, "flag.toml")):
        (tmp_path / name).write_text(f"port = {number}")
    environ = {"COMITY_CONFIG": str(tmp_path / "variable.toml")}
    assert load(flags).settings.port == 1
    assert load(flags, environ).settings.port == 2
    assert load({**flags, "config": tmp_path / "flag.toml"}, environ).settings.port == 3
    assert load({}, {"COMITY_DATA": flags["data"]}).settings.port == 1


def test_a_named_file_may_say_where_the_data_is_relative_to_itself(load, tmp_path):
    file = tmp_path / "deep" / "node.toml"
    file.parent.mkdir()
    file.write_text('data = "../store"')
    loaded = load({"config": file})
    assert loaded.settings.data == tmp_path / "store"
    assert loaded.sources["data"] == str(file)


def test_a_tilde_is_the_home_folder(load, home):
    assert load({"data": "~/node"}).settings.data == home / "node"
    assert load(environ={"COMITY_DATA": "~"}).settings.data == home


def test_a_relative_path_starts_at_the_working_folder(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load({"data": "here"}).settings.data == tmp_path / "here"


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {}, "{home}/.local/share/comity"),
        ("linux", {"XDG_DATA_HOME": "/xdg"}, "/xdg/comity"),
        ("linux", {"XDG_DATA_HOME": "relative"}, "{home}/.local/share/comity"),
        ("darwin", {"XDG_DATA_HOME": "/xdg"}, "{home}/Library/Application Support/comity"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/comity"),
        ("win32", {}, "{home}/AppData/Local/comity"),
    ],
)
def test_the_data_folder_follows_the_custom_of_the_system(load, home, platform, environ, expected):
    assert str(load(environ=environ, platform=platform).settings.data) == expected.format(home=home)


def test_the_environment_is_ours_else_the_plain_one_else_the_file(load, data_with_file):
    flags = data_with_file('environment = "staging"')
    assert load(flags).settings.environment == "staging"
    plain = load(flags, {"ENVIRONMENT": "Test"})
    assert (plain.settings.environment, plain.sources["environment"]) == ("test", "ENVIRONMENT")
    ours = load(flags, {"ENVIRONMENT": "anything", "COMITY_ENVIRONMENT": "prod"})
    assert (ours.settings.environment, ours.sources["environment"]) == ("prod", "COMITY_ENVIRONMENT")


@pytest.mark.parametrize(
    ("environment", "production"),
    [("production", True), ("prod", True), ("staging", True), ("development", False), ("test", False)],
)
def test_staging_counts_as_production(load, environment, production):
    assert load(environ={"ENVIRONMENT": environment}).settings.production is production


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tls(load, host):
    assert is_loopback(host)
    assert load({"host": host}).settings.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "node.example", "127.0.0.1.example", "0"])
def test_any_other_host_needs_tls_and_public(load, tls, host):
    for flags in ({}, tls, {"http.public": "true"}):
        assert f"host {host} can be reached from other machines" in refusal(load, {"host": host, **flags})
    assert load({"host": host, **tls, "http.public": "true"}).settings.host == host


def test_a_certificate_needs_its_key_and_a_key_its_certificate(load, tls):
    assert "tls.cert is set without tls.key" in refusal(load, {"tls.cert": tls["tls.cert"]})
    assert "tls.key is set without tls.cert" in refusal(load, {"tls.key": tls["tls.key"]})


def test_certificate_files_must_be_there(load, tls, tmp_path):
    assert "tls.key names" in refusal(load, {**tls, "tls.key": str(tmp_path / "none.pem")})
    assert "tls.cert names" in refusal(load, {**tls, "tls.cert": str(tmp_path)})


@pytest.mark.parametrize("environment", ["production", "prod", "staging"])
def test_production_refuses_what_forgets_or_tells_too_much(load, environment):
    environ = {"COMITY_ENVIRONMENT": environment}
    assert "audit.level diagnostic" in refusal(load, {"audit.level": "diagnostic"}, environ)
    assert "store.engine memory" in refusal(load, {"store.engine": "memory"}, environ)
    assert "vault.plaintext" in refusal(load, {"vault.plaintext": "true"}, environ)


def test_settings_built_in_code_obey_the_same_rules(tmp_path):
    for contradiction in (
        {"host": "0.0.0.0"},
        {"tls": TlsSettings(cert=tmp_path)},
        {"environment": "prod", "store": StoreSettings(engine="memory")},
        {"environment": "staging", "audit": AuditSettings(level="diagnostic")},
        {"environment": "test", "vault": VaultSettings(plaintext=True)},
    ):
        with pytest.raises(ConfigError):
            Settings(data=tmp_path, **contradiction)


def test_without_a_home_folder_the_data_folder_must_be_named(monkeypatch, tmp_path):
    def no_home():
        raise RuntimeError

    monkeypatch.setattr("pathlib.Path.home", no_home)
    with pytest.raises(ConfigError, match="name the data folder with --data or COMITY_DATA"):
        load_settings({}, {})
    assert load_settings({"data": tmp_path}, {}).settings.data == tmp_path


keys = st.sampled_from(["port", "host", "http", "http.public", "tls.cert", "rate.requests", "audit", "x"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(flags=st.dictionaries(keys, values, max_size=4))
def test_no_flag_makes_it_raise_anything_but_a_refusal(flags):
    with contextlib.suppress(ConfigError):
        load_settings(flags, {})


@given(st.dictionaries(st.sampled_from(["PORT", "HOST", "DATA", "HTTP_PUBLIC", "RATE_REQUESTS"]), st.text()))
def test_no_variable_makes_it_raise_anything_but_a_refusal(variables):
    with contextlib.suppress(ConfigError):
        load_settings({}, {f"COMITY_{name}": value for name, value in variables.items()})
