"""The VCP client in simulated time: what it says, when, and what it makes of the answers."""

import asyncio
import json
from itertools import pairwise

import pytest

from comity.requests.record import Recorder
from comity.store.interface import Put
from comity.store.memory import MemoryStore
from comity.testing.loop import SimulatedClock, run_simulated
from comity.vcp.client_session import VcpRefusedError
from comity.vcp.protocol.messages import PERSONAL, RELATIONAL, TORCH
from comity.vcp.protocol.signals import ContextError
from comity.wire.errors import (
    ComityError,
    InvalidError,
    NoAnswerError,
    TooLargeError,
    UnreachableError,
    UnusableAnswerError,
)
from comity.wire.rate_limit import RateLimiter
from tests.vcp.protocol.negotiation_samples import NO_FEATURES, TOKEN, WIRE, registry
from tests.vcp.vcp_scene import HANGS, UNREACHABLE, OurServer, Script, Simulation, ack, error

PERSONAL_DATA = {"signals": {"body_signals": {"category": "body_signals", "value": "pain", "intensity": 4}}}
RESPONSE = {"version": "3.1", "accepted": ["categorical"], "ignored": []}


def with_script(*lines, **options):
    return Simulation(Script(SimulatedClock(), *lines), **options)


def with_server(**settings):
    return Simulation(OurServer(SimulatedClock(), **settings))


class TestNegotiating:
    @staticmethod
    def test_a_session_shows_what_was_agreed_on():
        async def scene():
            world = with_server(registry=registry(PERSONAL, TORCH), server_id="srv")
            async with world.connect(PERSONAL, RELATIONAL, TORCH, identity=TOKEN) as session:
                assert session.version == "3.1"
                assert session.extensions == (PERSONAL, TORCH)
                assert session.unsupported == (RELATIONAL,)
                assert session.capabilities[TORCH]["degraded"] is True
                assert all(session.core_features.values())
                assert (session.id, session.server_id) == ("ses_1", "srv")
                assert session.warnings == session.alerts == ()
                assert session.active
            assert not session.active
            (hello,) = world.server.said
            assert hello == {
                "type": "vcp-hello",
                "version": "3.1",
                "min_version": "1.0",
                "extensions": [PERSONAL, RELATIONAL, TORCH],
                "identity": TOKEN,
            }

        run_simulated(scene)

    @staticmethod
    def test_leaving_the_block_closes_the_connection():
        async def scene():
            world = with_server()
            async with world.connect():
                pass
            await asyncio.sleep(1)
            assert world.server.ends == ["this side stops"]

        run_simulated(scene)

    @staticmethod
    def test_a_fault_in_the_block_comes_out_as_it_is_and_the_connection_is_closed():
        async def scene():
            world = with_server()
            with pytest.raises(LookupError):
                async with world.connect():
                    raise LookupError
            await asyncio.sleep(1)
            assert len(world.server.ends) == 1

        run_simulated(scene)

    @staticmethod
    @pytest.mark.parametrize(
        "options",
        [
            {"version": "4"},
            {"version": "3.1.1"},
            {"version": "1.0", "min_version": "2.0"},
            {"identity": "x" * 2049},
            {"client_id": ""},
            {"attempts": 0},
        ],
    )
    def test_a_hello_that_nobody_could_accept_is_not_sent(options):
        async def scene():
            world = with_server()
            with pytest.raises(InvalidError):
                await world.connect(**options).__aenter__()
            assert world.dialled == []

        run_simulated(scene)

    @staticmethod
    def test_a_name_that_is_no_extension_is_refused_before_connecting():
        async def scene():
            world = with_server()
            with pytest.raises(InvalidError, match="VCP-X-Personal"):
                await world.connect("personal").__aenter__()
            assert world.dialled == []

        run_simulated(scene)


class TestAnAck:
    """Behaviour 11 of vcp 10."""

    @staticmethod
    @pytest.mark.parametrize(
        "answer",
        [
            ack(PERSONAL, unsupported=[PERSONAL]),
            ack(),
            ack(PERSONAL, RELATIONAL),
            ack(PERSONAL, capabilities={RELATIONAL: {}}),
            ack(PERSONAL, capabilities={"\x1b[2J": {}}),
            ack(PERSONAL, version="3.2"),
            ack(PERSONAL, version="2.9"),
            ack(PERSONAL, core_features={"encryption": "yes"}),
            ack(PERSONAL, PERSONAL),
            {"type": "vcp-hello"},
            b"[]",
            b"\xff",
            b'{"type":"vcp-ack","type":"vcp-ack"}',
            b'{"type":"vcp-ack","pad":"' + b"x" * 65_536 + b'"}',
        ],
    )
    def test_one_that_breaks_an_invariant_is_refused_and_not_asked_for_again(answer):
        async def scene():
            world = with_script(answer)
            with pytest.raises(UnusableAnswerError) as refusal:
                await world.connect(PERSONAL, min_version="3.0").__aenter__()
            assert refusal.value.message.isprintable()
            assert len(world.dialled) == len(world.server.said) == 1

        run_simulated(scene)

    @staticmethod
    def test_what_is_missing_is_inferred_and_what_is_unknown_overlooked():
        async def scene():
            answer = ack(PERSONAL, capabilities={PERSONAL: {"decay": True, "new": [1]}}, more={"x": 1})
            del answer["unsupported"]
            del answer["core_features"]
            world = with_script(answer)
            async with world.connect(PERSONAL, TORCH) as session:
                assert session.unsupported == (TORCH,)
                assert session.core_features == NO_FEATURES
                assert session.capabilities == {PERSONAL: {"decay": True, "new": [1]}}
                assert session.id is session.server_id is None
                assert any("does not encrypt" in warning for warning in session.warnings)
                assert any("no core features" in warning for warning in session.warnings)

        run_simulated(scene)

    @staticmethod
    def test_a_server_without_encryption_is_warned_about_in_the_log_too(caplog):
        async def scene():
            async with with_server(core_features=NO_FEATURES).connect() as session:
                assert session.warnings == ("the server does not encrypt what it stores",)

        run_simulated(scene)
        assert "does not encrypt" in caplog.text


class TestTime:
    @staticmethod
    def test_ten_seconds_without_an_answer_are_a_failure_of_the_transport():
        async def scene():
            world = with_script(HANGS)
            with pytest.raises(NoAnswerError, match="10 seconds"):
                await world.connect(attempts=1).__aenter__()
            assert world.clock.monotonic() == pytest.approx(10.0, abs=1e-6)

        run_simulated(scene)

    @staticmethod
    def test_an_answer_just_before_that_counts():
        async def scene():
            class Slow(Script):
                async def serve(self, link):
                    await link.receive()
                    await asyncio.sleep(9.9)
                    await link.send(json.dumps(ack()).encode())

            world = Simulation(Slow(SimulatedClock()))
            async with world.connect(attempts=1) as session:
                assert session.version == "3.1"

        run_simulated(scene)

    @staticmethod
    def test_connecting_again_waits_twice_as_long_each_time_up_to_thirty_seconds():
        async def scene():
            world = Simulation(tries=[UNREACHABLE] * 8)
            with pytest.raises(UnreachableError):
                await world.connect(attempts=8).__aenter__()
            moments = world.dialled
            waits = [late - early for early, late in pairwise(moments)]
            assert waits == pytest.approx([1, 2, 4, 8, 16, 30, 30])

        run_simulated(scene)

    @staticmethod
    @pytest.mark.parametrize(("draw", "wait"), [(0.0, 0.5), (0.5, 1.0), (0.999, 1.499)])
    def test_the_jitter_is_half_of_the_step(draw, wait):
        async def scene():
            world = with_script(ack(), tries=[UNREACHABLE])
            async with world.connect(draw=lambda: draw):
                assert world.dialled == pytest.approx([0.0, wait])

        run_simulated(scene)

    @staticmethod
    def test_a_server_that_hangs_up_or_says_nothing_is_connected_to_again():
        async def scene():
            world = with_script(None, HANGS, ack())
            async with world.connect() as session:
                assert session.version == "3.1"
            assert world.dialled == pytest.approx([0, 1, 1 + 10 + 2])

        run_simulated(scene)

    @staticmethod
    def test_a_rate_limit_is_waited_out_on_the_same_connection():
        """Behaviour 6 of vcp 10: the client waits at least as long as it is told."""

        async def scene():
            limiter = RateLimiter(1, 40)
            limiter.take("198.51.100.7", 0.0)
            world = with_server(limiter=limiter)
            async with world.connect(client_id="one") as session:
                assert session.version == "3.1"
            (first, _), (second, hello) = world.server.heard
            assert second - first >= 40
            assert hello["type"] == "vcp-hello"
            assert len(world.dialled) == 1

        run_simulated(scene)

    @staticmethod
    @pytest.mark.parametrize("asked_for", [1, 7, 120])
    def test_no_hello_comes_before_retry_after(asked_for):
        async def scene():
            world = with_script(error("RATE_LIMITED", retry_after=asked_for), ack())
            async with world.connect(draw=lambda: 0.0):
                first, second = (moment for moment, _ in world.server.heard)
                assert second - first >= asked_for

        run_simulated(scene)

    @staticmethod
    def test_the_last_attempt_tells_the_refusal_and_does_not_wait():
        async def scene():
            world = with_script(error("RATE_LIMITED", retry_after=60))
            with pytest.raises(VcpRefusedError, match="RATE_LIMITED: no; try again in 60 s") as refusal:
                await world.connect(attempts=1).__aenter__()
            assert refusal.value.error.retry_after == 60
            assert world.clock.monotonic() < 1

        run_simulated(scene)

    @staticmethod
    def test_a_longer_wait_than_there_is_time_for_is_told_at_once_and_kept_by_the_next_connect():
        async def scene():
            world = with_script(error("RATE_LIMITED", retry_after=60), ack())
            for _ in range(2):
                with pytest.raises(VcpRefusedError, match="RATE_LIMITED") as refusal:
                    await world.connect(connect_seconds=30).__aenter__()
                assert refusal.value.error.retry_after == 60
            assert (len(world.server.said), len(world.dialled)) == (1, 1)
            await asyncio.sleep(40)
            async with world.connect(connect_seconds=30):
                assert world.clock.monotonic() >= 60
            assert [moment for moment, _ in world.server.heard] == pytest.approx([0, 60])

        run_simulated(scene)

    @staticmethod
    def test_another_server_is_not_held_off():
        async def scene():
            world = with_script(error("RATE_LIMITED", retry_after=600), ack())
            with pytest.raises(VcpRefusedError):
                await world.connect(connect_seconds=5).__aenter__()
            async with world.connect(url="ws://127.0.0.1:9999/vcp", connect_seconds=5) as session:
                assert session.version == "3.1"

        run_simulated(scene)

    @staticmethod
    def test_connecting_ends_at_its_deadline_whatever_happens():
        async def scene():
            for server in (Simulation(tries=[UNREACHABLE] * 90), with_script(*[HANGS] * 90)):
                began = server.clock.monotonic()
                with pytest.raises((UnreachableError, NoAnswerError)):
                    await server.connect(attempts=90, connect_seconds=25).__aenter__()
                assert server.clock.monotonic() - began <= 25

        run_simulated(scene)

    @staticmethod
    def test_attempts_count_connections_and_hellos_together():
        async def scene():
            world = with_script(*[error()] * 5, tries=[UNREACHABLE])
            with pytest.raises(VcpRefusedError):
                await world.connect(attempts=3).__aenter__()
            assert len(world.server.said) == 2

        run_simulated(scene)


class TestAnError:
    @staticmethod
    @pytest.mark.parametrize(
        "code", ["VERSION_UNSUPPORTED", "IDENTITY_REQUIRED", "IDENTITY_INVALID", "EXTENSION_CONFLICT", "NEW"]
    )
    def test_one_that_no_waiting_mends_is_told_at_once_and_nothing_else_leaves(code):
        async def scene():
            world = with_script(error(code, "because", supported_versions=["1.0", "2.0"]))
            with pytest.raises(VcpRefusedError) as refusal:
                await world.connect(PERSONAL).__aenter__()
            assert refusal.value.message.startswith(f"{code}: because; ")
            assert ("speaks 1.0, 2.0" in refusal.value.message) == (code == "VERSION_UNSUPPORTED")
            await asyncio.sleep(60)
            assert [message["type"] for message in world.server.said] == ["vcp-hello"]

        run_simulated(scene)

    @staticmethod
    def test_its_text_cannot_act_on_a_terminal():
        async def scene():
            world = with_script(error("IDENTITY_INVALID", "a\x1b[2Jb\nc\u202e"))
            with pytest.raises(VcpRefusedError) as refusal:
                await world.connect().__aenter__()
            assert refusal.value.message.isprintable()

        run_simulated(scene)

    @staticmethod
    def test_one_that_ends_a_session_fails_who_waits_and_whoever_comes_later():
        async def scene():
            world = with_server()
            async with world.connect() as session:
                await session.send_context({"categorical": {"wire": WIRE}})
                world.server.lost_features.set_result({**NO_FEATURES})
                await asyncio.sleep(1)
                assert not session.active
                sent = len(world.server.said)
                with pytest.raises(VcpRefusedError, match="lost encryption"):
                    await session.send_context({"categorical": {"wire": WIRE}})
                assert len(world.server.said) == sent

        run_simulated(scene)

    @staticmethod
    def test_after_one_on_an_open_connection_no_context_leaves():
        """Behaviour 11 of vcp 10."""

        async def scene():
            world = with_script(ack(), [error("INTERNAL_ERROR", "over")], HANGS)
            async with world.connect() as session:
                with pytest.raises(VcpRefusedError, match="over"):
                    await session.send_context({"categorical": WIRE})
                with pytest.raises(VcpRefusedError, match="over"):
                    await session.send_context({"categorical": WIRE})
                await asyncio.sleep(60)
            assert len(world.server.said) == 2

        run_simulated(scene)


class TestContext:
    @staticmethod
    def test_a_request_is_answered():
        async def scene():
            async with with_server().connect(PERSONAL) as session:
                answer = await session.send_context(
                    {"categorical": {"wire": WIRE}, "personal": PERSONAL_DATA, "version": "1.0"}
                )
                assert answer.message["accepted"] == ["categorical", "personal"]
                assert answer.message["ignored"] == []
                assert answer.message["session_id"] == session.id
                assert answer.message["model_safe_context"]["session_active"] is True
                assert answer.withheld == ()

        run_simulated(scene)

    @staticmethod
    def test_what_is_inactive_stays_here_and_is_reported():
        async def scene():
            world = with_server(registry=registry(TORCH))
            async with world.connect(PERSONAL, TORCH) as session:
                answer = await session.send_context(
                    {
                        "categorical": WIRE,
                        "personal": PERSONAL_DATA,
                        "extensions": {TORCH: {"a": 1}, RELATIONAL: {"b": 2}},
                        "strange": 1,
                    }
                )
                assert {ignored.field for ignored in answer.withheld} == {
                    "personal",
                    f"extensions.{RELATIONAL}",
                    "strange",
                }
                assert all(ignored.reason for ignored in answer.withheld)
            assert world.server.said[-1] == {
                "version": "3.1",
                "categorical": WIRE,
                "extensions": {TORCH: {"a": 1}},
            }

        run_simulated(scene)

    @staticmethod
    @pytest.mark.parametrize("request_", [{}, {"version": "3.1"}, {"personal": PERSONAL_DATA}])
    def test_a_request_of_which_nothing_is_left_is_not_sent(request_):
        async def scene():
            world = with_server()
            async with world.connect() as session:
                with pytest.raises(InvalidError, match="nothing of the request"):
                    await session.send_context(request_)
            assert len(world.server.said) == 1

        run_simulated(scene)

    @staticmethod
    def test_what_is_no_json_or_too_large_is_refused_here_and_the_session_goes_on():
        async def scene():
            async with with_server().connect() as session:
                with pytest.raises(InvalidError, match="JSON"):
                    await session.send_context({"categorical": {1, 2}})
                with pytest.raises(TooLargeError):
                    await session.send_context({"categorical": "x" * (1 << 20)})
                assert await session.send_context({"categorical": WIRE})

        run_simulated(scene)

    @staticmethod
    def test_a_refusal_names_code_message_and_field():
        async def scene():
            async with with_server().connect() as session:
                with pytest.raises(ContextError) as refusal:
                    await session.send_context({"generation_preferences": {"depth": 9}})
                assert refusal.value.wire_code == "INVALID"
                assert refusal.value.field == "generation_preferences.depth"
                assert await session.send_context({"generation_preferences": {"depth": 5}})

        run_simulated(scene)

    @staticmethod
    @pytest.mark.parametrize("answer", [b"[]", b"{", b"1", b'{"a":1,"a":2}'])
    def test_an_answer_that_is_no_object_is_of_no_use(answer):
        async def scene():
            async with with_script(ack(), answer).connect() as session:
                with pytest.raises(UnusableAnswerError):
                    await session.send_context({"categorical": WIRE})

        run_simulated(scene)

    @staticmethod
    @pytest.mark.parametrize("fault", [None, 1, {"code": 1, "message": ["x"]}])
    def test_an_error_of_any_shape_is_a_refusal(fault):
        async def scene():
            async with with_script(ack(), {"error": fault}).connect() as session:
                with pytest.raises(ContextError, match="no reason"):
                    await session.send_context({"categorical": WIRE})

        run_simulated(scene)

    @staticmethod
    def test_each_answer_reaches_its_own_request_also_when_one_stopped_waiting():
        async def scene():
            class Late(Script):
                async def serve(self, link):
                    await link.receive()
                    await link.send(json.dumps(ack()).encode())
                    for _ in range(4):
                        wanted = json.loads(await link.receive())
                        await asyncio.sleep(20)
                        await link.send(json.dumps({"echo": wanted["constitution"]}).encode())

            world = Simulation(Late(SimulatedClock()))
            async with world.connect(answer_seconds=25) as session:

                async def say(text):
                    return (await session.send_context({"constitution": text})).message["echo"]

                assert await say("one") == "one"
                two = asyncio.create_task(say("two"))
                await asyncio.sleep(1)
                two.cancel()
                with pytest.raises(NoAnswerError, match="25 seconds"):
                    await say("three")
                await asyncio.sleep(10)
                assert await say("four") == "four"

        run_simulated(scene)

    @staticmethod
    def test_what_nobody_wants_said_any_more_is_not_sent():
        async def scene():
            world = with_server()
            async with world.connect() as session:
                for _ in range(20):
                    unwanted = asyncio.create_task(session.send_context({"constitution": "unwanted"}))
                    await asyncio.sleep(0)
                    unwanted.cancel()
                assert await session.send_context({"constitution": "wanted"})
            assert [message["constitution"] for message in world.server.said[1:]] == ["wanted"]

        run_simulated(scene)

    @staticmethod
    def test_many_at_once_are_held_back_so_that_no_server_is_flooded():
        async def scene():
            world = with_server()
            async with world.connect() as session:
                texts = [f"be kind {number}" for number in range(100)]
                answers = await asyncio.gather(
                    *(session.send_context({"constitution": text}) for text in texts)
                )
                assert all(answer.message["accepted"] == ["constitution"] for answer in answers)
            assert [message["constitution"] for message in world.server.said[1:]] == texts

        run_simulated(scene)

    @staticmethod
    def test_a_connection_that_ends_fails_all_who_wait_and_those_who_wait_for_a_turn():
        async def scene():
            world = with_script(ack(), *[HANGS] * 7, None)
            async with world.connect() as session:
                outcomes = await asyncio.gather(
                    *(session.send_context({"categorical": WIRE}) for _ in range(30)), return_exceptions=True
                )
                assert len(outcomes) == 30
                assert all(isinstance(outcome, NoAnswerError | UnreachableError) for outcome in outcomes)
                assert sum(isinstance(outcome, NoAnswerError) for outcome in outcomes) == 8
                with pytest.raises(UnreachableError, match="connect again"):
                    await session.send_context({"categorical": WIRE})

        run_simulated(scene)

    @staticmethod
    def test_messages_that_nobody_asked_for_are_dropped():
        async def scene():
            world = with_script([ack(), {"unasked": 1}], RESPONSE)
            async with world.connect() as session:
                await asyncio.sleep(1)
                assert (await session.send_context({"categorical": WIRE})).message == RESPONSE

        run_simulated(scene)

    @staticmethod
    def test_a_second_ack_ends_the_session():
        async def scene():
            async with with_script([ack(), ack()]).connect() as session:
                await asyncio.sleep(1)
                assert not session.active
                with pytest.raises(ComityError):
                    await session.send_context({"categorical": WIRE})

        run_simulated(scene)


class TestMemory:
    """Behaviour 11 of vcp 10: the answer before this one."""

    @staticmethod
    async def _visit(store, answer, *extensions, **options):
        record = Recorder(store, SimulatedClock(), audited=False)
        async with with_script(answer).connect(*extensions, store=store, record=record, **options) as session:
            return [alert.name for alert in session.alerts]

    def test_what_shrinks_is_told_once(self):
        async def scene():
            store = MemoryStore(SimulatedClock())
            rich = ack(PERSONAL, capabilities={PERSONAL: {"levels": [1, 2]}}, session_id="ses_secret")
            poor = ack(unsupported=[PERSONAL], core_features={"encryption": False}, version="3.0")
            assert await self._visit(store, rich, PERSONAL) == []
            result = await self._visit(store, poor, PERSONAL)
            assert {"3.0", "encryption", PERSONAL} <= set(result)
            assert await self._visit(store, poor, PERSONAL) == []
            assert b"ses_secret" not in (await store.scan("vcp:acks"))[0][1].value

        run_simulated(scene)

    def test_without_a_store_it_is_kept_in_the_data_folder(self, tmp_path, monkeypatch):
        async def visit(answer, **options):
            async with with_script(answer).connect(PERSONAL, remember=True, **options) as session:
                return [alert.name for alert in session.alerts]

        async def scene():
            monkeypatch.setenv("COMITY_DATA", str(tmp_path / "by-default"))
            rich, poor = ack(PERSONAL), ack(unsupported=[PERSONAL])
            for options in ({}, {"data": tmp_path / "named"}, {"data": str(tmp_path / "spelled")}):
                assert await visit(rich, **options) == []
                assert await visit(poor, **options) == [PERSONAL]
                assert await visit(poor, **options) == []
            assert {path.name for path in tmp_path.iterdir()} == {"by-default", "named", "spelled"}

        run_simulated(scene)

    def test_a_folder_that_cannot_be_used_only_costs_the_memory(self, tmp_path, caplog):
        async def scene():
            (tmp_path / "file").write_text("x")
            (tmp_path / "odd").mkdir()
            (tmp_path / "odd" / "vcp-acks.json").write_text("[nonsense")
            for folder in ("file", "odd"):
                async with with_script(ack()).connect(data=tmp_path / folder) as session:
                    assert session.alerts == ()
            assert "not remembered" in caplog.text
            assert "cannot be read" in caplog.text

        run_simulated(scene)

    def test_a_capability_that_shrinks_is_told(self):
        async def scene():
            store = MemoryStore(SimulatedClock())
            await self._visit(store, ack(PERSONAL, capabilities={PERSONAL: {"levels": [1, 2]}}), PERSONAL)
            less = ack(PERSONAL, capabilities={PERSONAL: {"levels": [1]}})
            assert await self._visit(store, less, PERSONAL) == [f"{PERSONAL}.levels"]

        run_simulated(scene)

    def test_what_was_not_asked_for_in_between_is_still_remembered(self):
        async def scene():
            store = MemoryStore(SimulatedClock())
            await self._visit(store, ack(PERSONAL, TORCH), PERSONAL, TORCH)
            assert await self._visit(store, ack()) == []
            assert await self._visit(store, ack(PERSONAL, unsupported=[TORCH]), PERSONAL, TORCH) == [TORCH]

        run_simulated(scene)

    def test_who_asks_for_an_older_version_is_not_alarmed_by_it(self):
        async def scene():
            store = MemoryStore(SimulatedClock())
            await self._visit(store, ack())
            old = ack(version="1.0", core_features=NO_FEATURES)
            assert await self._visit(store, old, version="2.0") == []
            assert await self._visit(store, ack()) == []

        run_simulated(scene)

    def test_each_server_has_its_own_memory(self):
        async def scene():
            store = MemoryStore(SimulatedClock())
            await self._visit(store, ack())
            poor = ack(core_features=NO_FEATURES)
            assert await self._visit(store, poor, url="ws://127.0.0.1:8421/vcp") == []
            assert await self._visit(store, poor, url="http://127.0.0.1:8420") != []

        run_simulated(scene)

    @pytest.mark.parametrize("stored", [b"{", b"\xff", b"[]", b'{"type":"vcp-ack"}', b"null"])
    def test_a_record_that_cannot_be_read_is_no_memory_and_is_replaced(self, stored, caplog):
        async def scene():
            store = MemoryStore(SimulatedClock())
            await self._visit(store, ack())
            ((key, _),) = await store.scan("vcp:acks")
            await store.commit(Put(space="vcp:acks", key=key, value=stored))
            assert await self._visit(store, ack()) == []
            assert (await store.get("vcp:acks", key)).value != stored

        run_simulated(scene)
        assert "cannot be read" in caplog.text

    def test_the_same_answer_is_written_once(self):
        async def scene():
            store = MemoryStore(SimulatedClock())
            await self._visit(store, ack(session_id="ses_1"))
            await self._visit(store, ack(session_id="ses_2"))
            ((_, kept),) = await store.scan("vcp:acks")
            assert kept.version == 1

        run_simulated(scene)
