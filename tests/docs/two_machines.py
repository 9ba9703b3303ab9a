"""Two machines that share nothing but a cable: network namespaces, each with a terminal and a home of its own. Root needed."""

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.waiting import wait_until

_CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
_ADDRESSES = {"yours": "10.77.0.1/24", "theirs": "10.77.0.2/24"}


def why_not():
    """Return why there can be no second machine here, or None."""
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        return "two machines are network namespaces, which need root and iproute2"
    name = f"comity-try-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "network namespaces cannot be made here"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


class Program:
    """A command at a terminal of one machine."""

    def __init__(self, command, environment, folder):
        self._main, other = pty.openpty()
        self._said = bytearray()
        self.process = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(other)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            try:
                data = os.read(self._main, 65_536)
            except OSError:
                return
            if not data:
                return
            self._said += data

    @property
    def said(self):
        return _CONTROL.sub(b"", bytes(self._said)).decode(errors="replace")

    def says(self, pattern):
        """Wait until it has said something that fits; return the match."""

        def found():
            return re.search(pattern, self.said) or (
                None if self.process.poll() is None else self._ended(pattern)
            )

        return wait_until(found)

    def _ended(self, pattern):
        self._reader.join(1)
        match = re.search(pattern, self.said)
        assert match, f"it ended and said no {pattern!r}, but\n{self.said}"
        return match

    def type(self, text):
        os.write(self._main, text.encode() + b"\n")

    def end(self):
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._main)
        self._reader.join(5)


class Machines:
    """`yours` and `theirs`."""

    def __init__(self, folder):
        self._folder = folder
        self._prefix = f"comity-{os.getpid() % 10_000}-{time.monotonic_ns() % 10_000}-"
        self.programs = []

    def __enter__(self):
        for name in _ADDRESSES:
            self._ip("netns", "add", self._prefix + name)
            self.home(name).mkdir(parents=True)
        first, second = (self._prefix + name for name in _ADDRESSES)
        self._ip(
            "link", "add", "cable", "netns", first, "type", "veth", "peer", "name", "cable", "netns", second
        )
        for name, address in _ADDRESSES.items():
            self._ip("-n", self._prefix + name, "addr", "add", address, "dev", "cable")
            for link in ("lo", "cable"):
                self._ip("-n", self._prefix + name, "link", "set", link, "up")
        return self

    def __exit__(self, *_):
        for program in reversed(self.programs):
            program.end()
        for name in _ADDRESSES:
            self._ip("netns", "del", self._prefix + name)

    def home(self, name):
        return self._folder / name

    def start(self, name, words):
        home = str(self.home(name))
        environment = {
            "HOME": home,
            "TMPDIR": home,
            "XDG_RUNTIME_DIR": home,
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "TERM": "xterm",
            "COLUMNS": "400",
            "LANG": "C.UTF-8",
        }
        command = ["ip", "netns", "exec", self._prefix + name, *words]
        program = Program(command, environment, home)
        self.programs.append(program)
        return program

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)
