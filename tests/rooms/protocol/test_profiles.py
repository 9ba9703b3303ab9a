"""The four profiles of the `vdo_*` tools, and the answers to a name outside of them."""

import pytest

from comity.mcp.protocol.catalog import Selection
from comity.rooms.protocol.tool_table import PROFILES, TOOLS_OF, VDO_TOOLS, read_profile
from comity.wire.errors import ConfigError


def test_profiles_hold_what_the_contract_says():
    assert {name: len(tools) for name, tools in TOOLS_OF.items()} == {
        "core": 9,
        "file": 15,
        "state": 12,
        "full": 18,
        "extended": 25,
    }
    assert set(TOOLS_OF["file"]) | set(TOOLS_OF["state"]) == set(TOOLS_OF["full"])
    assert set(TOOLS_OF["file"]) & set(TOOLS_OF["state"]) == set(TOOLS_OF["core"])


def test_a_tool_is_in_its_profiles():
    def profiles_with(tool):
        return {name for name, tools in TOOLS_OF.items() if tool in tools}

    assert profiles_with("vdo_connect") == set(PROFILES)
    assert profiles_with("vdo_file_send") == {"file", "full", "extended"}
    assert profiles_with("vdo_state_get") == {"state", "full", "extended"}
    assert profiles_with("vdo_file_cancel") == {"extended"}


@pytest.mark.parametrize("text", ["core", " File ", "STATE", "full\n"])
def test_a_profile_is_read_as_people_write_it(text):
    assert read_profile(text) == text.strip().lower()


@pytest.mark.parametrize("text", ["", "all", "core,file", "x" * 5000])
def test_an_unknown_profile_is_refused_by_the_name_it_was_given_as(text):
    with pytest.raises(
        ConfigError, match="VDON_MCP_TOOL_PROFILE must be one of core, file, state, full"
    ) as caught:
        read_profile(text, "VDON_MCP_TOOL_PROFILE")
    assert len(caught.value.message) < 200


def refusal(name, profile):
    assert name.startswith(VDO_TOOLS.prefix)
    result = VDO_TOOLS.refuse(name, Selection(profile=profile))
    assert result.is_error
    assert result.structured["ok"] is False
    return result.structured["error"]


def test_a_tool_outside_the_profile_is_disabled():
    assert refusal("vdo_file_send", "core") == {
        "type": "validation_error",
        "message": "tool 'vdo_file_send' is disabled by tool profile 'core'",
        "tool": "vdo_file_send",
        "remedy": "start the server with --tool-profile full, without --tools or with vdo among them",
    }
    assert "--tool-profile extended" in refusal("vdo_reply", "full")["remedy"]


def test_without_the_group_every_tool_is_disabled_and_the_profile_is_none():
    without = Selection(groups=frozenset({"actions"}))
    error = VDO_TOOLS.refuse("vdo_connect", without).structured["error"]
    assert error["type"] == "validation_error"
    assert error["message"] == "tool 'vdo_connect' is disabled by tool profile 'none'"
    assert "--tool-profile full" in error["remedy"]
    assert VDO_TOOLS.list_meta(without) == {"tool_profile": "none"}
    assert VDO_TOOLS.list_meta(Selection(groups=frozenset({"vdo"})))["tool_profile"] == "full"


def test_a_tool_that_never_was_is_unknown():
    assert refusal("vdo_nothing", "core")["message"] == "unknown tool: vdo_nothing"
    assert refusal("vdo_connect", "core")["message"] == "unknown tool: vdo_connect"


def test_the_list_says_which_profile_it_is_of():
    assert VDO_TOOLS.list_meta(Selection(profile="file")) == {
        "tool_profile": "file",
        "requested_tool_profile": "file",
        "allowed_tool_profiles": ["core", "file", "state", "full"],
    }


def test_a_refusal_reads_the_same_as_text():
    result = VDO_TOOLS.refuse("vdo_no", Selection(profile="core"))
    assert result.content[0]["text"] == (
        '{"ok":false,"error":{"type":"validation_error","message":"unknown tool: vdo_no","tool":"vdo_no"}}'
    )
