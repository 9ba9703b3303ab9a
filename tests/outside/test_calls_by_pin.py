"""Calls through the outside door, by commands of one machine to the node of another."""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from comity import Client
from comity.envelopes.client.routes import doors_of
from comity.http.addresses import with_pin
from comity.identity.certificates import KEY_FILE
from comity.wire.errors import PinRefusedError
from tests.outside.conftest import outside_node

OTHER_PIN = "ab" * 32
COMMAND = [sys.executable, "-m", "comity"]
CAN_MAKE_NAMESPACES = sys.platform == "linux" and os.geteuid() == 0
SECONDS = 120


async def test_an_agent_is_called_at_the_address_with_its_pin(tmp_path):
    async with outside_node() as outsider, Client(data=tmp_path / "caller") as client:
        at = with_pin(outsider.base, outsider.door.pin)
        assert (await client.call(at, "hello")).text.endswith("hello")
        with pytest.raises(PinRefusedError, match=f"{outsider.door.pin}.*{OTHER_PIN}"):
            await client.call(with_pin(outsider.base, OTHER_PIN), "hello")
        assert (await client.call(at, "again")).number == 2


async def test_the_signed_card_names_the_door_while_it_is_open(tmp_path):
    async with outside_node(reasons=()) as outsider:
        form = next(part for part in outsider.node.runtime.parts if part.name == "agent").resident.form
        assert "outside" not in form.capability_card.substrate_spec.policy
        await outsider.door.open_for("switch")
        said = form.capability_card.substrate_spec.policy["outside"]
        assert said == {"addresses": [outsider.base], "pin": outsider.door.pin}
        assert form.capability_card.verify()
        assert doors_of(form.capability_card) == ()  # one at 127.0.0.1 is of no use to others
        await outsider.door.close_for("switch")
        assert "outside" not in form.capability_card.substrate_spec.policy


def run(machine, *arguments):
    return subprocess.run(
        [*machine, *COMMAND, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
    )


@contextlib.contextmanager
def two_machines():
    """Two network namespaces that reach each other, as beginnings of commands, and the address of the second."""
    mark = secrets.token_hex(3)
    left, right = f"cl{mark}", f"cr{mark}"

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=SECONDS)

    with contextlib.ExitStack() as made:
        for name in (left, right):
            ip("netns", "add", name)
            made.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
            ip("-n", name, "link", "set", "lo", "up")
        ip(
            "link",
            "add",
            f"{left}0",
            "netns",
            left,
            "type",
            "veth",
            "peer",
            "name",
            f"{right}0",
            "netns",
            right,
        )
        for name, address in ((left, "10.91.7.1/24"), (right, "10.91.7.2/24")):
            ip("-n", name, "addr", "add", address, "dev", f"{name}0")
            ip("-n", name, "link", "set", f"{name}0", "up")
        yield ["ip", "netns", "exec", left], ["ip", "netns", "exec", right], "10.91.7.2"


@contextlib.contextmanager
def node_on(machine, data, *flags):
    node = subprocess.Popen(
        [*machine, *COMMAND, "up", "--json", "--data", str(data), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "COMITY_CONTACTS_UNKNOWN_CALL": "accept"},
    )
    try:
        assert '"ready"' in node.stdout.readline()
        yield node
    finally:
        node.terminate()
        node.wait(SECONDS)
        node.stdout.close()


@pytest.mark.skipif(not CAN_MAKE_NAMESPACES, reason="only root can make network namespaces, on Linux")
def test_two_machines_call_each_other_by_pin_and_a_new_key_is_refused(tmp_path):
    caller, served = tmp_path / "caller", tmp_path / "served"
    with two_machines() as (here, there, host):

        def call(at, text="hello"):
            return run(here, "call", at, text, "--data", str(caller), "--json")

        with node_on(there, served, "--agent", "echo"):
            opened = json.loads(run(there, "outside", "on", "--data", str(served), "--json").stdout)
            assert opened["addresses"] == [f"https://{host}:{opened['port']}"]
            at = with_pin(opened["addresses"][0], opened["pin"])
            first = call(at)
            answered = json.loads(first.stdout)
            assert first.returncode == 0, first.stdout
            assert (answered["verified"], answered["request_seq"]) == (True, 1)
            refused = call(with_pin(opened["addresses"][0], OTHER_PIN))
            assert refused.returncode == 1
            assert opened["pin"] in refused.stderr + refused.stdout
            assert OTHER_PIN in refused.stderr + refused.stdout
            assert call(opened["addresses"][0]).returncode == 1
            renewed = json.loads(run(there, "outside", "renew", "--data", str(served), "--json").stdout)
            assert renewed["pin"] == opened["pin"]
            assert json.loads(call(at).stdout)["request_seq"] == 2
        Path(served / KEY_FILE).unlink()
        with node_on(there, served, "--agent", "echo"):
            status = json.loads(run(there, "outside", "status", "--data", str(served), "--json").stdout)
            assert status["open"]
            assert status["pin"] != opened["pin"]
            refused = call(at)
            assert refused.returncode == 1
            assert status["pin"] in refused.stderr + refused.stdout
            assert opened["pin"] in refused.stderr + refused.stdout
            assert (
                json.loads(call(with_pin(status["addresses"][0], status["pin"])).stdout)["request_seq"] == 3
            )
