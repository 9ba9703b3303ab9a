import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from comity.identity.private_files import (
    SECRET_LIMIT,
    create_private,
    ensure_private_folder,
    read_or_create_private,
    read_private,
    replace_private,
)
from comity.wire.errors import KeyRefusedError

OPEN_FILES = Path("/proc/self/fd")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="mode bits are a matter of POSIX")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    create_private(path, b"hidden")
    return path


@pytest.fixture
def stranger(monkeypatch):
    """We become somebody who owns nothing here; what is stored stays as it is."""
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    return user


@pytest.fixture
def synced(tmp_path, monkeypatch):
    """What was made durable, in its order, each with what stood under the name of the secret at that moment."""
    path, seen, real = tmp_path / "secret", [], os.fsync

    def fsync(opened):
        status = os.fstat(opened)
        what = "folder" if stat.S_ISDIR(status.st_mode) else f"file of {status.st_size}"
        seen.append((what, path.read_bytes() if path.exists() else None))
        real(opened)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


class TestCreating:
    def test_the_file_is_readable_by_its_owner_only(self, secret):
        assert mode(secret) == 0o600
        assert secret.read_bytes() == b"hidden"

    @pytest.mark.parametrize("umask", [0o000, 0o277, 0o777])
    def test_the_mask_of_the_process_changes_nothing(self, tmp_path, umask):
        before = os.umask(umask)
        try:
            create_private(tmp_path / "secret", b"hidden")
        finally:
            os.umask(before)
        assert mode(tmp_path / "secret") == 0o600

    def test_an_existing_file_is_never_overwritten(self, secret):
        with pytest.raises(KeyRefusedError, match="never overwritten"):
            create_private(secret, b"other")
        assert secret.read_bytes() == b"hidden"

    @pytest.mark.parametrize("target", ["nowhere", "secret"])
    def test_a_link_in_its_place_is_not_followed(self, tmp_path, secret, target):
        link = tmp_path / "link"
        link.symlink_to(tmp_path / target)
        with pytest.raises(KeyRefusedError, match="never overwritten"):
            create_private(link, b"other")
        assert not (tmp_path / "nowhere").exists()
        assert secret.read_bytes() == b"hidden"

    def test_nothing_else_is_left_in_the_folder(self, tmp_path, secret):
        with pytest.raises(KeyRefusedError):
            create_private(secret, b"other")
        assert [path.name for path in tmp_path.iterdir()] == ["secret"]

    def test_of_many_at_once_exactly_one_succeeds(self, tmp_path):
        path = tmp_path / "secret"
        start = threading.Barrier(8)
        won = []

        def create(name):
            start.wait()
            try:
                create_private(path, name)
            except KeyRefusedError:
                return
            won.append(name)

        threads = [threading.Thread(target=create, args=(b"%d" % number * 1000,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [path.read_bytes()] == won
        assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]

    def test_it_is_synced_before_it_has_its_name_and_the_folder_after(self, tmp_path, synced):
        create_private(tmp_path / "secret", b"hidden")
        assert synced == [("file of 6", None), ("folder", b"hidden")]

    def test_a_disk_that_is_full_leaves_nothing(self, tmp_path, monkeypatch):
        def fsync(_opened):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(KeyRefusedError, match="no space left"):
            create_private(tmp_path / "secret", b"hidden")
        assert list(tmp_path.iterdir()) == []

    def test_without_hard_links_it_works_too_and_never_overwrites(self, tmp_path, monkeypatch):
        def link(_source, _target):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", link)
        path = tmp_path / "secret"
        create_private(path, b"hidden")
        with pytest.raises(KeyRefusedError, match="never overwritten"):
            create_private(path, b"other")
        assert path.read_bytes() == b"hidden"
        assert mode(path) == 0o600
        assert [entry.name for entry in tmp_path.iterdir()] == ["secret"]

    @pytest.mark.parametrize("folder", ["missing", "a-file"])
    def test_a_folder_that_is_not_there_is_told(self, tmp_path, folder):
        (tmp_path / "a-file").touch()
        with pytest.raises(KeyRefusedError, match="cannot be written"):
            create_private(tmp_path / folder / "secret", b"hidden")


class TestReplacing:
    def test_the_new_file_is_synced_before_it_takes_the_place_and_the_folder_after(self, secret, synced):
        replace_private(secret, b"another")
        assert synced == [("file of 7", b"hidden"), ("folder", b"another")]
        assert mode(secret) == 0o600

    def test_a_disk_that_is_full_leaves_the_old_one(self, secret, monkeypatch):
        def fsync(_opened):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(KeyRefusedError, match="no space left"):
            replace_private(secret, b"another")
        assert [(path.name, path.read_bytes()) for path in secret.parent.iterdir()] == [("secret", b"hidden")]


class TestReading:
    def test_gives_the_content(self, secret):
        assert read_private(secret) == b"hidden"

    def test_accepts_a_file_that_is_read_only(self, secret):
        secret.chmod(0o400)
        assert read_private(secret) == b"hidden"

    @pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o666, 0o777])
    def test_refuses_a_file_that_is_open_to_others(self, secret, bits):
        secret.chmod(bits)
        with pytest.raises(KeyRefusedError, match=f"mode 0{bits:o}.*chmod 600 {secret}$"):
            read_private(secret)

    def test_the_remedy_can_be_pasted_whatever_the_name(self, tmp_path):
        path = tmp_path / "my secret"
        create_private(path, b"hidden")
        path.chmod(0o644)
        with pytest.raises(KeyRefusedError) as refusal:
            read_private(path)
        assert refusal.value.message.endswith(f"chmod 600 '{path}'")

    def test_refuses_a_file_of_somebody_else(self, secret, stranger):
        with pytest.raises(KeyRefusedError, match=f"chown {stranger} {secret}"):
            read_private(secret)

    def test_refuses_what_is_missing(self, tmp_path):
        with pytest.raises(KeyRefusedError, match="does not exist"):
            read_private(tmp_path / "secret")

    def test_refuses_a_folder(self, tmp_path):
        with pytest.raises(KeyRefusedError, match="not a regular file"):
            read_private(tmp_path)

    def test_refuses_a_pipe_without_waiting_for_it(self, tmp_path):
        os.mkfifo(tmp_path / "pipe", 0o600)
        with pytest.raises(KeyRefusedError, match="not a regular file"):
            read_private(tmp_path / "pipe")

    def test_refuses_a_link(self, tmp_path, secret):
        (tmp_path / "link").symlink_to(secret)
        with pytest.raises(KeyRefusedError, match="put the file itself there"):
            read_private(tmp_path / "link")

    def test_refuses_a_path_through_a_file(self, secret):
        with pytest.raises(KeyRefusedError, match="not a directory"):
            read_private(secret / "more")

    def test_tells_when_the_disk_does_not_answer(self, secret, monkeypatch):
        def fstat(_opened):
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as broken:
            broken.setattr(os, "fstat", fstat)
            with pytest.raises(KeyRefusedError, match="cannot be read: input/output error"):
                read_private(secret)

    @pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="open files are counted in /proc")
    def test_leaves_no_file_open(self, tmp_path, secret):
        def count():
            return len(list(OPEN_FILES.iterdir()))

        before = count()
        for number in range(5):
            create_private(tmp_path / f"secret{number}", b"hidden")
            read_private(secret)
            for bad in (tmp_path, tmp_path / "missing"):
                with pytest.raises(KeyRefusedError):
                    read_private(bad)
        assert count() == before

    def test_refuses_what_is_too_large(self, tmp_path):
        create_private(tmp_path / "just", bytes(SECRET_LIMIT))
        assert len(read_private(tmp_path / "just")) == SECRET_LIMIT
        create_private(tmp_path / "large", bytes(SECRET_LIMIT + 1))
        with pytest.raises(KeyRefusedError, match="65,536 bytes"):
            read_private(tmp_path / "large")


class TestReadingOrCreating:
    def test_makes_it_once(self, tmp_path):
        path = tmp_path / "secret"
        assert read_or_create_private(path, lambda: b"first") == b"first"
        assert read_or_create_private(path, lambda: b"second") == b"first"
        assert mode(path) == 0o600

    def test_takes_what_another_made_in_the_meantime(self, tmp_path):
        path = tmp_path / "secret"

        def make():
            create_private(path, b"theirs")
            return b"ours"

        assert read_or_create_private(path, make) == b"theirs"

    def test_refuses_what_is_open_to_others(self, secret):
        secret.chmod(0o644)
        with pytest.raises(KeyRefusedError, match="chmod 600"):
            read_or_create_private(secret, lambda: b"new")

    def test_says_when_it_cannot_be_made(self, tmp_path):
        with pytest.raises(KeyRefusedError, match="cannot be written"):
            read_or_create_private(tmp_path / "missing" / "secret", lambda: b"new")


class TestAPrivateFolder:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    def test_is_made_with_its_parents(self, tmp_path, umask):
        before = os.umask(umask)
        try:
            ensure_private_folder(tmp_path / "a" / "b")
        finally:
            os.umask(before)
        assert mode(tmp_path / "a" / "b") == 0o700

    @pytest.mark.parametrize("bits", [0o700, 0o755, 0o711, 0o500])
    def test_is_closed_to_others(self, tmp_path, bits):
        folder = tmp_path / "data"
        folder.mkdir()
        folder.chmod(bits)
        ensure_private_folder(folder)
        assert mode(folder) == 0o700

    @pytest.mark.parametrize("bits", [0o770, 0o720, 0o702, 0o777, 0o1777])
    def test_is_refused_when_others_may_write_to_it(self, tmp_path, bits):
        folder = tmp_path / "data"
        folder.mkdir()
        folder.chmod(bits)
        with pytest.raises(KeyRefusedError, match=f"mode {bits:04o}.*chmod 700 {folder}$"):
            ensure_private_folder(folder)
        assert mode(folder) == bits

    def test_is_refused_when_it_belongs_to_somebody_else(self, tmp_path, stranger):
        with pytest.raises(KeyRefusedError, match=f"chown {stranger} {tmp_path}"):
            ensure_private_folder(tmp_path)

    def test_may_be_reached_by_a_link(self, tmp_path):
        (tmp_path / "real").mkdir(mode=0o755)
        (tmp_path / "link").symlink_to(tmp_path / "real")
        ensure_private_folder(tmp_path / "link")
        assert mode(tmp_path / "real") == 0o700

    def test_is_not_a_file(self, secret):
        with pytest.raises(KeyRefusedError, match="not a folder"):
            ensure_private_folder(secret)

    def test_is_not_below_a_file(self, secret):
        with pytest.raises(KeyRefusedError, match=r"cannot be used: .*; name another one"):
            ensure_private_folder(secret / "more" / "data")

    def test_is_not_a_link_to_nowhere(self, tmp_path):
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        with pytest.raises(KeyRefusedError, match="cannot be used"):
            ensure_private_folder(tmp_path / "link")


def test_a_name_that_no_system_accepts_is_told(tmp_path):
    for name in ("nul\0byte", "x" * 5000):
        with pytest.raises(KeyRefusedError, match="cannot be used"):
            ensure_private_folder(tmp_path / name)
        with pytest.raises(KeyRefusedError, match="cannot be opened"):
            read_private(tmp_path / name)
        with pytest.raises(KeyRefusedError, match="cannot be written"):
            create_private(tmp_path / name, b"hidden")
        with pytest.raises(KeyRefusedError, match="cannot be written"):
            read_or_create_private(tmp_path / name, lambda: b"hidden")
