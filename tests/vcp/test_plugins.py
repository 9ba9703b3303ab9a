"""Extensions from outside: what they advertise, what they cannot stand beside, and how their payloads are answered."""

import asyncio
import sys

import pytest

from comity import VcpExtension
from comity.vcp import plugins
from comity.vcp.plugins import announced_extensions, named_extensions
from comity.vcp.protocol.registry import Dependency, ExtensionRegistry
from comity.wire.errors import ConfigError, InvalidError
from tests.requests.pipelines import simulated
from tests.vcp.runtime import NodeRuntime, hello

WEATHER, TIDES, DROUGHT = "VCP-X-Weather", "VCP-X-Tides", "VCP-X-Drought"


def weather(payload, session):
    if "place" not in payload:
        raise InvalidError("extensions.VCP-X-Weather.place is missing; name a place")
    return {"place": payload["place"], "sky": "clear", "session": session.id}


async def tides(payload, _session):
    await asyncio.sleep(payload.get("seconds", 0))
    return {"high": 2}


def broken(_payload, _session):
    raise RuntimeError("secret")


OURS = (
    VcpExtension(
        id=WEATHER,
        answer=weather,
        capability={"units": ["C"], "with_tides": True},
        dependencies=(Dependency(TIDES, "with_tides", when_active=True),),
        conflicts=(DROUGHT,),
    ),
    VcpExtension(id=TIDES, answer=tides),
    VcpExtension(id=DROUGHT, answer=broken),
)


def connected():
    registry = ExtensionRegistry(each.registration() for each in OURS)
    return NodeRuntime(registry=registry, plugins=OURS).connect()


@simulated
async def test_they_are_negotiated_with_their_dependencies():
    ack = await connected().ask(hello(WEATHER))
    assert ack["capabilities"] == {WEATHER: {"units": ["C"], "with_tides": False}}
    ack = await connected().ask(hello(WEATHER, TIDES))
    assert ack["capabilities"][WEATHER]["with_tides"] is True


@simulated
async def test_two_that_exclude_each_other_are_refused_by_name():
    error = await connected().ask(hello(DROUGHT, WEATHER))
    assert error["code"] == "EXTENSION_CONFLICT"
    assert WEATHER in error["message"]
    assert DROUGHT in error["message"]


@simulated
async def test_their_payloads_are_answered_while_they_are_active():
    client = connected()
    ack = await client.ask(hello(WEATHER))
    answer = await client.ask({"extensions": {WEATHER: {"place": "Ghent"}, TIDES: {}}})
    assert answer["accepted"] == [f"extensions.{WEATHER}"]
    assert [each["field"] for each in answer["ignored"]] == [f"extensions.{TIDES}"]
    assert answer["extensions"] == {WEATHER: {"place": "Ghent", "sky": "clear", "session": ack["session_id"]}}


@simulated
async def test_what_is_wrong_with_a_payload_is_told_to_the_client_and_what_breaks_is_not():
    client = connected()
    await client.ask(hello(WEATHER))
    error = (await client.ask({"extensions": {WEATHER: {}}}))["error"]
    assert (error["code"], error["field"]) == ("INVALID", f"extensions.{WEATHER}")
    assert "name a place" in error["message"]
    client = connected()
    await client.ask(hello(DROUGHT))
    answer = await client.ask({"extensions": {DROUGHT: {}}})
    assert "secret" not in str(answer)
    assert answer["error"]["code"] == "INTERNAL"


@simulated
async def test_one_that_takes_too_long_holds_nobody_up():
    client = connected()
    await client.ask(hello(TIDES))
    assert (await client.ask({"extensions": {TIDES: {"seconds": 60}}}))["error"]["code"] == "INTERNAL"
    assert (await client.ask({"extensions": {TIDES: {}}}))["extensions"] == {TIDES: {"high": 2}}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"id": "weather"}, "VCP-X-"),
        ({"id": "VCP-X-Personal"}, "of VCP itself"),
        ({"answer": 7}, "needs an answer"),
        ({"capability": {"when": object()}}, "JSON object"),
        ({"conflicts": (WEATHER,)}, "itself"),
    ],
)
def test_one_that_cannot_work_is_refused(members, words):
    with pytest.raises(ConfigError, match=words):
        VcpExtension(**{"id": WEATHER, "answer": weather} | members)


def test_the_settings_name_modules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "sky_of_mine.py").write_text(
        "from comity import VcpExtension\nSKY = VcpExtension(id='VCP-X-Sky', answer=lambda payload, session: {})\n"
    )
    (found,) = named_extensions(["sky_of_mine:SKY"])
    assert found.id == "VCP-X-Sky"
    for spec in ("sky_of_mine:SEA", "no_such_module:SKY", "json:dumps"):
        with pytest.raises(ConfigError, match=spec):
            named_extensions([spec])


def test_an_installed_one_that_cannot_be_used_is_left_out_and_told(monkeypatch, caplog):
    class Point:
        name, value = "x", "no_such_module:SKY"

    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: [Point] if group == plugins.GROUP else []
    )
    assert announced_extensions() == ()
    assert "no_such_module:SKY" in caplog.text
