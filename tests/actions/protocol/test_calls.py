import pytest

from comity.actions.protocol.action import Outcome
from comity.actions.protocol.calls import Work
from comity.wire.errors import ActionError, ComityError, NotFoundError
from tests.actions.protocol.driving import Faults, action, calls, says


def test_a_quick_call_has_its_outcome_at_once():
    _, outcome = calls().begin("echo_text", {"text": "t"})
    assert isinstance(outcome, Outcome)


def test_slow_work_has_not_begun_and_pages_wait_to_be_fetched():
    _, slow = calls().begin("take_long", {})
    _, waiting = calls().begin("need_pages", {})
    assert isinstance(slow, Work)
    assert slow.fetch is None
    assert waiting.fetch.urls == ("https://a.example/", "https://b.example/")


def test_a_bad_input_never_reaches_the_handler():
    def handler(given, mode):
        raise AssertionError

    faults = Faults()
    strict = action("strict_one", handler, required=["text"], properties={"text": {"type": "string"}})
    with pytest.raises(ActionError) as refused:
        calls(actions=[strict], faults=faults).begin("strict_one", {})
    assert refused.value.message == (
        "Input validation failed for action 'strict_one': Required field 'text' is missing or empty"
    )
    assert faults == []


def test_an_unknown_name_is_not_found():
    with pytest.raises(NotFoundError):
        calls().begin("nobody", {})


@pytest.mark.parametrize("failure", [RuntimeError("secret"), RecursionError(), MemoryError(), KeyError("x")])
def test_whatever_a_handler_raises_is_internal_and_reported(failure):
    def handler(given, mode):
        raise failure

    faults = Faults()
    with pytest.raises(ComityError) as refused:
        calls(actions=[action("breaks", handler)], faults=faults).begin("breaks", {})
    assert refused.value.message == "Internal error"
    assert faults == [("breaks", failure)]


def test_an_action_that_cannot_be_prepared_is_internal():
    def handler_of(_action):
        raise OSError("no data file")

    served = calls()
    served._handler_of = handler_of
    with pytest.raises(ComityError, match="Internal error"):
        served.begin("echo_text", {})


def test_a_plugin_keeps_its_own_output_schema():
    schema = {"type": "object", "required": ["n"]}
    served = calls(actions=[action("good", lambda given, mode: says({"n": 1}), output=schema)])
    assert served.data(*served.begin("good", {}))["output"] == {"n": 1}
    bad = calls(actions=[action("bad", lambda given, mode: says({}), output=schema)])
    with pytest.raises(ComityError, match="Internal error"):
        bad.data(*bad.begin("bad", {}))


def test_a_plugin_has_one_of_three_uncertainties():
    outcome = Outcome(uncertainty="sure", assumptions=(), output={})
    served = calls(actions=[action("sure", lambda given, mode: outcome)])
    with pytest.raises(ComityError, match="Internal error"):
        served.data(*served.begin("sure", {}))


def test_what_the_work_ended_in_is_raised():
    served = calls()
    entry, _ = served.begin("take_long", {})
    with pytest.raises(ActionError):
        served.data(entry, ActionError("no"))


def test_a_call_under_a_common_name_reaches_the_handler_under_that_of_the_contract():
    retitle = action(
        "tell", lambda given, mode: says(given), required=["title"], properties={"title": {"type": "string"}}
    )
    _, outcome = calls(actions=[retitle]).begin("tell", {"message": "m"})
    assert outcome.output == {"title": "m"}
    slow = action("slow", says, slow=True, required=["title"], properties={"title": {"type": "string"}})
    _, work = calls(actions=[slow]).begin("slow", {"text": "m"})
    assert work.input == {"title": "m"}
