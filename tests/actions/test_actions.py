"""`comity actions` at the command line. The server itself is tried in tests/actions."""

import json

import httpx
import pytest

from comity.runtime.settings import AgentSettings
from comity.testing import bearer
from comity.testing.vectors import vector_file

SAMPLE = "tests.actions.sample_plugin"


def run(comity, name, given, *more):
    return comity("actions", "run", name, "--input", given, "--plugin", SAMPLE, *more)


def test_list_names_the_nine_and_what_a_plugin_adds(comity):
    shown = comity("actions", "list", "--plugin", SAMPLE)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert len(lines) == 1 + 9 + 4
    assert lines[0].split() == ["action", "needs", "what", "it", "is", "for"]
    assert any(line.startswith("greet ") and "Shows how a plugin is made" in line for line in lines)
    assert any(
        line.split()[:6] == ["accessibility_audit", "url", "or", "urls", "or", "pages"] for line in lines
    )
    answer = json.loads(comity("actions", "list", "--json").out)["actions"]
    assert len(answer) == 9
    assert all(one["inputSchema"]["type"] == "object" for one in answer)


def test_run_prints_what_an_action_says(comity):
    shown = run(comity, "greet", '{"name":"Ada"}')
    assert shown.code == 0
    assert "Hello, Ada" in shown.out
    assert "A sample; do not rely on it" in shown.out
    data = json.loads(run(comity, "greet", '{"name":"Ada"}', "--json").out)
    assert data["output"]["greeting"] == "Hello, Ada"


def test_run_reads_its_input_from_a_pipe(comity, monkeypatch, tmp_path):
    file = tmp_path / "input.json"
    file.write_text('{"name":"Zoë"}', encoding="utf-8")
    with file.open(encoding="utf-8") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert "Hello, Zoë" in run(comity, "greet", "-").out


@pytest.mark.parametrize(
    ("name", "given", "code", "word"),
    [
        ("nobody", "{}", 1, "Unknown action: 'nobody'"),
        ("greet", "{}", 1, "Required field 'name' is missing or empty"),
        ("greet", "{", 2, "--input is not JSON"),
        ("greet", "@input.json", 2, "`--input - < FILE` reads a file"),
        ("greet", "[]", 2, "--input must be a JSON object"),
        ("work_hard", '{"do":"refuse"}', 1, "There is nothing to work on"),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_sentence(comity, name, given, code, word):
    refused = run(comity, name, given)
    assert refused.code == code
    assert word in refused.err
    assert refused.out == ""


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--strict", "--enhanced"], "cannot be combined"),
        (["--compat", "1.0", "--enhanced"], "cannot be combined"),
        (["--compat", "2.0"], "--compat knows 1.0 only, not '2.0'"),
        (["--compat", ""], "--compat knows 1.0 only"),
        (["--plugin", "no.such.module"], "the plugin no.such.module cannot be used"),
        (["--enhanced", "list"], "put the options after list"),
    ],
)
def test_options_that_cannot_be_used_are_refused(comity, arguments, word):
    refused = comity("actions", *arguments)
    assert refused.code == 2
    assert word in refused.err


def test_a_plugin_may_be_given_several_times(comity, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = """
from comity.actions.protocol.action import Action, Contract, Outcome
ANY = {"type": "object"}
ACTION = Action(
    name="second_of_mine",
    contracts={"enhanced": Contract(skill="s", boundary="b", input_schema=ANY, output_schema=ANY)},
    prepare=lambda _: lambda given, mode: Outcome(uncertainty="low", assumptions=["a"], output={"x": [1, {"y": 2}]}),
)
"""
    (tmp_path / "another_plugin_of_tests.py").write_text(text, encoding="utf-8")
    shown = run(comity, "second_of_mine", "{}", "--plugin", "another_plugin_of_tests")
    assert shown.out.endswith("\nx\n- 1\n-\n  y: 2\n")


def test_a_signed_call_reaches_an_action(comity, neighbourhood, tmp_path):
    node = neighbourhood.node(tmp_path / "there", AgentSettings(behaviour="actions"))
    asked = '{"action":"empathetic_reframe","input":{"message":"We cannot refund you"}}'
    answered = comity("call", node.url, asked)
    assert answered.code == 0, answered.err
    reply = json.loads(answered.out)
    assert reply["ok"] is True
    assert "cannot refund" in reply["data"]["output"]["reframed_message"]


def test_the_schemas_are_written_under_the_names_that_the_contract_lists(comity, tmp_path):
    assert comity("actions", "schemas", tmp_path / "new").out.startswith("20 schemas are in ")
    written = {path.name for path in (tmp_path / "new" / "schemas").iterdir()}
    assert {"supportive-conversation.input.json", "supportive-conversation.output.json"} <= written
    assert comity("actions", "schemas", tmp_path / "new").code == 0
    (tmp_path / "new" / "schemas" / "supportive-conversation.input.json").write_text("{}")
    refused = comity("actions", "schemas", tmp_path / "new")
    assert (refused.code, "exists with other content" in refused.err) == (1, True)
    shared = comity("actions", "schemas", tmp_path / "more", "--enhanced", "--plugin", SAMPLE, "--json")
    assert len(json.loads(shared.out)["files"]) == 2 * (9 + 1)
    assert "has the skill of another action" in shared.err


@pytest.mark.vector
@pytest.mark.parametrize(("flags", "release"), [((), "v0.1"), (("--compat", "1.0"), "v1.0.8")])
def test_vector_actions_the_schemas_are_named_as_the_releases_name_theirs(comity, tmp_path, flags, release):
    known = vector_file("actions", "schemas")[release]
    assert comity("actions", "schemas", tmp_path, *flags).code == 0
    assert {path.name for path in (tmp_path / "schemas").iterdir()} == set(known)


def test_lines_shows_the_countries_and_claims_no_check_that_nobody_made(comity, tmp_path):
    every = comity("actions", "lines")
    assert every.code == 0
    assert len(every.out.splitlines()) > 60
    portugal = comity("actions", "lines", "--country", "pt")
    assert portugal.code == 0
    assert "112" in portugal.out
    assert "not checked, incomplete" in portugal.out
    assert comity("actions", "lines", "--country", "XX").code != 0
    own = tmp_path / "lines.json"
    own.write_text(
        '{"countries": {"PT": {"name": "Portugal", "emergency": "112", "checked": "2026-11-16", "lines": []}}}'
    )
    answer = json.loads(comity("actions", "lines", "--country", "PT", "--lines", str(own), "--json").out)
    assert answer["checked"] == "2026-11-16"
    own.write_text("{")
    refused = comity("actions", "lines", "--lines", str(own))
    assert refused.code != 0
    assert "cannot be used" in refused.err


def test_lines_of_an_operator_are_named_by_the_running_node_and_shown(comity, neighbourhood, tmp_path):
    data = tmp_path / "there"
    data.mkdir(mode=0o700)
    (data / "crisis-lines.json").write_text(
        '{"countries": {"PT": {"name": "Portugal", "emergency": "112", "checked": "2026-11-16",'
        ' "lines": [{"name": "Linha Nossa", "contact": "1411", "source": "https://a.example"}]}}}'
    )
    node = neighbourhood.node(data)
    message = {"message": "Quero morrer, já escrevi a carta.", "risk_level": "low", "locale": "pt-PT"}
    answer = httpx.post(
        f"{node.url}/v1/actions/supportive_reply", json=message, headers=bearer(node), timeout=60
    )
    assert answer.status_code == 200
    answered = answer.json()["output"]
    assert answered["crisis"]["detected"] is True
    assert [line["name"] for line in answered["resources"][0]["lines"]] == ["Linha Nossa"]
    assert any("1411" in line for line in answered["escalation_guidance"])
    shown = comity("actions", "lines", "--country", "PT", "--data", data)
    assert shown.code == 0
    assert "Linha Nossa" in shown.out
    assert "2026-11-16" in shown.out
    assert "Linha Nossa" not in comity("actions", "lines", "--country", "PT").out
    assert "Samaritans" in comity("actions", "lines", "--country", "GB", "--data", data).out


def test_the_help_of_run_shows_the_fields_of_the_named_action(comity):
    shown = " ".join(comity("actions", "run", "supportive_reply", "--help").out.split())
    for part in (
        "Fields of the input",
        "risk_level",
        "One of low, medium, high; required.",
        'Default: "en".',
    ):
        assert part in shown
    assert "Fields of the input" not in comity("actions", "run", "--help").out
