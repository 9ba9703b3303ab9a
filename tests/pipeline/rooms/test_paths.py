"""Which files the tools may touch: those below allowed folders, never the node's own, and no link on the way."""

import io
import os

import pytest

from comity.core.peering.tool_arguments import VdoToolError
from comity.pipeline.rooms.paths import FilePaths


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "shared" / "deep").mkdir(parents=True)
    (folder / "token").write_text("secret")
    (folder / "shared" / "a.txt").write_text("shared")
    return folder


def read(paths, path, start=None):
    with paths.locate(path, start).open_file() as file:
        return file.read()


def refusal(act, *given, **more):
    with pytest.raises(VdoToolError) as refused:
        act(*given, **more)
    return refused.value.message


def test_a_relative_path_starts_in_the_shared_folder(data):
    assert read(FilePaths(data), "a.txt") == b"shared"


def test_a_client_reads_below_the_folder_that_it_was_started_in(data, tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "b.txt").write_text("work")
    paths = FilePaths(data)
    assert read(paths, "b.txt", str(tmp_path / "work")) == b"work"
    assert "peers.shared" in refusal(paths.locate, str(tmp_path / "work" / "b.txt"), None)


def test_the_root_and_the_home_folder_allow_nothing(data, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "x").write_text("x")
    paths = FilePaths(data, home=home)
    for start in ("/", str(home)):
        assert "not allowed" in refusal(paths.locate, str(home / "x"), start)


def test_a_folder_of_the_settings_is_allowed(data, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c").write_text("c")
    assert read(FilePaths(data, [str(tmp_path / "more")]), str(tmp_path / "more" / "c")) == b"c"


@pytest.mark.parametrize(
    "path", ["../token", "/etc/passwd", "x/../../token", "~/.ssh/id_ed25519", "/~nobody-here/x"]
)
def test_a_path_that_leads_outside_is_refused_with_the_remedy(data, path):
    assert "not allowed" in refusal(FilePaths(data).locate, path, None)


def test_the_files_of_the_node_are_refused_even_to_a_client_started_above_them(data, tmp_path):
    why = refusal(FilePaths(data).locate, str(data / "token"), str(tmp_path))
    assert "belongs to the node itself" in why


def test_the_home_of_somebody_who_is_not_there_is_a_name_like_any_other(data):
    assert FilePaths(data).locate("~nobody-here/x", None).path == data / "shared" / "~nobody-here" / "x"


def test_a_nul_in_a_path_is_refused(data):
    assert "NUL" in refusal(FilePaths(data).locate, "a\0b", None)


def test_a_symbolic_link_is_not_followed(data, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (data / "shared" / "file").symlink_to(tmp_path / "outside" / "secret")
    (data / "shared" / "folder").symlink_to(tmp_path / "outside")
    paths = FilePaths(data)
    for path in ("file", "folder/secret"):
        assert "symbolic link" in refusal(paths.locate(path, None).open_file)
    assert "symbolic link" in refusal(
        paths.locate("folder/new", None).write_file, io.BytesIO(b"x"), overwrite=True
    )
    assert not (tmp_path / "outside" / "new").exists()


def test_a_folder_is_made_below_an_allowed_one_and_never_behind_a_link(data, tmp_path):
    paths = FilePaths(data)
    assert paths.locate("a/b", None).make_folder().is_dir()
    (tmp_path / "outside").mkdir()
    (data / "shared" / "link").symlink_to(tmp_path / "outside")
    for path in ("link", "link/inner", "a.txt"):
        assert "symbolic link" in refusal(paths.locate(path, None).make_folder)
    assert list((tmp_path / "outside").iterdir()) == []


def test_what_is_no_regular_file_is_refused(data):
    os.mkfifo(data / "shared" / "pipe")
    for path in ("pipe", "deep"):
        assert "not a regular file" in refusal(FilePaths(data).locate(path, None).open_file)


def test_a_file_is_written_whole_with_its_folders_and_not_over_another(data):
    paths = FilePaths(data)
    target = paths.locate("new/folder/x.bin", None)
    assert target.write_file(io.BytesIO(b"one"), overwrite=False) == 3
    assert "output exists" in refusal(target.write_file, io.BytesIO(b"two"), overwrite=False)
    assert target.path.read_bytes() == b"one"
    assert target.write_file(io.BytesIO(b"three"), overwrite=True) == 5
    assert target.path.read_bytes() == b"three"
    assert list(target.path.parent.iterdir()) == [target.path]


def test_a_link_in_the_place_of_the_output_is_replaced_and_not_followed(data, tmp_path):
    (tmp_path / "victim").write_text("safe")
    (data / "shared" / "out").symlink_to(tmp_path / "victim")
    FilePaths(data).locate("out", None).write_file(io.BytesIO(b"x"), overwrite=True)
    assert (tmp_path / "victim").read_text() == "safe"
