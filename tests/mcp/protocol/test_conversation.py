"""One stream with one client: the era of each request, the one initialize, ids, cancellations, and what waits."""

import pytest

from comity.mcp.protocol.catalog import Catalog
from comity.mcp.protocol.conversation import MAX_HELD, MAX_RUNNING, Drop, Exit, Greet, PeerAnswered, Shutdown
from comity.mcp.protocol.methods import RunningRequest
from comity.mcp.protocol.results import LEGACY, META_CAPABILITIES, META_VERSION
from comity.wire.jsonrpc import INTERNAL_ERROR, RpcError
from tests.callers import visitor
from tests.mcp.protocol.talk import ACK, AGREED, HELLO, REFUSED, Talk, a_server, meta, only, tool, with_hello


@pytest.mark.parametrize("version", LEGACY)
def test_a_known_revision_is_echoed(version):
    assert Talk().initialize(version)["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2023-01-01", "2026-07-28", "", 7, None, ["2025-06-18"]])
def test_an_unknown_revision_is_answered_with_the_latest_that_begins_with_initialize(version):
    assert Talk().initialize(version)["protocolVersion"] == "2025-11-25"


def test_initialize_tells_what_the_server_is():
    talk = Talk(a_server(instructions="Be kind."))
    result = talk.initialize()
    assert result["serverInfo"] == {"name": "t", "version": "1"}
    assert result["instructions"] == "Be kind."
    assert result["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
    }


def test_initialize_without_params_is_served():
    talk = Talk()
    assert talk.result("initialize")["protocolVersion"] == "2025-11-25"
    assert talk.conversation.initialized


def test_initialize_with_an_array_is_refused_and_may_be_tried_again():
    talk = Talk()
    assert talk.error("initialize", [1])["code"] == -32602
    assert not talk.conversation.initialized
    talk.initialize()


def test_a_second_initialize_is_refused_and_changes_nothing():
    talk = Talk()
    talk.initialize("2024-11-05")
    error = talk.error("initialize", {"protocolVersion": "2025-11-25", "vcp": HELLO})
    assert error["code"] == -32600
    assert talk.conversation.session.client.version == "2024-11-05"
    assert talk.conversation.session.client.active == frozenset()


def test_initialize_with_a_modern_meta_is_still_legacy():
    talk = Talk()
    result = talk.result("initialize", {"protocolVersion": "2025-06-18", "_meta": meta()})
    assert result["protocolVersion"] == "2025-06-18"
    assert "resultType" not in result


def test_before_initialize_a_client_is_served_as_2025_06_18():
    talk = Talk()
    assert talk.conversation.session.client.version == "2025-06-18"
    assert [t["name"] for t in talk.result("tools/list")["tools"]] == ["echo"]
    assert talk.result("ping") == {}
    assert talk.call().client.version == "2025-06-18"


def test_each_request_is_of_its_own_era_on_one_stream():
    talk = Talk()
    assert only(talk.modern("server/discover"))["result"]["resultType"] == "complete"
    talk.initialize()
    assert "resultType" not in talk.result("tools/list")
    assert only(talk.modern("tools/list"))["result"]["resultType"] == "complete"
    assert "resultType" not in talk.result("tools/list")


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "shutdown"]
)
def test_what_the_modern_era_lacks_is_unknown_in_it(method):
    params = {"level": "info", "uri": "x"}
    assert only(Talk().modern(method, params))["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "tasks/get", "no/such", ""])
def test_what_the_legacy_era_lacks_is_unknown_in_it(method):
    error = Talk().error(method, {})
    assert error["code"] == -32601


def test_a_modern_request_without_its_capabilities_is_refused():
    error = Talk().error("tools/list", {"_meta": {META_VERSION: "2026-07-28"}})
    assert (error["code"], META_CAPABILITIES in error["message"]) == (-32602, True)


@pytest.mark.parametrize("version", [7, None, {}, True])
def test_a_revision_that_is_no_text_is_refused(version):
    assert Talk().error("tools/list", {"_meta": meta(version=version)})["code"] == -32602


@pytest.mark.parametrize("version", ["2027-01-01", "2025-11-25", ""])
def test_a_revision_that_is_not_spoken_is_named_with_those_that_are(version):
    error = Talk().error("tools/list", {"_meta": meta(version=version)})
    assert error["code"] == -32022
    assert error["data"] == {"supported": ["2026-07-28"], "requested": version}


def test_params_that_are_no_object_are_refused():
    assert Talk().error("tools/list", ["a"])["code"] == -32602


@pytest.mark.parametrize("id_", [0, -1, 1.5, "", "é\u2028", 10**40, 2**63])
def test_an_id_is_echoed_as_it_came(id_):
    talk = Talk()
    assert talk.ask("ping", id_=id_)["id"] == id_
    assert talk.finish(talk.call(id_=id_))["id"] == id_
    assert talk.ask("no/such", id_=id_)["id"] == id_


@pytest.mark.parametrize("id_", [None, True, [], {}])
def test_an_id_that_is_none_is_answered_with_null(id_):
    answer = only(Talk().hear({"jsonrpc": "2.0", "id": id_, "method": "ping"}))
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


def test_an_id_at_work_is_refused_and_free_again_afterwards():
    talk = Talk()
    first = talk.call(id_="a")
    params = {"name": "echo", "arguments": {"text": ""}}
    refused = talk.ask("tools/call", params, id_="a")
    assert refused["error"]["code"] == -32600
    assert talk.finish(first, "first")["result"]["content"][0]["text"] == "first"
    assert talk.finish(talk.call(id_="a"), "second")["result"]["content"][0]["text"] == "second"


def test_what_is_cancelled_is_dropped_never_answered_and_its_id_is_free():
    talk = Talk()
    work = talk.call(id_=7)
    assert talk.cancel(7) == [Drop(work)]
    assert talk.finish(work) is None
    assert talk.conversation.refuse(work, RpcError(INTERNAL_ERROR, "late")) is None
    again = talk.call(id_=7)
    assert talk.finish(work) is None
    assert talk.finish(again)["id"] == 7


@pytest.mark.parametrize("wanted", [8, "7", True, None, [], {}, 7.5])
def test_a_cancellation_of_something_else_changes_nothing(wanted):
    talk = Talk()
    talk.call(id_=7)
    talk.call(id_=1)
    assert talk.cancel(wanted) == []
    assert talk.conversation.running == 2
    assert talk.notify("notifications/cancelled") == []
    assert talk.notify("notifications/cancelled", [7]) == []


def test_too_much_at_once_is_refused_until_something_is_done():
    talk = Talk()
    works = [talk.call(id_=number) for number in range(MAX_RUNNING)]
    params = {"name": "echo", "arguments": {"text": ""}}
    error = talk.error("tools/call", params)
    assert (error["code"], str(MAX_RUNNING) in error["message"]) == (-32600, True)
    assert talk.error("tools/list", {**params, "_meta": with_hello()})["code"] == -32600
    talk.finish(works[0])
    talk.call(id_="next")


def test_hellos_that_are_being_negotiated_count_as_work():
    talk = Talk()
    for number in range(MAX_RUNNING):
        talk.greet("tools/list", {"_meta": with_hello()}, id_=number)
    assert talk.error("tools/list", {"_meta": with_hello()})["code"] == -32600
    assert talk.error("tools/call", {"name": "echo", "arguments": {"text": ""}})["code"] == -32600


def test_a_response_that_came_in_is_handed_on_and_never_answered():
    (effect,) = Talk().hear({"jsonrpc": "2.0", "id": "nobody-asked", "result": {}})
    assert isinstance(effect, PeerAnswered)
    assert effect.response.id == "nobody-asked"
    (broken,) = Talk().hear({"jsonrpc": "2.0", "id": [], "error": "odd"})
    assert isinstance(broken, PeerAnswered)


def test_notifications_are_never_answered():
    for method in ("notifications/initialized", "no/such", "tools/list", "ping"):
        assert Talk().notify(method) == []


def test_exit_and_shutdown_are_told():
    talk = Talk()
    assert talk.notify("exit") == [Exit()]
    first, answer = talk.request("shutdown")
    assert first == Shutdown()
    assert only([answer])["result"] == {}


def test_while_a_hello_is_negotiated_what_follows_initialize_waits_for_it():
    talk = Talk()
    greet = talk.greet("initialize", {"protocolVersion": "2025-06-18", "vcp": HELLO})
    assert talk.request("tools/list", id_=2) == []
    assert talk.notify("exit") == []
    assert talk.hear("garbage") == []
    welcome, listed, left, garbage = talk.conversation.greeted(greet, AGREED)
    assert only([welcome])["result"]["vcp"] == ACK
    assert [t["name"] for t in only([listed])["result"]["tools"]] == ["echo", "feel"]
    assert left == Exit()
    assert only([garbage])["error"]["code"] == -32600
    assert talk.result("ping") == {}


def test_what_waits_for_initialize_is_bounded_and_the_rest_is_refused():
    talk = Talk()
    greet = talk.greet("initialize", {"vcp": HELLO})
    for number in range(MAX_HELD):
        assert talk.request("ping", id_=f"p{number}") == []
    assert talk.ask("ping", id_="late")["error"]["code"] == -32600
    assert only(talk.hear("garbage"))["error"]["code"] == -32600
    assert talk.notify("notifications/initialized") == []
    assert len(talk.conversation.greeted(greet, AGREED)) == 1 + MAX_HELD


def test_a_second_initialize_that_waited_is_refused():
    talk = Talk()
    greet = talk.greet("initialize", {"vcp": HELLO})
    talk.request("initialize", {"vcp": HELLO}, id_=2)
    welcome, second = talk.conversation.greeted(greet, REFUSED)
    assert only([welcome])["result"]["vcp"]["type"] == "vcp-error"
    assert only([second])["error"]["code"] == -32600


def test_a_modern_hello_holds_up_nobody_else():
    talk = Talk()
    greet = talk.greet("tools/list", {"_meta": with_hello()}, id_=1)
    assert greet.client.modern
    assert talk.result("ping") == {}
    listed = only(talk.conversation.greeted(greet, AGREED))["result"]
    assert [t["name"] for t in listed["tools"]] == ["echo", "feel"]


def test_a_request_that_is_cancelled_while_its_hello_is_negotiated_is_not_served():
    talk = Talk()
    greet = talk.greet("tools/list", {"_meta": with_hello()}, id_=1)
    assert talk.cancel(1) == []
    assert talk.conversation.greeted(greet, AGREED) == []
    again = talk.greet("tools/list", {"_meta": with_hello()}, id_=1)
    assert talk.conversation.greeted(greet, AGREED) == []
    assert only(talk.conversation.greeted(again, AGREED))["id"] == 1


def test_an_id_whose_hello_is_negotiated_is_in_use():
    talk = Talk()
    talk.greet("tools/list", {"_meta": with_hello()}, id_=1)
    assert talk.ask("tools/list", {"_meta": with_hello()}, id_=1)["error"]["code"] == -32600
    params = {"name": "echo", "arguments": {"text": ""}}
    assert talk.ask("tools/call", params, id_=1)["error"]["code"] == -32600


def test_the_word_on_a_hello_goes_to_the_request_that_carried_it_and_to_no_other():
    talk = Talk()
    call = {"name": "feel", "arguments": {}, "_meta": with_hello()}
    greet = talk.greet("tools/call", call, id_=1)
    (work,) = talk.conversation.greeted(greet, AGREED)
    assert isinstance(work, RunningRequest)
    assert talk.conversation.reply_of(work) == ACK
    plain = only(talk.request("tools/list", {"_meta": meta()}, id_=1))
    assert "vcp" not in str(plain["result"]["_meta"])
    assert talk.finish(work)["result"]["_meta"]["space.creed/vcp-ack"] == ACK
    assert talk.conversation.reply_of(talk.call(id_=1)) is None


def test_nothing_of_a_cancelled_hello_is_left_for_the_next_request_with_its_id():
    talk = Talk()
    call = {"name": "feel", "arguments": {}, "_meta": with_hello()}
    (work,) = talk.conversation.greeted(talk.greet("tools/call", call, id_=1), AGREED)
    assert talk.cancel(1) == [Drop(work)]
    (fresh,) = talk.request("tools/call", {"name": "echo", "arguments": {"text": ""}, "_meta": meta()}, id_=1)
    assert talk.conversation.reply_of(fresh) is None
    assert "vcp" not in str(talk.finish(fresh))


def test_a_modern_hello_agrees_on_nothing_for_the_next_request():
    talk = Talk()
    only(talk.conversation.greeted(talk.greet("tools/list", {"_meta": with_hello()}), AGREED))
    assert [t["name"] for t in only(talk.modern("tools/list"))["result"]["tools"]] == ["echo"]
    assert [t["name"] for t in talk.result("tools/list")["tools"]] == ["echo"]
    assert talk.conversation.session.client.active == frozenset()


def test_a_greet_says_who_asks():
    greet = Talk().greet("initialize", {"vcp": HELLO, "clientInfo": {"name": "c"}})
    assert isinstance(greet, Greet)
    assert (greet.hello, greet.client.caller) == (HELLO, visitor("ann"))
    assert greet.client.info == {"name": "c"}


def test_a_change_of_level_is_kept_only_when_it_was_accepted():
    talk = Talk()
    assert talk.error("logging/setLevel", {"level": "loud"})["code"] == -32602
    assert talk.conversation.session.log_level == "info"
    assert talk.result("logging/setLevel", {"level": "error"}) == {}
    assert talk.conversation.session.log_level == "error"


def test_a_tool_whose_schema_cannot_be_used_is_work_that_fails_and_no_crash():
    catalog = Catalog()
    catalog.add_tools([tool("odd", input_schema={"$ref": "https://example.invalid/schema"})])
    work = Talk(a_server(catalog)).call("odd")
    with pytest.raises(Exception, match="never fetched"):
        work.start(None)
