import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from comity.core.actions.registry import NAMES
from comity.core.errors import ConfigError
from comity.pipeline.actions.library import Library, built_in, crisis_lines
from comity.pipeline.actions.plugins import Plugin
from tests.core.actions.driving import action


def test_an_action_is_prepared_once_however_many_ask_at_once(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"data")
    prepared = []
    meeting = threading.Barrier(4)

    def prepare(files):
        prepared.append(dict(files))
        return lambda given, mode: None

    counted = action("counted", None, data=("words.txt",))
    counted = type(counted)(name="counted", contracts=counted.contracts, prepare=prepare, data=("words.txt",))
    library = Library("enhanced", [Plugin(action=counted, spec="x", folder=tmp_path)])

    def ask():
        meeting.wait()
        return library.handler(counted)

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


def test_a_fault_is_told_to_the_log(caplog):
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


def test_a_file_of_lines_that_cannot_be_read_is_told_at_once(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Library("enhanced", lines=tmp_path / "nothing.json")
