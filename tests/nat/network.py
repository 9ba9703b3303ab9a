"""Two machines behind routers, and a third one that everybody reaches, as network namespaces.

    a -- router -- internet -- router -- b          a: 10.1.0.2 behind 9.0.1.2, or 9.0.11.2 where it is open
                      |                             b: 10.2.0.2 behind 9.0.2.2, or 9.0.12.2
                    relay                           relay: 9.0.3.2

The addresses are public ones, because a relay sends to no others; nothing leaves the namespaces. What a router does to UDP is one
of `KINDS`. The router of `a` has a second uplink, 9.0.4.2.
"""

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

KINDS = ("open", "full cone", "port-restricted cone", "symmetric")
RELAY = "9.0.3.2"
PLACES = ("a", "b", "ra", "rb", "relay")
QUEUE_PACKETS = 10_000
"""More than a sender has under way: what is lost on the line is only what a test wants to be lost."""
_NEWNET = 0x40000000

# `mapped` are the ports by which the machine has sent: whoever sends to one of them reaches it. A port that a router maps is the
# machine's own wherever that is free, and there is only one machine.
_FULL_CONE = """
table ip router {
  set mapped { type inet_service; flags timeout; timeout 2m; }
  chain before { type nat hook prerouting priority dstnat; iifname "wan*" udp dport @mapped dnat to INSIDE; }
  chain after { type nat hook postrouting priority srcnat; oifname "wan*" ip saddr INSIDE masquerade; }
  chain passing { type filter hook forward priority filter; iifname "lan" meta l4proto udp update @mapped { udp sport }; }
  chain own { type filter hook input priority filter; iifname "wan*" drop; }
}
"""
# Only those come in to whom something was sent from here. What is dropped leaves no trace that would take the port from the machine.
_RESTRICTED = """
table ip router {
  chain after { type nat hook postrouting priority srcnat; oifname "wan*" ip saddr INSIDE masquerade HOW; }
  chain passing { type filter hook forward priority filter; iifname "wan*" ct state new drop; }
  chain own { type filter hook input priority filter; iifname "wan*" drop; }
}
"""
_RULES = {
    "open": "",
    "full cone": _FULL_CONE,
    "port-restricted cone": _RESTRICTED.replace("HOW", ""),
    "symmetric": _RESTRICTED.replace("HOW", "fully-random"),
}


def missing():
    """Return why there can be no such network here; None: there can be."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    tools = [tool for tool in ("ip", "nft") if shutil.which(tool) is None]
    if tools:
        return f"not installed: {', '.join(tools)} (Debian: apt-get install iproute2 nftables)"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    name = f"comity-{secrets.token_hex(3)}"
    tried = subprocess.run(
        ["sh", "-c", f"ip netns add {name} && ip netns exec {name} nft -f -; found=$?; ip netns del {name}; exit $found"],
        input=_RULES["symmetric"].replace("INSIDE", "10.1.0.2"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return (
        f"network namespaces or nftables do not work here: {tried.stderr.strip()}"
        if tried.returncode
        else None
    )


class Network:
    def __init__(self):
        self._prefix = f"comity-{secrets.token_hex(3)}-"
        self._internet = None

    def name(self, place):
        return self._prefix + place

    def command(self, place):
        """Return the words before a command that is to run there."""
        return ["ip", "netns", "exec", self.name(place)]

    def open(self):
        mark = secrets.token_hex(3)
        wan = {place: f"w{mark}{place}" for place in ("ra", "rb", "ra2", "relay")}
        self._internet = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("internet.py")), f"{wan['ra']}=9.0.1,9.0.11",
             f"{wan['rb']}=9.0.2,9.0.12", f"{wan['ra2']}=9.0.4", f"{wan['relay']}=9.0.3"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._internet.stdout.readline() == "ok\n"
        self._ip("", *(f"netns add {self.name(place)}" for place in PLACES))
        for place in PLACES:
            self._run(place, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.disable_ipv6=1",
                      "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")  # fmt: skip
            self._ip(place, "link set lo up")
        for place, device, inside, address in (
            ("ra", wan["ra"], "wan", "9.0.1.2"), ("ra", wan["ra2"], "wan2", "9.0.4.2"),
            ("rb", wan["rb"], "wan", "9.0.2.2"), ("relay", wan["relay"], "wan", RELAY),
        ):  # fmt: skip
            self._ip("", f"link set {device} netns {self.name(place)}")
            more = ["route add default dev wan"] if inside == "wan" else []
            self._ip(
                place, f"link set {device} name {inside} txqueuelen {QUEUE_PACKETS}", f"addr add {address}/32 dev {inside}",
                f"link set {inside} up", *more,
            )  # fmt: skip
        self._ip("relay", "addr add 9.0.3.3/32 dev wan")
        for number, place in ((1, "a"), (2, "b")):
            router = f"r{place}"
            self._ip(
                "",
                f"link add h{mark}{place} netns {self.name(place)} type veth peer name lan netns {self.name(router)}",
            )
            self._ip(place, f"link set h{mark}{place} name eth0", "link set eth0 up")
            self._ip(
                router,
                f"addr add 10.{number}.0.1/24 dev lan",
                f"addr add 9.0.1{number}.1/24 dev lan",
                "link set lan up",
            )
            self.set_kind(place, "open")

    def close(self):
        if self._internet is not None:
            self._internet.stdin.close()
            self._internet.wait(30)
            self._internet.stdout.close()
        for place in PLACES:
            subprocess.run(["ip", "netns", "del", self.name(place)], capture_output=True, check=False)

    def set_kind(self, place, kind):
        """Put the machine `a` or `b` behind a router of that kind. Connections that it had are lost."""
        number = {"a": 1, "b": 2}[place]
        inside = f"10.{number}.0" if kind != "open" else f"9.0.1{number}"
        self._ip(
            place,
            "addr flush dev eth0",
            f"addr add {inside}.2/24 dev eth0",
            f"route replace default via {inside}.1",
        )
        rules = "table ip router\ndelete table ip router\n" + _RULES[kind].replace("INSIDE", f"{inside}.2")
        self._run(f"r{place}", "nft", "-f", "-", text=rules)

    def use_uplink(self, name):
        """Let the router of `a` send by its uplink `wan` or `wan2` from now on: it is seen at another address."""
        self._ip("ra", f"route replace default dev {name}")

    def set_line(self, *, delay=0.0, loss=0.0):
        """Let each packet come so many seconds late, and that share of them not at all."""
        self._internet.stdin.write(json.dumps({"delay": delay, "loss": loss}) + "\n")
        self._internet.stdin.flush()
        assert self._internet.stdout.readline() == "ok\n"

    def udp_socket(self, place, address="0.0.0.0", port=0):
        """Return a bound socket of another namespace: it belongs to that in which it was made."""
        made = []

        def make():
            with Path(f"/run/netns/{self.name(place)}").open() as file:
                assert ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NEWNET) == 0
            made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made[0].bind((address, port))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def _ip(self, place, *commands):
        where = ["-n", self.name(place)] if place else []
        _checked(["ip", *where, "-batch", "-"], "\n".join(commands) + "\n")

    def _run(self, place, *command, text=""):
        _checked([*self.command(place), *command], text)


def _checked(command, text):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, text, done.stderr)


@contextlib.contextmanager
def open_network():
    network = Network()
    try:
        network.open()
        yield network
    finally:
        network.close()
