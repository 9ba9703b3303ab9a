"""Which files the tools may touch: those below allowed folders, never the node's own nor what is protected, and no link
on the way.
"""

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.rooms.paths import FilePaths
from comity.rooms.protocol.tool_arguments import VdoToolError


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


SECRET = b"nobody may send this"


@pytest.fixture
def home(tmp_path):
    """A home folder with secrets, a project, and above it the data folder of another node."""
    folder = tmp_path / "people" / "me"
    for place in (".ssh", ".config/app", "project/deep"):
        (folder / place).mkdir(parents=True)
    for secret in (".ssh/id_test", ".ssh/authorized_keys", ".config/app/key", ".netrc"):
        (folder / secret).write_bytes(SECRET)
    (folder / "project" / "a.txt").write_text("project")
    other = tmp_path / "people" / "other-node"
    (other / "shared").mkdir(parents=True)
    for name in ("comity.db", "identity.json", "token", "shared/x"):
        (other / name).write_bytes(SECRET)
    return folder


def refused_everywhere(paths, path, start):
    """Neither read, nor written, nor made a folder; and nothing is left behind."""
    before = sorted(Path(start).rglob("*"))
    acts = (
        lambda: paths.locate(path, start).open_file(),
        lambda: paths.locate(path, start).write_file(io.BytesIO(b"evil"), overwrite=True),
        lambda: paths.locate(f"{path}-made/inner", start).make_folder(),
    )
    reasons = [refusal(act) for act in acts]
    assert all("not allowed" in why for why in reasons), reasons
    assert sorted(Path(start).rglob("*")) == before
    return reasons[0]


@pytest.mark.parametrize("path", [".ssh/id_test", "me/.ssh/id_test", "other-node/token", "free.txt"])
def test_a_client_started_above_the_home_folder_is_allowed_nothing(data, home, path):
    paths = FilePaths(data, home=home)
    for start in (home, home.parent):
        assert "contains the home folder" in refused_everywhere(paths, str(start / path), str(start))


def test_a_folder_above_home_is_recognised_by_another_name_of_it(data, home, tmp_path):
    (tmp_path / "alias").symlink_to(home.parent)
    for start in (tmp_path / "alias", tmp_path / "alias" / "me" / "project" / ".." / ".."):
        assert "contains the home folder" in refused_everywhere(
            FilePaths(data, home=home), str(start / "me/.ssh/id_test"), str(start)
        )


def test_a_relative_path_of_a_client_whose_folder_allows_nothing_starts_in_shared(data, home):
    assert read(FilePaths(data, home=home), "a.txt", str(home.parent)) == b"shared"


@pytest.mark.parametrize(("start", "path"), [("/etc", "passwd"), ("/proc/self", "status"), ("/dev", "null")])
def test_a_client_started_in_a_folder_of_the_system_is_allowed_nothing(data, home, tmp_path, start, path):
    if not Path(start, path).exists():
        pytest.skip(f"there is no {start}/{path} on this system")
    (tmp_path / "alias").symlink_to(start)
    paths = FilePaths(data, home=home)
    for spelling in (start, f"{start}/.", f"{home}/../../../../../../../..{start}", str(tmp_path / "alias")):
        why = refusal(paths.locate, f"{spelling}/{path}", spelling)
        assert "is protected" in why
        assert "peers.shared" in why


@pytest.mark.parametrize("start", [".ssh", ".config", ".config/app"])
def test_a_client_started_in_a_dot_folder_of_the_home_folder_is_allowed_nothing(data, home, start):
    [secret] = [one for one in (home / start).rglob("*") if one.name in ("id_test", "key")]
    why = refused_everywhere(FilePaths(data, home=home), str(secret), str(home / start))
    assert f"~/{start.partition('/')[0]}" in why


def test_a_save_does_not_replace_the_keys_that_may_log_in(data, home):
    paths = FilePaths(data, home=home)
    refused_everywhere(paths, str(home / ".ssh" / "authorized_keys"), str(home / ".ssh"))
    assert (home / ".ssh" / "authorized_keys").read_bytes() == SECRET
    assert paths.locate("authorized_keys", str(home / ".ssh")).path == data / "shared" / "authorized_keys"


def test_what_a_dot_name_of_the_home_folder_leads_to_is_protected_there_too(data, home, tmp_path):
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / "key").write_bytes(SECRET)
    (home / ".vault").symlink_to(tmp_path / "vault")
    (home / "project" / "profile").write_bytes(SECRET)
    (home / ".profile").symlink_to("project/profile")
    paths = FilePaths(data, home=home)
    assert "~/.vault" in refused_everywhere(paths, str(tmp_path / "vault" / "key"), str(tmp_path / "vault"))
    for act in (
        paths.locate("profile", str(home / "project")).open_file,
        lambda: paths.locate("profile", str(home / "project")).write_file(io.BytesIO(b"x"), overwrite=True),
    ):
        assert "~/.profile under another name" in refusal(act)


@pytest.mark.parametrize(
    ("start", "path"), [(".", "token"), (".", "shared/x"), ("shared", "x"), ("..", "other-node/token")]
)
def test_the_data_folder_of_another_node_is_protected(data, home, tmp_path, start, path):
    other = home.parent / "other-node"
    folder = (other / start).resolve()
    why = refused_everywhere(FilePaths(data, home=tmp_path / "elsewhere"), str(folder / path), str(folder))
    assert "the data folder of a Comity node" in why


@pytest.mark.parametrize("marks", [("comity.db",), ("token", "node.json"), ("identity.json", "vault.key")])
def test_a_data_folder_is_recognised_by_what_is_in_it(data, tmp_path, marks):
    node = tmp_path / "work" / "node"
    (node / "spool").mkdir(parents=True)
    for mark in marks:
        (node / mark).touch()
    (node / "spool" / "file").write_bytes(SECRET)
    paths = FilePaths(data, home=tmp_path / "elsewhere")
    refused_everywhere(paths, "node/spool/file", str(tmp_path / "work"))


def test_a_copy_of_an_identity_protects_its_folder_and_not_everything_below(data, home):
    (home / "identity.json").touch()
    (home / "project" / "deep" / "identity.json").write_bytes(SECRET)
    paths = FilePaths(data, home=home)
    assert read(paths, "a.txt", str(home / "project")) == b"project"
    refused_everywhere(paths, "deep/identity.json", str(home / "project"))


def test_a_data_folder_that_is_known_by_its_place_is_protected_with_its_files_under_other_names(data, home):
    place = home / "project" / "place"
    place.mkdir()
    (place / "half").write_bytes(SECRET)
    os.link(place / "half", home / "project" / "copy")
    paths = FilePaths(data, home=home, others=[place])
    refused_everywhere(paths, "place/half", str(home / "project"))
    for act in (
        paths.locate("copy", str(home / "project")).open_file,
        lambda: paths.locate("copy", str(home / "project")).write_file(io.BytesIO(b"x"), overwrite=True),
    ):
        assert "a file of another Comity node" in refusal(act)


@pytest.mark.parametrize("typed", [False, True])
def test_a_hard_link_to_a_file_of_the_node_is_refused(data, home, typed):
    (data / "spool").mkdir()
    (data / "spool" / "deep").write_bytes(SECRET)
    (home / "tls.pem").write_bytes(SECRET)
    paths = FilePaths(data, [str(home / "project" / "deep")], home=home, keys=[home / "tls.pem"])
    for own in (data / "token", data / "spool" / "deep", home / "tls.pem"):
        for folder in (home / "project", home / "project" / "deep", data / "shared"):
            os.link(own, folder / "innocent")
            named = str(folder / "innocent"), str(home / "project")
            for act in (
                paths.locate(*named, typed=typed).open_file,
                lambda named=named: paths.locate(*named, typed=typed).write_file(
                    io.BytesIO(b"x"), overwrite=True
                ),
            ):
                assert "a file of the node itself" in refusal(act)
            (folder / "innocent").unlink()


def test_a_hard_link_to_another_file_is_a_file_like_any_other(data, home):
    os.link(home / "project" / "a.txt", home / "project" / "b.txt")
    assert read(FilePaths(data, home=home), "b.txt", str(home / "project")) == b"project"


@pytest.mark.parametrize("named", [".config/app", "../other-node/shared", ".."])
def test_a_folder_that_the_owner_names_is_allowed_even_where_a_client_is_not(data, home, named):
    folder = home / named
    (folder / "free").write_text("free")
    paths = FilePaths(data, [str(folder)], home=home)
    for start in (None, str(folder)):
        assert read(paths, str(folder.resolve() / "free"), start) == b"free"
    assert read(paths, "free", str(folder)) == b"free"


def test_the_files_of_the_node_stay_refused_below_a_folder_that_the_owner_names(data):
    paths = FilePaths(data, [str(data.parent)])
    assert "belongs to the node itself" in refusal(paths.locate, str(data / "token"), None)


def test_a_person_may_name_any_file_but_those_of_the_node(data, home):
    paths = FilePaths(data, home=home)
    for path in (home / ".ssh" / "id_test", home / ".netrc", home.parent / "other-node" / "token"):
        with paths.locate(str(path), str(path.parent), typed=True).open_file() as file:
            assert file.read() == SECRET
    assert "belongs to the node" in refusal(paths.locate, str(data / "token"), str(data), typed=True)


def test_a_folder_that_is_exchanged_after_the_check_is_refused(data, home):
    paths = FilePaths(data, home=home)
    allowed = paths.locate("deep/id_test", str(home / "project"))
    (home / "project" / "deep").rmdir()
    (home / ".ssh").rename(home / "project" / "deep")
    (home / ".ssh").symlink_to("project/deep")
    assert "~/.ssh" in refusal(allowed.open_file)
    (home / "project").rename(home / "old")
    allowed = paths.locate("id_test", str(home / "old"))
    (home / "old").rename(home / ".old")
    (home / "old").symlink_to(".old/deep")
    assert "is protected" in refusal(allowed.open_file)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Secrets, ordinary files, and other ways to both; with paths whose client may read the ordinary files only."""
    top = tmp_path_factory.mktemp("tree").resolve()
    home, data = top / "home", top / "node"
    for place in ("home/.ssh", "home/work/in", "other/shared", "node/shared", "srv"):
        (top / place).mkdir(parents=True)
    for secret in ("home/.ssh/f", "home/.f", "other/comity.db", "other/f", "other/shared/f", "node/token"):
        (top / secret).write_bytes(SECRET)
    for plain in ("home/work/f", "home/work/in/f", "node/shared/f", "srv/f", "home/f"):
        (top / plain).write_bytes(b"plain")
    os.link(data / "token", home / "work" / "in" / "t")
    os.link(home / ".f", top / "srv" / "t")
    (top / "srv" / "up").symlink_to(home)
    (home / "work" / "link").symlink_to(home / ".ssh")
    (home / "work" / "other").symlink_to(top / "other")
    return top, FilePaths(data, home=home)


FOLDERS = (
    ".",
    "home",
    "home/.ssh",
    "home/work",
    "home/work/in",
    "home/work/link",
    "home/work/other",
    "other",
)
FOLDERS += ("other/shared", "node", "node/shared", "srv", "srv/up", "srv/up/.ssh", "srv/up/work")
FILES = (
    "f",
    "t",
    "token",
    ".f",
    ".ssh/f",
    "in/t",
    "work/f",
    "link/f",
    "other/f",
    "shared/f",
    "up/.f",
    "comity.db",
)
DETOURS = ("", "./", "../", "in/../", "up/../", "missing/../")


@given(
    start=st.sampled_from(FOLDERS),
    folder=st.sampled_from(FOLDERS),
    file=st.sampled_from(FILES),
    detours=st.tuples(st.sampled_from(DETOURS), st.sampled_from(DETOURS)),
    is_relative=st.booleans(),
)
def test_no_way_of_a_client_leads_to_a_secret(tree, start, folder, file, detours, is_relative):
    top, paths = tree
    started = f"{top}/{start}/{detours[0]}"
    named = f"{top}/{folder}/{detours[1]}{file}"
    try:
        opened = paths.locate(os.path.relpath(named, started) if is_relative else named, started).open_file()
    except VdoToolError:
        return
    with opened:
        assert opened.read() == b"plain"
