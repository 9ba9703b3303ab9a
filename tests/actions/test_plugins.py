import importlib.metadata

import pytest

from comity.actions.library import GROUP, announced_plugins, load_plugins
from comity.wire.errors import ConfigError

SAMPLE = "tests.actions.sample_plugin"
WHOLE = """
from comity.actions.protocol.action import Action, Contract
CONTRACT = Contract(skill="s", boundary="b", input_schema={"type": "object"}, output_schema={"type": "object"})
def action(name="mine", contract=CONTRACT, **more):
    return Action(name=name, contracts={"enhanced": contract}, prepare=lambda _: None, **more)
def changed(**fields):
    given = {name: getattr(CONTRACT, name) for name in CONTRACT.__struct_fields__}
    return action(contract=Contract(**{**given, **fields}))
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    count = iter(range(1000))

    def write(text, whole=WHOLE):
        name = f"plugin_{abs(hash(request.node.name))}_{next(count)}"
        (tmp_path / f"{name}.py").write_text(whole + text, encoding="utf-8")
        return name

    return write


def test_a_module_offers_one_action_or_several():
    assert [plugin.action.name for plugin in load_plugins([SAMPLE])] == [
        "greet",
        "tell_where",
        "read_titles",
        "work_hard",
    ]
    assert [plugin.action.name for plugin in load_plugins([f"{SAMPLE}:ACTION"])] == ["greet"]


def test_a_module_is_looked_for_in_the_working_directory(module):
    (plugin,) = load_plugins([module("ACTION = action()")])
    assert plugin.action.name == "mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "neither ACTION nor ACTIONS"),
        ("ACTION = 5", "it offers int"),
        ("ACTIONS = [action(), None]", "it offers NoneType"),
        ("ACTION = action('Bad Name')", "'Bad Name' is no name"),
        ("ACTION = action('supportive_reply')", "is one of the actions that are there already"),
        ("ACTIONS = [action(), action()]", "mine is offered by"),
        ("ACTION = changed(boundary='')", "needs a skill and a boundary"),
        ("ACTION = changed(input_schema={'type': 'array'})", 'must have "type": "object"'),
        (
            "ACTION = changed(input_schema={'type': 'object', '$ref': 'https://a.example/s'})",
            "schemas are never fetched",
        ),
        (
            "ACTION = changed(output_schema={'type': 'object', 'properties': {'a': {'type': 'much'}}})",
            "the output of mine: a schema cannot be used",
        ),
        (
            "ACTION = Action(name='a', contracts={'strict': CONTRACT}, prepare=None)",
            "no contract for the mode",
        ),
        ("raise RuntimeError('no licence')", "importing it failed with RuntimeError: no licence"),
        ("import a_module_that_nobody_has", "it needs a_module_that_nobody_has, which is not installed"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused_with_a_sentence(module, text, why):
    name = module(text)
    with pytest.raises(ConfigError) as refused:
        load_plugins([name])
    assert refused.value.message.startswith(f"the plugin {name} cannot be used: ")
    assert why in refused.value.message


@pytest.mark.parametrize("spec", ["nobody.has.this", f"{SAMPLE}:NOTHING", ""])
def test_what_is_not_there_is_refused(spec):
    with pytest.raises(ConfigError, match="cannot be used"):
        load_plugins([spec])


def test_installed_packages_announce_theirs_and_bad_ones_are_left_out_and_reported(module, monkeypatch):
    good = importlib.metadata.EntryPoint("a", SAMPLE, GROUP)
    bad = importlib.metadata.EntryPoint("b", module("ACTION = 5"), GROUP)
    again = importlib.metadata.EntryPoint("c", f"{SAMPLE}:ACTION", GROUP)

    def entry_points(group):
        assert group == GROUP
        return [again, bad, good]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    warnings = []
    assert [plugin.action.name for plugin in announced_plugins(warnings.append)] == [
        "greet",
        "tell_where",
        "read_titles",
        "work_hard",
    ]
    assert len(warnings) == 2
    assert all(sentence.startswith("an installed action was left out: the plugin") for sentence in warnings)


def test_one_named_by_hand_wins_over_one_that_is_announced(monkeypatch):
    point = importlib.metadata.EntryPoint("a", SAMPLE, GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    warnings = []
    assert announced_plugins(warnings.append, load_plugins([f"{SAMPLE}:ACTION"])) == ()
    assert "greet is offered by" in warnings[0]
