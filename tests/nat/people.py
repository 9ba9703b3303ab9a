"""A relay and the people who use it, each on a machine of its own, by the commands that they would type."""

import contextlib
import json
import os
import subprocess
import sys

from comity.rooms.protocol.tool_table import MAX_FILE_BYTES
from tests.rooms.processes import NodeProcess

COMITY = [sys.executable, "-m", "comity"]
LARGE = ["--file-max-bytes", str(MAX_FILE_BYTES)]


def invite_commands(room, name, relay_line):
    """Return what one types to invite somebody, and then to be there oneself. The first command prints the line."""
    return ["room", "invite", room, "--relay", relay_line], ["room", "join", room, "--name", name, *LARGE]


def join_command(name):
    """Return what the other one types; the line is its standard input."""
    return ["room", "join", "--name", name, *LARGE]


class Person(NodeProcess):
    def __init__(self, network, place, folder, name, **settings):
        self.name = name
        self.folder = folder
        for inside in ("home", "run"):
            (folder / inside).mkdir(parents=True, mode=0o700)
        self._command = network.command(place)
        super().__init__(folder / "data", self._command, **settings)

    def start(self):
        # another person has another home, and nothing of the machine that the tests run on
        self.environ["HOME"] = str(self.folder / "home")
        self.environ["XDG_RUNTIME_DIR"] = str(self.folder / "run")
        self.environ.pop("WRTC_ALLOW_LOOPBACK", None)
        super().start()

    def comity(self, *arguments, text=""):
        """Run a command to its end; return what it prints."""
        done = subprocess.run(
            [*self._command, *COMITY, *arguments],
            env=self.environ, input=text, capture_output=True, text=True, cwd=self.folder, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def invite(self, room, relay_line):
        """Return the line for the other one, when this one is in the room."""
        inviting, joining = invite_commands(room, self.name, relay_line)
        line = self.comity(*inviting).strip().splitlines()[0]
        self.comity(*joining)
        self._find_session()
        return line

    def join(self, line):
        self.comity(*join_command(self.name), text=line + "\n")
        self._find_session()

    def leave(self):
        self.ask("vdo_disconnect")
        self.session_id = None

    def _find_session(self):
        [session] = self.ask("vdo_list_sessions")["sessions"]
        self.session_id = session["session_id"]

    def is_connected(self):
        """Return whether there is a peer to whom a message can be sent."""
        return any(
            peer["connected"] and peer["handshake_state"] == "ready"
            for peer in self.ask("vdo_sync_peers")["peers"]
        )

    def path(self):
        """Return how the data goes: `direct` or `relayed`; `none` while there is no link."""
        return next((link["path"] for link in self.ask("links")["links"].values()), "none")

    def say(self, text):
        self.comity("room", "send", text)

    def hear(self):
        return self.comity("room", "wait", "--seconds", "60").strip()

    def send_file(self, file):
        """Return the id of the transfer, when the other one has the file."""
        sent = self.comity("room", "send-file", str(file), "--json")
        return json.loads(sent.splitlines()[-1])["transfer_id"]

    def save_file(self, transfer_id):
        """Return where a file that has arrived was saved."""
        self.comity("room", "files", "--save", transfer_id, "--as", transfer_id)
        return self.folder / transfer_id


class RelayProcess:
    """`comity relay --public`, which can be killed and started again."""

    def __init__(self, network, folder):
        environ = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
        self._environ = {**environ, "HOME": str(folder), "COMITY_DATA": str(folder / "data")}
        self._command = [*network.command("relay"), *COMITY, "relay", "--public", "--json"]
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            self._command, env=self._environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.line = json.loads(self._process.stdout.readline())["line"]

    def kill(self):
        self._process.kill()
        self._process.wait(30)
        self._process.stdout.close()


@contextlib.contextmanager
def people_behind(network, folder, **settings):
    """Return a relay, Anna at `a` and Bert at `b`."""
    with contextlib.ExitStack() as opened:
        relay = RelayProcess(network, folder)
        opened.callback(relay.kill)
        people = []
        for place, name in (("a", "anna"), ("b", "bert")):
            person = Person(network, place, folder / name, name, **settings)
            opened.callback(person.stop)
            people.append(person)
        yield relay, *people
