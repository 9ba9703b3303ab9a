import gc
import tomllib

import pytest
from hypothesis import given, settings

from comity.runtime import toml_edit as toml_text
from comity.wire.errors import MalformedError
from tests.hosts.documents import toml_texts

PATH = ("mcp_servers", "comity")
ENTRY = {"command": "/a b/python", "args": ["-m", "comity"], "env": {"KEY": "v"}}


def with_ours(text):
    value = tomllib.loads(text)
    return {**value, "mcp_servers": {**value.get("mcp_servers", {}), "comity": ENTRY}}


@pytest.fixture
def no_collection():
    """Keep finalizers of other tests' objects from running where the stack is used up."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def same(one, other):
    return repr(sorted(one.items())) == repr(sorted(other.items())) or one == other


def test_a_table_goes_to_the_end_after_a_blank_line():
    assert toml_text.put("# mine\na = 1", PATH, ENTRY) == (
        '# mine\na = 1\n\n[mcp_servers.comity]\ncommand = "/a b/python"\nargs = ["-m", "comity"]\nenv = { KEY = "v" }\n'
    )
    assert toml_text.put("", PATH, ENTRY).startswith("[mcp_servers.comity]\n")


def test_a_text_that_only_looks_like_our_table_is_left_alone():
    text = 's = """\n[mcp_servers.comity]\n"""\n# [mcp_servers.comity]\nl = ["[mcp_servers.comity]", \'#\']\n'
    new = toml_text.put(text, PATH, ENTRY)
    assert new.startswith(text)
    assert toml_text.drop(new, PATH) == text


@pytest.mark.parametrize(
    "text",
    [
        "[mcp_servers.comity]\ncommand = 'old'\n# mine\n[mcp_servers.comity.env]\nA = '1'\n[z]\nk = 1\n",
        "[mcp_servers]\ncomity = { command = 'old' }\nother = { command = 'x' }\n",
        "[mcp_servers]\ncomity.command = 'old'\ncomity.args = [\n 1,\n]\n[z]\n",
        "mcp_servers.comity.command = 'old'\nb = 1\n",
        "[ mcp_servers . \"comity\" ]\ncommand = 'old'\n",
    ],
)
def test_an_entry_in_any_spelling_is_found_replaced_and_taken_out(text):
    assert toml_text.find(text, PATH)["command"] == "old"
    new = toml_text.put(text, PATH, ENTRY)
    assert tomllib.loads(new) == with_ours(text)
    left = tomllib.loads(toml_text.drop(text, PATH))
    expected = tomllib.loads(text)
    del expected["mcp_servers"]["comity"]
    assert (
        left == {key: value for key, value in expected.items() if value or key != "mcp_servers"}
        or left == expected
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = \n", "line 1, column 5"),
        ("a = 1\n[b\n", "line 2"),
        ('a = "open', "line 1, column 10"),
        ("mcp_servers = {}\n", "line 1, column 1: mcp_servers is written as an inline table"),
        ("[[mcp_servers]]\n", "'mcp_servers' does not hold named entries"),
        ("mcp_servers = 1\n", "'mcp_servers' does not hold named entries"),
        ("a = " + "[" * 5000, "nested too deep"),
    ],
)
@pytest.mark.usefixtures("no_collection")
def test_a_text_that_cannot_be_changed_is_refused_with_its_place(text, place):
    with pytest.raises(MalformedError) as refusal:
        toml_text.put(text, PATH, ENTRY)
    assert place in refusal.value.message


def test_comments_around_our_table_and_parts_of_it_further_down_are_found():
    """What a document model does not keep: tomlkit drops the comment, and cannot take out a table in two places."""
    text = (
        "[mcp_servers.comity]\r\ncommand = 'old'\r\n\r\n# about z\r\n[z]\r\nk = 1\r\n"
        "[mcp_servers.other]\r\nx = 1\r\n[mcp_servers.comity.env]\r\nA = '1'\r\n# the end\r\n"
    )
    left = "\r\n# about z\r\n[z]\r\nk = 1\r\n[mcp_servers.other]\r\nx = 1\r\n# the end\r\n"
    assert toml_text.drop(text, PATH) == left
    new = toml_text.put(text, PATH, ENTRY)
    assert new.endswith(left)
    assert tomllib.loads(new) == with_ours(text)


@given(toml_texts())
@settings(max_examples=80, deadline=None)
def test_putting_in_only_adds_and_taking_out_keeps_what_came_later(text):
    new = toml_text.put(text, PATH, ENTRY)
    assert new.startswith(text)
    assert same(tomllib.loads(new), with_ours(text))
    assert toml_text.put(new, PATH, ENTRY) == new
    left = toml_text.drop(new + "# later\n[later]\nk = 1\n", PATH)
    assert left.startswith(text.rstrip())
    assert left.endswith("# later\n[later]\nk = 1\n")
    assert same(tomllib.loads(left), {**tomllib.loads(text), "later": {"k": 1}})


def test_every_character_survives_the_quoting():
    value = "".join(map(chr, range(0x2100))) + '\ufeff\U0001f600\\"'
    assert tomllib.loads(toml_text.put("", ("t",), {"k": value, "key with blank": True})) == {
        "t": {"k": value, "key with blank": True}
    }


@settings(max_examples=300)
@given(toml_texts())
def test_one_value_is_put_into_any_text_and_nothing_else_changes(text):
    before = tomllib.loads(text)
    for path, value in ((("port",), 9000), (("http", "public"), True), (("http", "hosts"), ["a", "b"])):
        try:
            text = toml_text.put_value(text, path, value)
        except MalformedError:
            assert tomllib.loads(text) == before or same(tomllib.loads(text), before)
            return
        before = {**before, **({"port": value} if len(path) == 1 else {})}
        if len(path) == 2:
            before = {**before, "http": {**before.get("http", {}), path[1]: value}}
        assert same(tomllib.loads(text), before)


@pytest.mark.parametrize(
    ("text", "path", "value", "new"),
    [
        ("", ("port",), 1, "port = 1\n"),
        ("# a\nport = 2 # why\n", ("port",), 1, "# a\nport = 1  # why\n"),
        ("  port = 2\r\nx = 1\r\n", ("port",), 1, "  port = 1\r\nx = 1\r\n"),
        ("a = 1", ("port",), 1, "a = 1\nport = 1\n"),
        ("[http]\n# b\nx = 1\n\n[z]\n", ("http", "y"), "q", '[http]\n# b\nx = 1\ny = "q"\n\n[z]\n'),
        ("[http]\n[z]\n", ("http", "y"), 2.5, "[http]\ny = 2.5\n[z]\n"),
        ("hosts = [\n  1, # one\n] # end\n", ("hosts",), [], "hosts = []  # end\n"),
        ("[z]\nx = 1\n", ("port",), 1, "port = 1\n[z]\nx = 1\n"),
    ],
)
def test_a_value_is_put_where_a_person_would_look_for_it(text, path, value, new):
    assert toml_text.put_value(text, path, value) == new


def test_a_section_that_is_written_key_by_key_is_left_to_a_person():
    with pytest.raises(MalformedError, match="add it by hand"):
        toml_text.put_value("http.x = 1\n", ("http", "y"), 2)
