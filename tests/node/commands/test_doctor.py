import asyncio
import json
import os
import socket

import apsw
import pytest

from comity.node.commands import doctor
from comity.node.commands.doctor import check_clock, check_disk, check_folder, check_python
from comity.runtime.part import CheckResult
from comity.runtime.settings import (
    AgentSettings,
    HttpSettings,
    RateSettings,
    Settings,
    StorageSettings,
    StoreSettings,
)
from comity.runtime.system_clock import SystemClock
from comity.runtime.upkeep import check_budget, check_storage
from comity.store.claim import FolderClaim, RunningNode
from comity.store.interface import Hold
from comity.store.sqlite import SqliteStore
from comity.store.sqlite.connection import STEPS, migrate
from tests.ports import unused_port

NOW = 1_800_000_000.0


def marks(outcome):
    return {check["check"]: check["mark"] for check in json.loads(outcome.out)["checks"]}


def finding(outcome, name):
    return next(check for check in json.loads(outcome.out)["checks"] if check["check"] == name)


@pytest.fixture
def free_port(monkeypatch):
    port = unused_port()
    monkeypatch.setenv("COMITY_PORT", str(port))
    return port


def test_a_fresh_machine_is_ready(comity, data, free_port):
    outcome = comity("doctor", "--json")
    assert outcome.code == 0
    assert set(marks(outcome).values()) == {"ok"}
    assert set(marks(outcome)) >= {"settings", "python", "clock", "data folder", "disk", "identity", "token"}
    assert set(marks(outcome)) >= {"database", "port", "extra mcp", "extra p2p", "extra keyring"}
    assert not data.exists()


def test_a_machine_in_use_is_ready_too(comity, record, free_port):
    record(3)
    outcome = comity("doctor")
    assert outcome.code == 0
    assert "undamaged, with page checksums" in outcome.out
    assert outcome.out.endswith("Everything is ready for a node.\n")


def test_settings_that_cannot_be_used_fail_and_the_rest_is_still_looked_at(
    comity, monkeypatch, identity, data
):
    monkeypatch.setenv("COMITY_PORT", "abc")
    outcome = comity("doctor", "--data", data, "--json")
    assert outcome.code == 1
    assert finding(outcome, "settings")["mark"] == "fail"
    assert "COMITY_PORT must be a whole number" in finding(outcome, "settings")["finding"]
    assert finding(outcome, "identity")["mark"] == "ok"
    assert str(data) in finding(outcome, "data folder")["finding"]


def test_a_file_that_cannot_be_used_fails_and_the_folder_is_still_looked_at(comity, data, identity):
    (data / "config.toml").write_text("port = ")
    outcome = comity("doctor", "--json")
    assert outcome.code == 1
    assert "is not valid TOML" in finding(outcome, "settings")["finding"]
    assert str(data) in finding(outcome, "data folder")["finding"]


@pytest.mark.parametrize(
    ("mode", "mark"), [(0o700, "ok"), (0o750, "warn"), (0o755, "warn"), (0o770, "fail"), (0o777, "fail")]
)
def test_the_folder_belongs_to_its_owner_alone(data, mode, mark):
    data.mkdir()
    data.chmod(mode)
    found = check_folder(data)
    assert found.mark == mark
    assert mark == "ok" or found.remedy == f"chmod 700 {data}"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away"
)
def test_a_folder_of_somebody_else_fails(data):
    data.mkdir(mode=0o700)
    os.chown(data, 12_345, -1)
    found = check_folder(data)
    assert found.mark == "fail"
    assert "belongs to user 12345" in found.finding
    assert found.remedy.startswith("chown ")


def test_a_file_where_the_folder_should_be_fails(data):
    data.write_text("")
    assert check_folder(data).mark == "fail"
    assert check_folder(data / "below").mark == "fail"


def test_what_may_not_be_looked_at_is_not_taken_for_missing(data, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.lstat", closed)
    for check in (doctor.check_identity, doctor.check_token):
        found = check(data)
        assert found.mark == "fail"
        assert "permission denied" in found.finding


def test_an_identity_or_token_open_to_others_fails_with_the_command_that_closes_it(comity, data, identity):
    (data / "identity.json").chmod(0o644)
    (data / "token").write_text("x" * 32)
    (data / "token").chmod(0o640)
    outcome = comity("doctor", "--json")
    assert outcome.code == 1
    for name, file in (("identity", "identity.json"), ("token", "token")):
        assert finding(outcome, name)["mark"] == "fail"
        assert f"chmod 600 {data / file}" in finding(outcome, name)["finding"]


def test_a_damaged_database_fails_and_is_left_alone(comity, data, record):
    record(5)
    database = data / "comity.db"
    content = database.read_bytes()
    database.write_bytes(content[:20_000] + b"\xaa" * 100 + content[20_100:])
    before = database.read_bytes()
    outcome = comity("doctor")
    assert outcome.code == 1
    assert "Restore it from a backup" in outcome.out
    assert "1 check failed" in outcome.out
    assert database.read_bytes() == before


def test_a_memory_store_is_a_warning(tmp_path):
    settings = Settings(data=tmp_path, store=StoreSettings(engine="memory"))
    assert doctor.check_database(settings).mark == "warn"


def test_a_taken_port_warns_by_default_and_fails_when_it_was_asked_for(comity, monkeypatch, data):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings = Settings(data=data, port=port)
        assert doctor.check_port(settings, asked_for=False).mark == "warn"
        monkeypatch.setenv("COMITY_PORT", str(port))
        outcome = comity("doctor", "--json")
    assert outcome.code == 1
    assert finding(outcome, "port")["remedy"] == "stop it or choose another port"


def test_a_port_that_is_held_by_our_own_node_is_fine(data):
    data.mkdir()
    claim = FolderClaim(data)
    claim.announce(RunningNode(pid=77, url="http://127.0.0.1:1", vacant_id="00"))
    found = doctor.check_port(Settings(data=data), asked_for=True)
    claim.release()
    assert found == CheckResult(
        "port", "ok", "the node of this folder runs at http://127.0.0.1:1 (process 77)"
    )


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6 addresses")
def test_a_host_that_is_not_ours_fails(data):
    assert doctor.check_port(Settings(data=data, host="::1%nowhere", port=1), asked_for=True).mark == "fail"


def test_any_free_port_is_fine(data):
    assert doctor.check_port(Settings(data=data, port=0), asked_for=True).mark == "ok"


def test_the_clock_must_not_be_older_than_this_release(tmp_path):
    assert check_clock(tmp_path / "none", now=lambda: NOW).mark == "ok"
    assert check_clock(tmp_path / "none", now=lambda: 1_000_000_000.0).mark == "fail"


def test_a_database_from_the_future_shows_a_clock_that_went_back(tmp_path):
    database = tmp_path / "comity.db"
    database.write_text("")
    os.utime(database, (NOW, NOW))
    assert check_clock(database, now=lambda: NOW - 60).mark == "ok"
    assert check_clock(database, now=lambda: NOW - 3600).mark == "warn"


def test_a_monotonic_clock_must_not_run_backwards(tmp_path):
    times = iter((2.0, 1.0))
    assert check_clock(tmp_path, now=lambda: NOW, monotonic=lambda: next(times)).mark == "fail"


@pytest.mark.parametrize(("free", "mark"), [(10 * 1024**3, "ok"), (500 * 1024**2, "warn"), (1024**2, "fail")])
def test_a_disk_must_have_room(tmp_path, monkeypatch, free, mark):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": free})())
    assert check_disk(tmp_path / "not" / "there").mark == mark


def test_an_old_python_fails():
    assert check_python((3, 10, 9)).mark == "fail"
    assert check_python((3, 11, 0)).mark == "ok"


def test_a_missing_extra_is_told_with_what_it_is_for(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    found = list(doctor.check_extras())
    assert {each.mark for each in found} == {"ok"}
    assert all("not installed; needed only for" in each.finding for each in found)


def store_cards(settings, size):
    async def write():
        store = await SqliteStore.open(settings.database, SystemClock())
        await store.commit(Hold(quota="cards", item="x", holder="a", bytes=size))
        await store.close()

    asyncio.run(write())


def test_what_is_stored_for_others_is_told_and_a_full_quota_is_a_warning(data):
    data.mkdir()
    settings = Settings(data=data, storage=StorageSettings(cards_bytes=8 * 1024**2))
    assert check_storage(settings).finding == "0 of 1 GiB replies, 0 of 8 MiB cards"
    store_cards(settings, 2 * 1024**2)
    assert check_storage(settings)[1:3] == ("ok", "0 of 1 GiB replies, 2 MiB of 8 MiB cards")
    store_cards(settings, int(5.9 * 1024**2))
    found = check_storage(settings)
    assert (found.mark, found.remedy) == ("warn", "raise storage.cards_bytes if the disk has room for more")
    assert "newcomers are refused" in found.finding


def test_more_than_the_disk_holds_is_a_warning(data):
    found = check_storage(Settings(data=data, storage=StorageSettings(cards_bytes=10**15)))
    assert (found.mark, "more than the disk has room for" in found.finding) == ("warn", True)


def test_a_database_of_an_earlier_release_is_no_fault(data):
    data.mkdir()
    settings = Settings(data=data)
    connection = apsw.Connection(str(settings.database))
    migrate(connection, settings.database, STEPS[:2])
    connection.close()
    assert check_storage(settings) == CheckResult(
        "quotas", "ok", "not counted yet; the next start of the node does"
    )


def test_a_proxy_that_nobody_named_is_a_warning(data):
    agent = AgentSettings(behaviour="echo", endpoint="https://agent.example/a2a/message/send")
    found = check_budget(Settings(data=data, agent=agent))
    assert (found.mark, found.remedy) == ("warn", "name the proxy in http.trusted_proxies")
    for result in (
        {"http": HttpSettings(trusted_proxies=("127.0.0.1",))},
        {"rate": RateSettings(limit_loopback=True)},
    ):
        assert check_budget(Settings(data=data, agent=agent, **result)).mark == "ok"
    assert check_budget(Settings(data=data)).finding == "6,000 requests and 64 MiB in 60 s for each address"
