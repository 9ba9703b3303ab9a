"""What a client sees of what is offered: rooms, profiles, extensions, and who hears of a change."""

import pytest

from comity.mcp.protocol.catalog import (
    CORE_GROUP,
    MAX_VIEWS,
    Catalog,
    Namespace,
    Prompt,
    Resources,
    Selection,
    remedy_for,
    resource,
)
from comity.mcp.protocol.results import Contents, PromptResult, failed
from comity.wire.errors import ConfigError
from tests.mcp.protocol.talk import PERSONAL, tool

NOTHING = frozenset()
EVERYTHING = Selection()


def names(catalog, selection=EVERYTHING, active=NOTHING):
    return list(catalog.view(selection, frozenset(active)).tools)


@pytest.fixture
def catalog():
    catalog = Catalog()
    catalog.add_tools(
        [
            tool("a_core", group=CORE_GROUP),
            tool("vdo_send", group="vdo", profiles=frozenset({"core", "full"})),
            tool("vdo_file", group="vdo", profiles=frozenset({"full"})),
            tool("feel", group="vcp", extension=PERSONAL),
            tool("act", group="actions"),
        ]
    )
    return catalog


def test_lists_keep_the_order_in_which_things_were_registered(catalog):
    assert names(catalog) == ["a_core", "vdo_send", "vdo_file", "act"]


def test_rooms_choose_and_the_core_is_always_there(catalog):
    assert names(catalog, Selection(groups=frozenset({"actions"}))) == ["a_core", "act"]
    assert names(catalog, Selection(groups=frozenset())) == ["a_core"]


def test_a_profile_governs_only_what_names_profiles(catalog):
    assert names(catalog, Selection(profile="core")) == ["a_core", "vdo_send", "act"]


def test_a_tool_of_an_extension_is_there_while_the_extension_is_active(catalog):
    assert "feel" in names(catalog, active={PERSONAL})
    assert "feel" not in names(catalog, active={"VCP-X-Torch"})
    assert "feel" in names(catalog, Selection(groups=frozenset({"vdo"})), {PERSONAL})


def test_dormant_is_what_only_lacks_its_extension(catalog):
    assert list(catalog.view(EVERYTHING, NOTHING).dormant) == ["feel"]
    elsewhere = Selection(groups=frozenset({"vdo"}), profile="core")
    assert list(catalog.view(elsewhere, NOTHING).dormant) == ["feel"]
    assert list(catalog.view(EVERYTHING, frozenset({PERSONAL})).dormant) == []


def test_a_view_is_made_once_and_anew_after_a_change(catalog):
    before = catalog.view(EVERYTHING, NOTHING)
    assert catalog.view(Selection(), frozenset()) is before
    catalog.add_tools([tool("new")])
    assert catalog.view(EVERYTHING, NOTHING) is not before
    assert "new" in names(catalog)
    catalog.remove_tools(["new", "never-there"])
    assert "new" not in names(catalog)


def test_the_number_of_views_is_bounded(catalog):
    first = catalog.view(Selection(demands="first"), NOTHING)
    for number in range(MAX_VIEWS):
        catalog.view(Selection(demands=number), NOTHING)
    assert catalog.view(Selection(demands="first"), NOTHING) is not first


def test_each_change_is_told_by_the_name_of_its_list(catalog):
    heard = []
    catalog.on_change(heard.append)
    catalog.add_tools([tool("new")])
    catalog.remove_tools(["new"])
    catalog.add_resources(resource("x://a", lambda _c, _u: Contents([]), group="r", name="a"))
    catalog.add_prompts(Prompt(name="p", group="r", handler=lambda _c, _g: PromptResult([])))
    catalog.remove_prompts("p")
    catalog.add_namespace(Namespace("vdo_", lambda name, _s: failed(name)))
    assert heard == ["tools", "tools", "resources", "prompts", "prompts", "tools"]


def test_a_name_that_is_taken_is_refused_and_nothing_of_the_rest_is_added(catalog):
    heard = []
    catalog.on_change(heard.append)
    with pytest.raises(ConfigError, match="a tool named act is there already"):
        catalog.add_tools([tool("fresh"), tool("act")])
    with pytest.raises(ConfigError, match="twice"):
        catalog.add_tools([tool("twice"), tool("twice")])
    assert "fresh" not in names(catalog)
    assert heard == []


def test_tools_that_are_made_later_are_made_once_for_who_looks_first(catalog):
    made = []
    heard = []

    def make():
        made.append(1)
        return [tool("late")]

    names(catalog)
    catalog.add_tools_later(make)
    catalog.on_change(heard.append)
    assert made == []
    assert names(catalog)[-1] == "late"
    assert names(catalog, Selection(profile="core"))[-1] == "late"
    assert (made, heard) == ([1], [])


@pytest.mark.parametrize("asked", [{"active": frozenset({PERSONAL})}, {"active": NOTHING, "complete": True}])
def test_what_belongs_to_extensions_is_made_once_it_matters_and_stands_in_its_place(asked):
    catalog, made = Catalog(), []

    def of_extensions(*added):
        made.append(added)
        return added

    kind = Resources(group="r", owns=lambda uri: uri == "x://p", read=lambda *_: None, extension=PERSONAL)
    catalog.add_tools([tool("first")])
    catalog.add_of_extensions(
        lambda: of_extensions(tool("feel", extension=PERSONAL)), lambda: of_extensions(kind)
    )
    catalog.add_tools_later(lambda: [tool("last")])
    assert (names(catalog), made) == (["first", "last"], [])
    view = catalog.view(EVERYTHING, **asked)
    assert len(made) == 2
    if asked["active"]:
        assert (list(view.tools), view.resources) == (["first", "feel", "last"], (kind,))
    else:
        assert (view.dormant["feel"].extension, view.dormant_for("x://p")) == (PERSONAL, kind)
    catalog.view(EVERYTHING, **asked)
    assert len(made) == 2


def test_a_tool_is_listed_with_what_it_has_and_no_more():
    bare = tool("bare").to_json(modern=True)
    assert bare == {"name": "bare", "description": "For tests.", "inputSchema": {"type": "object"}}
    full = tool("full", title="Full", output_schema={"type": "object"}, annotations={"readOnlyHint": True})
    assert full.to_json(modern=False) == {
        "name": "full",
        "title": "Full",
        "description": "For tests.",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }


def test_a_result_that_is_no_object_is_promised_to_modern_clients_only():
    lister = tool("lister", output_schema={"type": "array"})
    assert lister.to_json(modern=True)["outputSchema"] == {"type": "array"}
    assert "outputSchema" not in lister.to_json(modern=False)


def test_mirrored_arguments_are_found_through_properties_only():
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "inner": {"type": "object", "properties": {"deep": {"type": "integer", "x-mcp-header": "Deep"}}},
            "list": {"type": "array", "items": {"type": "string", "x-mcp-header": "Never"}},
            "odd": True,
            "empty": {"type": "string", "x-mcp-header": ""},
        },
        "anyOf": [{"properties": {"other": {"x-mcp-header": "Never"}}}],
    }
    assert tool("m", input_schema=schema).mirrored == {("region",): "Region", ("inner", "deep"): "Deep"}
    assert tool("n", input_schema={"properties": 7}).mirrored == {}


def test_resources_come_and_go_with_their_room_and_extension():
    catalog = Catalog()
    catalog.add_resources(
        resource("x://a", lambda _c, _u: Contents([]), group="r", name="a"),
        Resources(
            group="r",
            owns=lambda uri: uri.startswith("y://"),
            read=lambda _c, _u: Contents([]),
            templates=[{"uriTemplate": "y://{id}", "name": "y"}],
            extension=PERSONAL,
        ),
    )
    without, active = catalog.view(EVERYTHING, NOTHING), catalog.view(EVERYTHING, frozenset({PERSONAL}))
    elsewhere = catalog.view(Selection(groups=frozenset({"other"})), NOTHING)
    assert without.resources_for("x://a") is not None
    assert without.resources_for("x://ab") is None
    assert without.resources_for("y://1") is None
    assert without.dormant_for("y://1") is not None
    assert without.templates_json == {"resourceTemplates": []}
    assert active.resources_for("y://1") is not None
    assert active.dormant_for("y://1") is None
    assert [one["name"] for one in active.templates_json["resourceTemplates"]] == ["y"]
    assert elsewhere.resources_for("x://a") is elsewhere.dormant_for("x://a") is None
    assert elsewhere.dormant_for("y://1") is not None
    negotiated = catalog.view(Selection(groups=frozenset({"other"})), frozenset({PERSONAL}))
    assert negotiated.resources_for("y://1") is not None


def test_prompts_are_listed_by_room_with_what_they_have():
    catalog = Catalog()
    handler = lambda _c, _g: PromptResult([])  # noqa: E731 - short
    catalog.add_prompts(
        Prompt(name="bare", group="r", handler=handler),
        Prompt(
            name="full", group="s", handler=handler, title="T", description="D", arguments=[{"name": "who"}]
        ),
    )
    assert catalog.view(EVERYTHING, NOTHING).prompts_json == {
        "prompts": [
            {"name": "bare"},
            {"name": "full", "title": "T", "description": "D", "arguments": [{"name": "who"}]},
        ]
    }
    assert list(catalog.view(Selection(groups=frozenset({"r"})), NOTHING).prompts) == ["bare"]


def test_a_namespace_answers_for_its_prefix_and_speaks_in_the_list(catalog):
    space = Namespace("vdo_", lambda name, _s: failed(name), lambda chosen: {"profile": chosen.profile})
    catalog.add_namespace(space)
    view = catalog.view(Selection(profile="core"), NOTHING)
    assert view.namespace_of("vdo_x") is space
    assert view.namespace_of("vcp_x") is None
    assert view.tools_json(modern=True)["_meta"] == {"profile": "core"}


def test_whether_anything_completes_is_known():
    catalog = Catalog()
    catalog.add_resources(resource("x://a", lambda _c, _u: Contents([]), group="r", name="a"))
    assert not catalog.completes
    catalog.add_prompts(
        Prompt(name="p", group="r", handler=lambda _c, _g: PromptResult([]), complete=lambda *_: [])
    )
    assert catalog.completes


def test_the_remedy_names_the_extension():
    assert remedy_for("VCP-X-Torch") == (
        "Extension VCP-X-Torch is not active. Re-initialize with the extension in your VCP-Hello"
    )
