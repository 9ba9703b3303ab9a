"""What is told of the machine, and what is not."""

import getpass
import platform
from pathlib import Path

import msgspec
import pytest

from bench.harness import machine

MOUNTS = """\
/dev/sda / ext4 rw 0 0
tmpfs /run tmpfs rw 0 0
/dev/sdb /run/disk xfs rw 0 0
tmpfs /with\\040space tmpfs rw 0 0
/dev/sdc /twice ext4 rw 0 0
tmpfs /twice tmpfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path):
    path = tmp_path / "mounts"
    path.write_text(MOUNTS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/somewhere/else", "ext4"),
        ("/run/x", "tmpfs"),
        ("/running", "ext4"),
        ("/run/disk/x", "xfs"),
        ("/with space/x", "tmpfs"),
        ("/twice", "tmpfs"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount(mounts, path, kind):
    assert machine.file_system(Path(path), mounts) == kind


def test_where_the_system_does_not_tell_nothing_is_claimed(tmp_path):
    assert machine.file_system(tmp_path, tmp_path / "no mounts here") is None


def test_the_description_names_no_place_no_host_and_no_user(tmp_path):
    told = msgspec.json.encode(machine.describe(tmp_path, load_before=0.5)).decode()

    for secret in (str(tmp_path), platform.node(), getpass.getuser(), str(Path.home())):
        assert secret not in told or len(secret) < 3
