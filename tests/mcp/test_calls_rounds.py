"""Questions to the client: on their way in the legacy era, from round to round in the modern one."""

import asyncio

from comity.mcp.calls import MAX_ROUNDS
from comity.mcp.protocol.catalog import Prompt
from comity.mcp.protocol.results import InputRequest, InputRequired, PromptResult, said
from comity.mcp.protocol.session import LIFETIME, McpSession
from comity.testing import run_simulated
from comity.wire.errors import PeerError
from tests.mcp.counter import WHEN, WHO, Carrier, Counter, read, soon, words

ANN = {"action": "accept", "content": {"name": "Ann"}}
NOON = {"action": "accept", "content": {"name": "noon"}}


async def asks(context, _arguments):
    who = (await context.ask({"who": WHO}))["who"]["content"]["name"]
    when = (await context.ask({"when": WHEN}))["when"]["content"]["name"]
    return said(f"{who} at {when}")


async def asks_at_once(context, _arguments):
    answers = await context.ask({"who": WHO, "when": WHEN})
    return said(" ".join(answers[key]["content"]["name"] for key in ("who", "when")))


def answering(result, **inputs):
    """What a client adds when it repeats a request."""
    state = {"requestState": result["requestState"]} if "requestState" in result else {}
    return {"inputResponses": inputs, **state}


def a_counter(handler=asks):
    counter = Counter()
    counter.tool(handler)
    return counter


def test_a_modern_client_repeats_its_request_until_everything_is_answered():
    async def main():
        counter = a_counter()
        first = await counter.call()
        assert first["resultType"] == "input_required"
        assert first["inputRequests"] == {"who": {"method": WHO.method, "params": dict(WHO.params)}}
        second = await counter.call(more=answering(first, who=ANN))
        assert list(second["inputRequests"]) == ["when"]
        last = await counter.call(more=answering(second, when=NOON))
        assert words(last) == "Ann at noon"
        assert [entry[2] for entry in counter.tallied] == ["asked", "asked", "ok"]

    run_simulated(main)


def test_what_is_missing_or_wrong_is_asked_for_again():
    async def main():
        counter = a_counter(asks_at_once)
        first = await counter.call()
        assert set(first["inputRequests"]) == {"who", "when"}
        for useless in ({}, {"other": ANN}, {"who": "Ann", "when": None}):
            again = await counter.call(more=answering(first, **useless))
            assert set(again["inputRequests"]) == {"who", "when"}
        partly = await counter.call(more=answering(first, who=ANN))
        assert set(partly["inputRequests"]) == {"when"}
        assert words(await counter.call(more=answering(partly, when=NOON))) == "Ann noon"

    run_simulated(main)


def test_a_state_opens_only_for_the_request_it_was_given_for():
    async def main():
        counter = a_counter()
        counter.tool(asks, "other")
        more = answering(await counter.call(), who=ANN)
        tampered = {**more, "requestState": more["requestState"][:-6] + "AAAA=="}
        for refused in (
            await counter.call(more=tampered),
            await counter.call("other", more=more),
            await counter.call(arguments={"x": 1}, more=more),
            await counter.call(owner="bob", more=more),
            await counter.call(more={**more, "requestState": 7}),
            await counter.call(more={**more, "requestState": ""}),
        ):
            assert refused.code == -32602
        assert (await counter.call(more=more))["resultType"] == "input_required"

    run_simulated(main)


def test_a_state_that_was_kept_too_long_is_refused():
    async def main():
        counter = a_counter()
        more = answering(await counter.call(), who=ANN)
        await asyncio.sleep(LIFETIME - 1)
        assert (await counter.call(more=more))["resultType"] == "input_required"
        await asyncio.sleep(2)
        assert "expired" in (await counter.call(more=more)).message

    run_simulated(main)


def test_a_handler_may_ask_by_its_answer_and_gets_its_state_back():
    def handler(context, _arguments):
        if context.input_state is None:
            return InputRequired({"who": WHO}, {"answers": [1, 2]})
        return said(f"{context.input_state} {context.inputs['who']['content']['name']}")

    async def main():
        counter = a_counter(handler)
        first = await counter.call(reply={"type": "vcp-ack"})
        assert first["_meta"]["space.creed/vcp-ack"] == {"type": "vcp-ack"}
        last = await counter.call(more=answering(first, who=ANN))
        assert words(last) == "{'answers': [1, 2]} Ann"

    run_simulated(main)


def test_a_question_without_a_state_hands_out_none():
    def handler(context, _arguments):
        return said("thanks") if "who" in context.inputs else InputRequired({"who": WHO})

    async def main():
        counter = a_counter(handler)
        first = await counter.call()
        assert "requestState" not in first
        assert words(await counter.call(more=answering(first, who=ANN))) == "thanks"

    run_simulated(main)


def test_a_prompt_may_ask_too():
    async def handler(context, _given):
        who = (await context.ask({"who": WHO}))["who"]["content"]["name"]
        return PromptResult([{"role": "user", "content": {"type": "text", "text": who}}])

    async def main():
        counter = Counter()
        counter.catalog.add_prompts(Prompt(name="p", group="r", handler=handler))
        work = counter.work("prompts/get", {"name": "p"})
        first = read(await counter.calls.start(work, Carrier()))
        again = counter.work("prompts/get", {"name": "p", **answering(first, who=ANN)})
        result = read(await counter.calls.start(again, Carrier()))
        assert result["messages"][0]["content"]["text"] == "Ann"

    run_simulated(main)


def test_what_the_client_cannot_answer_is_never_asked():
    def asks_by_answer(_context, _arguments):
        return InputRequired({"roots": InputRequest("roots/list")})

    async def main():
        for handler, needed in ((asks, {"elicitation": {}}), (asks_by_answer, {"roots": {}})):
            for modern in (True, False):
                counter = a_counter(handler)
                error = await counter.call(modern=modern, capabilities={"sampling": {}})
                assert error.code == -32021
                assert error.data == {"requiredCapabilities": needed}

    run_simulated(main)


def legacy(counter):
    carrier = Carrier()
    work = counter.work("tools/call", {"name": "t", "arguments": {}}, modern=False)
    carrier.session = McpSession(work.client)
    return carrier, asyncio.ensure_future(counter.calls.start(work, carrier))


def test_a_state_means_nothing_in_the_legacy_era():
    async def main():
        counter = a_counter(lambda context, _a: said(str(context.input_state)))
        result = await counter.call(modern=False, more={"requestState": "made up"})
        assert words(result) == "None"

    run_simulated(main)


def test_a_legacy_client_is_asked_while_the_handler_waits():
    async def main():
        carrier, running = legacy(a_counter())
        await soon(lambda: carrier.sent)
        assert carrier.sent[0]["method"] == "elicitation/create"
        assert carrier.answer(carrier.sent[0]["id"], result=ANN)
        await soon(lambda: len(carrier.sent) == 2)
        assert carrier.sent[0]["id"] != carrier.sent[1]["id"]
        assert carrier.answer(carrier.sent[1]["id"], result=NOON)
        assert words(read(await running)) == "Ann at noon"

    run_simulated(main)


def test_a_handler_that_asks_by_its_answer_is_run_again_for_a_legacy_client():
    tokens = []

    def handler(context, _arguments):
        tokens.append(context.cancelled)
        if not context.inputs:
            return InputRequired({"who": WHO}, "first")
        return said(f"{context.input_state} {context.inputs['who']['content']['name']}")

    async def main():
        carrier, running = legacy(a_counter(handler))
        await soon(lambda: carrier.sent)
        carrier.answer(carrier.sent[0]["id"], result=ANN)
        assert words(read(await running)) == "first Ann"
        assert tokens[0] is tokens[1]

    run_simulated(main)


def test_cancelling_reaches_a_handler_in_its_second_round():
    seen = []

    async def slow(context):
        context.cancelled.on_set(lambda: seen.append("told"))
        await asyncio.sleep(100)

    def handler(context, _arguments):
        return slow(context) if context.inputs else InputRequired({"who": WHO})

    async def main():
        carrier, running = legacy(a_counter(handler))
        await soon(lambda: carrier.sent)
        carrier.answer(carrier.sent[0]["id"], result=ANN)
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])
        assert seen == ["told"]

    run_simulated(main)


def test_questions_without_end_come_to_one():
    async def main():
        carrier, running = legacy(a_counter(lambda _c, _a: InputRequired({"who": WHO})))
        for number in range(MAX_ROUNDS):
            await soon(lambda number=number: len(carrier.sent) > number)
            carrier.answer(carrier.sent[number]["id"], result=ANN)
        assert (await running).code == -32603

    run_simulated(main)


def test_a_client_that_refuses_is_an_error_of_the_tool():
    async def main():
        carrier, running = legacy(a_counter())
        await soon(lambda: carrier.sent)
        carrier.answer(carrier.sent[0]["id"], error={"code": -1, "message": "not now" * 100})
        result = read(await running)
        assert result["isError"] is True
        assert words(result).startswith("the client refused: not now")
        assert len(words(result)) < 300

    run_simulated(main)


def test_a_client_that_goes_away_is_not_waited_for():
    async def main():
        carrier, running = legacy(a_counter())
        await soon(lambda: carrier.sent)
        carrier.questions.abandon()
        assert "went away" in words(read(await running))

    run_simulated(main)


def test_a_deadline_takes_the_question_back():
    async def main():
        counter = Counter()
        counter.tool(asks, deadline=3)
        carrier, running = legacy(counter)
        assert read(await running)["isError"] is True
        assert carrier.of("notifications/cancelled")[0]["requestId"] == carrier.sent[0]["id"]
        assert not carrier.answer(carrier.sent[0]["id"], result=ANN)

    run_simulated(main)


def test_when_one_of_two_questions_is_refused_the_other_is_taken_back():
    async def main():
        carrier, running = legacy(a_counter(asks_at_once))
        await soon(lambda: len(carrier.sent) == 2)
        carrier.answer(carrier.sent[0]["id"], error={"code": -1, "message": "no"})
        assert read(await running)["isError"] is True
        await soon(lambda: carrier.of("notifications/cancelled"))
        assert carrier.of("notifications/cancelled")[0]["requestId"] == carrier.sent[1]["id"]

    run_simulated(main)


def test_a_handler_may_go_on_without_the_answer():
    async def handler(context, _arguments):
        try:
            await context.ask({"who": WHO})
        except PeerError:
            return said("somebody")

    async def main():
        carrier, running = legacy(a_counter(handler))
        await soon(lambda: carrier.sent)
        carrier.answer(carrier.sent[0]["id"], error={"code": -1, "message": "no"})
        assert words(read(await running)) == "somebody"

    run_simulated(main)
