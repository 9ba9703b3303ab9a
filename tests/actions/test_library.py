import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from comity.actions.library import Library, Plugin, built_in, crisis_lines
from comity.actions.protocol.action import FetchedPage
from comity.actions.protocol.calls import NAMES
from comity.wire.errors import ActionError, ConfigError
from comity_skills.skill import PagesWanted, Skill, SkillInputError
from tests.actions.protocol.driving import Served, action


def test_an_action_is_prepared_once_however_many_ask_at_once(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"data")
    prepared = []
    meeting = threading.Barrier(4)

    def prepare(files):
        prepared.append(dict(files))
        return lambda given, mode: None

    count_characters = action("counted", None, data=("words.txt",))
    count_characters = type(count_characters)(
        name="counted", contracts=count_characters.contracts, prepare=prepare, data=("words.txt",)
    )
    library = Library("enhanced", [Plugin(action=count_characters, spec="x", folder=tmp_path)])

    def ask():
        meeting.wait()
        return library.handler(count_characters)

    with ThreadPoolExecutor(4) as pool:
        handlers = {pool.submit(ask).result for _ in range(4)}
        assert len({result() for result in handlers}) == 1
    assert prepared == [{"words.txt": b"data"}]


def test_a_shared_outcome_is_the_same_each_time_so_that_it_is_encoded_once():
    handle = Library("strict").handler(built_in("supportive_reply"))
    asked = [
        {"message": message, "risk_level": "low"}
        for message in ("I feel sad", "All is well", "I want to die")
    ]
    sad, well, crisis = (handle(given, "strict") for given in asked)
    assert sad.shared
    assert sad is well
    assert crisis is not sad


@pytest.mark.parametrize("name", NAMES)
def test_the_data_files_of_every_skill_are_there(name):
    assert callable(Library("enhanced").handler(built_in(name)))


def test_a_fault_is_logged(caplog):
    def handler(given, mode):
        raise RuntimeError("why it broke")

    broken = action("broken", handler)
    library = Library("enhanced", [Plugin(action=broken, spec="x", folder=None)])
    with pytest.raises(Exception, match="Internal error"):
        library.calls.begin("broken", {})
    assert "why it broke" in caplog.text


def test_the_lines_of_an_operator_are_named_in_replies(tmp_path):
    file = tmp_path / "crisis-lines.json"
    file.write_text(
        '{"countries": {"PT": {"name": "Portugal", "emergency": "112",'
        ' "lines": [{"name": "Nossa Linha", "contact": "1411", "source": "https://a.example"}]}}}'
    )
    library = Library("enhanced", lines=file)
    reply = library.handler(library.calls.entry("supportive_reply").action)
    said = reply({"message": "I want to kill myself", "risk_level": "low", "locale": "pt-PT"}, "enhanced")
    assert [line["name"] for line in said.output["resources"][0]["lines"]] == ["Nossa Linha"]
    assert crisis_lines(file)["countries"]["PT"]["lines"][0]["contact"] == "1411"


def test_a_file_of_lines_that_cannot_be_read_is_refused_at_once(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Library("enhanced", lines=tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "the file of crisis lines cannot be used: Expected `object`, got `array`; write "),
        (
            '{"countries": {"pt": {"name": "Portugal", "emergency": "112", "lines": []}}}',
            "the file of crisis lines has the country 'pt'; use two capital letters (ISO 3166)",
        ),
    ],
)
def test_a_file_of_lines_that_cannot_be_used_is_a_setting_that_cannot(tmp_path, text, said):
    file = tmp_path / "crisis-lines.json"
    file.write_text(text)
    for use in (lambda: Library("enhanced", lines=file), lambda: crisis_lines(file)):
        with pytest.raises(ConfigError) as refused:
            use()
        assert refused.value.message.startswith(said)


@pytest.mark.parametrize(
    ("name", "given_input", "said"),
    [
        (
            "accessibility_audit",
            {"pages": []},
            "Crawl mode requires at least 1 page. Provide 'url', 'urls', or 'pages' (with 'url' and 'html' fields).",
        ),
        (
            "wcagaaa_check",
            {"target": 7},
            "Input validation failed for action 'wcagaaa_check': 'target' must be a string",
        ),
    ],
)
def test_what_a_skill_cannot_work_with_is_refused_by_the_action_in_the_same_words(name, given_input, said):
    handle = Library("strict").handler(built_in(name))
    with pytest.raises(ActionError) as refused:
        handle(given_input, "strict")
    assert (refused.value.message, refused.value.code) == (said, "action_refused")


def test_a_skill_may_refuse_after_it_has_seen_the_pages(monkeypatch):
    def resume(pages):
        raise SkillInputError(f"{pages[0].url} is no page.")

    wanted = PagesWanted(("https://a.example/",), resume)
    fetching = Skill(name="fetching", contracts={}, prepare=lambda data: lambda given, mode: wanted)
    monkeypatch.setattr("comity_skills.accessibility_audit.SKILL", fetching)
    fetch = Library("enhanced").handler(built_in("accessibility_audit"))({}, "enhanced")
    with pytest.raises(ActionError, match=r"https://a\.example/ is no page\."):
        fetch.resume([FetchedPage(url="https://a.example/", html="")])


def test_malformed_pages_get_an_error_line():
    served = Served("compat")
    for pages in (["x"], [{"url": "u"}], [{"html": "<p>"}], [None], [{"url": 1, "html": "<p>"}], "x", {}):
        request = {"type": "invoke", "payload": {"action": "accessibility_audit", "input": {"pages": pages}}}
        (line,) = served.send(json.dumps(request).encode() + b"\n").splitlines()
        reply = json.loads(line)
        assert reply["ok"] is False, pages
        assert "'pages" in reply["error"]
