import subprocess
import sys

import pytest

from comity.actions.library import built_in, registry_of
from comity.actions.protocol.action import Action
from comity.actions.protocol.calls import NAMES, contract_of
from tests.actions.protocol.driving import action, contract, says

PLUGIN = action("of_mine", lambda given, mode: says({}))


def test_strict_lists_the_ten_of_0_1_in_their_order():
    assert registry_of("strict", [PLUGIN]).listed == (
        "wcagaaa_check",
        "rewrite_depression_sensitive_content",
        "supportive_reply",
        "cognitive_accessibility_audit",
        "cultural_context_check",
        "deescalation_plan",
        "empathetic_reframe",
        "grief_support_response",
        "neurodiversity_design_check",
        "age_inclusive_design_check",
    )


@pytest.mark.parametrize("mode", ["compat", "enhanced"])
def test_the_others_list_the_nine_of_1_0_in_their_order(mode):
    assert registry_of(mode).listed == (
        "accessibility_audit",
        "rewrite_depression_sensitive_content",
        "supportive_reply",
        "cognitive_accessibility_audit",
        "cultural_context_check",
        "deescalation_plan",
        "empathetic_reframe",
        "neurodiversity_design_check",
        "age_inclusive_design_check",
    )


def test_enhanced_lists_plugins_last_and_every_mode_calls_them():
    assert registry_of("enhanced", [PLUGIN]).listed[-1] == "of_mine"
    assert all(registry_of(mode, [PLUGIN]).entry("of_mine") for mode in ("strict", "compat", "enhanced"))


@pytest.mark.parametrize(
    "name", ["", "Supportive_reply", "supportive_reply ", "supportive_repl", "__class__"]
)
def test_a_name_is_known_exactly_or_not_at_all(name):
    assert registry_of("strict").entry(name) is None


def test_compat_knows_only_the_names_of_1_0():
    assert registry_of("compat").entry("wcagaaa_check") is None
    assert registry_of("compat").entry("grief_support_response") is None


@pytest.mark.parametrize("mode", ["strict", "enhanced"])
def test_strict_and_enhanced_call_all_eleven(mode):
    registry = registry_of(mode)
    assert len(NAMES) == 11
    assert [registry.entry(name).name for name in NAMES] == list(NAMES)


def test_every_contract_that_is_listed_was_written_for_its_mode():
    for mode in ("strict", "compat", "enhanced"):
        for name in registry_of(mode).listed:
            assert mode in built_in(name).contracts, (mode, name)


def test_the_nearest_contract_is_used():
    old, new = contract(skill="old"), contract(skill="new")
    both = Action(name="x", contracts={"strict": old, "enhanced": new}, prepare=lambda _files: None)
    assert contract_of(both, "strict") is old
    assert contract_of(both, "compat") is new
    one = Action(name="x", contracts={"strict": old}, prepare=lambda _files: None)
    assert contract_of(one, "enhanced") is old


def test_a_listing_has_its_keys_in_order():
    strict, enhanced = (registry_of(mode, [PLUGIN]).listing() for mode in ("strict", "enhanced"))
    assert list(strict[0]) == ["skill", "action", "inputSchemaPath", "outputSchemaPath", "safetyBoundary"]
    assert list(enhanced[-1].items()) == [
        ("skill", "testing"),
        ("action", "of_mine"),
        ("description", "Does as it is told"),
        ("inputSchemaPath", "schemas/testing.input.json"),
        ("outputSchemaPath", "schemas/testing.output.json"),
        ("safetyBoundary", "For tests only"),
    ]
    assert all(listed["description"] for listed in enhanced)


def test_a_skill_is_imported_when_it_is_first_called():
    code = """if True:
        import sys
        from comity.actions.library import registry_of
        registry = registry_of("strict")
        registry.entry("nothing of that name")
        print(sorted(name for name in sys.modules if name.startswith("comity_skills.")))
    """
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "['comity_skills.skill']\n"


TEXT_FIELDS = {
    "rewrite_depression_sensitive_content": "text",
    "supportive_reply": "message",
    "cognitive_accessibility_audit": "content",
    "cultural_context_check": "message",
    "deescalation_plan": "situation",
    "empathetic_reframe": "message",
    "neurodiversity_design_check": "ui_description",
    "age_inclusive_design_check": "flow_description",
}


@pytest.mark.parametrize(("name", "field"), TEXT_FIELDS.items())
@pytest.mark.parametrize("alias", ["text", "message", "content"])
def test_the_text_of_an_action_may_have_a_common_name_in_the_enhanced_mode(name, field, alias):
    given = {alias: "words", "more": 1}
    assert registry_of("enhanced").entry(name).renamed(given) == {field: "words", "more": 1}
    for mode in ("strict", "compat"):
        assert registry_of(mode).entry(name).renamed(given) == given


def test_a_name_of_the_contract_goes_before_its_aliases_and_one_alias_is_enough():
    entry = registry_of("enhanced").entry("deescalation_plan")
    assert entry.renamed({"situation": "a", "text": "b"}) == {"situation": "a", "text": "b"}
    assert entry.renamed({"situation": "", "text": "b"}) == {"situation": "b"}
    assert entry.renamed({"content": "c", "text": "b"}) == {"situation": "b", "content": "c"}
    audit = registry_of("enhanced").entry("accessibility_audit")
    assert audit.renamed({"text": "b"}) == {"text": "b"}
    own = action(
        "of_mine",
        lambda given, mode: says({}),
        required=["kind", "title"],
        properties={"kind": {"type": "string", "enum": ["a"]}, "title": {"type": "string"}, "text": {}},
    )
    mine = registry_of("enhanced", [own]).entry("of_mine")
    assert mine.renamed({"kind": "a", "text": "t"}) == {"kind": "a", "text": "t"}
    assert mine.renamed({"kind": "a", "message": "t"}) == {"kind": "a", "title": "t"}
