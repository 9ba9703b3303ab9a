"""The reference says what the code says."""

import re
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

import comity.node.http_server
from comity.runtime.settings import AgentSettings
from comity.runtime.settings_file import load_settings
from comity.testing import bearer, running_node
from comity.wire.errors import ConfigError
from tests.docs import reference
from tests.docs.markdown import DOCS

REMEDY = "run `python -m tests.docs.reference`, then write the last column of what is new"


@pytest.mark.parametrize("name", reference.TABLES)
def test_a_table_holds_what_the_code_has_and_nothing_else(name):
    page, from_code, _ = reference.TABLES[name]
    written = {first: tuple(cells[:-1]) for first, cells in reference.rows(page, name).items()}
    assert written == {first: cells[:-1] for first, cells in from_code().items()}, REMEDY


@pytest.mark.parametrize("name", reference.TABLES)
def test_every_row_of_a_table_says_what_it_means(name):
    page, _, _ = reference.TABLES[name]
    silent = [
        first
        for first, cells in reference.rows(page, name).items()
        if cells[-1] in {"", reference.NOT_WRITTEN}
    ]
    assert not silent


def test_the_commands_page_lists_every_command():
    assert reference.part(reference.COMMANDS_PAGE, "commands").strip() == reference.commands().strip(), REMEDY


def test_the_settings_that_must_fit_together_are_refused_as_the_page_says(tmp_path):
    for flags in (
        {"tls.cert": tmp_path / "cert.pem"},
        {"host": "0.0.0.0"},
        {"environment": "staging", "store.engine": "memory"},
        {"environment": "prod", "audit.level": "diagnostic"},
        {"environment": "test", "vault.plaintext": True},
    ):
        with pytest.raises(ConfigError):
            load_settings({"data": tmp_path, **flags}, {})


def _routes_shown() -> dict[tuple[str, str], bool]:
    text = (DOCS / "reference" / "http.md").read_text("utf-8")
    rows = re.findall(r"^\| (GET|POST) \| `(/[^`]*)` \| (yes|no) \|", text, re.MULTILINE)
    return {(method, path): public == "yes" for method, path, public in rows}


def _paths(app: Any, depth: int = 3) -> set[str]:
    """Those that an application answers, wherever it keeps them: in a router, or in a table before it."""
    found = set()
    for held in vars(app).values():
        if isinstance(held, Starlette):
            found |= {route.path for route in held.routes}
        elif isinstance(held, dict):
            found |= {key for key in held if isinstance(key, str) and key.startswith("/")}
        elif depth and hasattr(held, "__dict__"):
            found |= _paths(held, depth - 1)
    return found


async def test_the_http_page_names_the_routes_of_a_node_and_who_may_use_them(monkeypatch):
    doors = []

    class Door(comity.node.http_server.HttpDoor):
        def __init__(self, **given) -> None:
            super().__init__(**given)
            doors.append(self)

    monkeypatch.setattr(comity.node.http_server, "HttpDoor", Door)
    async with running_node(agent=AgentSettings(behaviour="echo")) as node:
        assert _paths(doors[0].app) == {path for _, path in _routes_shown()}
        async with httpx.AsyncClient(base_url=node.url) as http:
            for (method, path), public in _routes_shown().items():
                url = path.format(
                    ticket="used", vid="0" * 64, seq="1", name="supportive_reply", issuer="acme"
                )
                stranger = await http.request(method, url)
                async with http.stream(method, url, headers=bearer(node)) as owner:  # one of them never ends
                    pass
                assert (stranger.status_code == 401 and "www-authenticate" in stranger.headers) == (
                    not public
                ), path
                assert owner.status_code not in {401, 405}, path


async def test_the_files_page_names_what_lies_in_a_data_folder(tmp_path):
    text = (DOCS / "reference" / "files.md").read_text("utf-8")
    named = set(re.findall(r"`([\w./-]+)`", "".join(re.findall(r"^\| (`.+?) \|", text, re.MULTILINE))))
    data = tmp_path / "data"
    async with running_node(data):
        running = {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}
    assert running == named - {"config.toml"}
    assert {path.stat().st_mode & 0o777 for path in data.rglob("*") if path.is_file()} == {0o600}
