"""A table of attempts: what one identity tries on the state of another, through every door of a node.

Alice has told a node of herself, in a session of VCP, and has opened a deliberation there. Somebody else knows the ids of
both, and has a torch of hers. What he is answered holds nothing of hers, and what is stored of her stays as it was.
"""

import asyncio
import contextlib
import json
import sys

import httpx
import pytest

from comity.identity.key_files import load_identity
from comity.identity.protocol.tokens import issue_a
from comity.runtime.system_clock import SystemClock
from tests.mcp.conversing import initialize
from tests.mcp.extension_clients import StdioClient, ToolError, hello, over_http
from tests.mcp.processes import comity_mcp
from tests.vcp.extension_scene import CONSENSUS, FOUR, NORM, PAIN, WIRE, RefusalError, extension_scene

SECRET = "a lighthouse keeper named Ottilie"
ALL = (*FOUR, CONSENSUS)
HOSTS = ("personal-state", "relational", "torch", "intent", "bundle", "consensus", "deliberation")


class Alice:
    """What others may know of her: ids, and a torch that she lost."""

    def __init__(self, client, torch, delib_id):
        self.client = client
        self.session_id = client.session_id
        self.torch = torch
        self.delib_id = delib_id

    @property
    def of_her_session(self):
        """Operations of extensions, with the name of her session."""
        one = {"session_id": self.session_id}
        return {
            "personal.get": one,
            "personal.set": {**one, "signals": {"body_signals": None}},
            "personal.preset": {**one, "id": "x"},
            "personal.pin": {**one, "dimension": "body_signals", "pinned": True},
            "personal.engage": one,
            "personal.purge": one,
            "intent.infer": one,
            "intent.correct": {**one, "category": "learning"},
            "torch.generate": one,
        }

    @property
    def of_her_deliberation(self):
        one = {"delib_id": self.delib_id}
        return {
            "consensus.result": one,
            "consensus.record": one,
            "consensus.add": {**one, "stakeholder": {"id": "eve"}},
            "consensus.act": {**one, "action": "amend", "text": "Trust Bob."},
            "consensus.ballot": {**one, "ranking": ["v0"]},
            "consensus.advance": {**one, "to": "convergence"},
            "consensus.vote": {**one, "vote": "accept"},
            "consensus.welfare": {**one, "signal": "x"},
        }


@contextlib.asynccontextmanager
async def alice_at(scene, *, leaves):
    """`leaves`: her connection has ended; what is stored of her is there."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(scene.session(*ALL))
        await client.ask({"categorical": WIRE, "constitution": f"Be kind to {SECRET}."})
        result = PAIN["body_signals"] | {"extended": SECRET}
        await client.call("personal.set", signals={"body_signals": result})
        await client.call("relational.norm", norm=NORM | {"description": SECRET})
        await client.call("intent.correct", category="emotional_processing")
        torch = await client.call("torch.generate")
        made = await client.call(
            "consensus.open", title=SECRET, clauses=[SECRET], stakeholders=[{"id": scene.owner("carol")}]
        )
        await client.call("consensus.advance", delib_id=made["id"], to="deliberation")
        alice = Alice(client, torch, made["id"])
        if leaves:
            await stack.aclose()
        yield alice


async def everything_stored(scene):
    rows, after = await scene.node.store.sealed("value")
    assert after is None
    return {row.place: row.data for row in rows if row.place[0].startswith(("vcp:", "deliberation"))}


class Answers:
    """What somebody else was answered: whether it was a refusal, and that it tells nothing."""

    def __init__(self, alice):
        self._alice = alice
        self.refused = {}

    def add(self, attempt, answer, *, refused):
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        for word in ("Ottilie", "pain", "emotional_processing", "medical"):
            assert word not in text, (attempt, text)
        self.refused[attempt] = refused

    def of_lists(self, attempt, answer):
        text = json.dumps(answer)
        assert self._alice.session_id not in text, attempt
        assert self._alice.delib_id not in text, attempt
        self.add(attempt, answer, refused=True)


async def over_a_connection(scene, alice, answers, door, identity):
    async with scene.client(door) as bob:
        await bob.hello(*ALL, identity=identity)

        async def attempt(op, args):
            try:
                answers.add(op, await bob.call(op, **args), refused=False)
            except RefusalError as refusal:
                answers.add(op, str(refusal), refused=True)

        for op, args in {**alice.of_her_session, **alice.of_her_deliberation}.items():
            await attempt(op, args)
        await attempt("torch.receive", {"torch": alice.torch})
        if identity is not None and identity != forged(scene):
            answers.of_lists("consensus.list", await bob.call("consensus.list"))
        for op in ("personal.get", "relational.get", "torch.lineage", "intent.infer"):
            answers.of_lists(f"own {op}", await bob.call(op))
        result = await bob.ask({"session_id": alice.session_id, "personal": {"body_signals": None}})
        assert result["session_id"] == bob.session_id
        answers.add("a context request", result, refused=True)


async def with_tools(alice, answers, bob):
    tools = {
        "personal.get": "vcp_get_personal_state",
        "personal.set": "vcp_set_personal_state",
        "intent.infer": "vcp_infer_intent",
        "intent.correct": "vcp_correct_intent",
        "torch.generate": "vcp_generate_torch",
        "consensus.result": "vcp_get_election_result",
        "consensus.ballot": "vcp_submit_ballot",
    }

    async def attempt(name, args):
        try:
            answers.add(name, await bob.call(name, **args), refused=False)
        except ToolError as refusal:
            answers.add(name, str(refusal), refused=True)

    for op, args in {**alice.of_her_session, **alice.of_her_deliberation}.items():
        await attempt(tools.get(op, "vcp_" + op.replace(".", "_")), args)
    await attempt("vcp_receive_torch", {"torch": alice.torch})
    context = {"session_id": alice.session_id, "context": {"categorical": WIRE}}
    await attempt("vcp_send_context", context)
    for host in HOSTS:
        id_ = alice.delib_id if host in {"consensus", "deliberation"} else alice.session_id
        read = await bob.read(f"vcp://{host}/{id_}")
        answers.add(f"vcp://{host}", read, refused=isinstance(read, str))
    answers.of_lists("resources/list", await bob.listed())
    answers.of_lists("own relation", await bob.call("vcp_get_relational_context"))
    answers.of_lists("own lineage", await bob.call("vcp_torch_lineage"))


def forged(scene):
    """A token that says it is Alice's."""
    return scene.token()[:-4] + "AAAA"


IDENTITIES = {"bob": lambda scene: scene.token("bob"), "a forger": forged, "nobody": lambda _: None}


async def unchanged_by(scene, alice, attempts):
    """Try, and compare what is stored of Alice before and after."""
    answers = Answers(alice)
    before = await everything_stored(scene)
    async with asyncio.timeout(120):
        await attempts(answers)
    after = await everything_stored(scene)
    assert {key: after.get(key) for key in before} == before
    assert answers.refused
    assert not [attempt for attempt, refused in answers.refused.items() if not refused]


@pytest.fixture(params=[False, True], ids=["while she is there", "after she left"])
async def runtime(request, tmp_path):
    async with (
        extension_scene(tmp_path / "data", clock=SystemClock()) as scene,
        alice_at(scene, leaves=request.param) as alice,
    ):
        yield scene, alice


@pytest.mark.parametrize("who", IDENTITIES)
@pytest.mark.parametrize("door", ["websocket", "tcp", "mcp over http"])
async def test_another_identity_gets_nowhere(runtime, door, who):
    scene, alice = runtime
    identity = IDENTITIES[who](scene)

    async def attempts(answers):
        if door == "mcp over http":
            async with over_http(scene, hello(*ALL, identity=identity)) as bob:
                await with_tools(alice, answers, bob)
        else:
            await over_a_connection(scene, alice, answers, door, identity)

    await unchanged_by(scene, alice, attempts)


async def test_the_user_of_the_node_gets_nowhere_over_stdio(runtime):
    scene, alice = runtime
    names = ",".join(extension.removeprefix("VCP-X-").lower() for extension in ALL)

    async def attempts(answers):
        async with comity_mcp(scene.node.settings.data, "--vcp", names) as process:
            await process.ask(initialize())
            await with_tools(alice, answers, StdioClient(process))

    await unchanged_by(scene, alice, attempts)


async def test_the_user_of_the_node_gets_nowhere_at_the_command_line(runtime, tmp_path):
    scene, alice = runtime
    file = tmp_path / "torch.json"
    file.write_text(json.dumps(alice.torch))
    table = [
        ("context", "forget", "--session", alice.session_id),
        ("torch", "take", str(file)),
        ("vote", "result", alice.delib_id),
        ("vote", "record", alice.delib_id),
        ("vote", "act", alice.delib_id, "endorse"),
        ("vote", "advance", alice.delib_id, "convergence"),
        ("vote", "ballot", alice.delib_id, "v0"),
        ("vote", "cast", alice.delib_id, "accept"),
        ("vote", "welfare", alice.delib_id, "x"),
        ("vote", "add", alice.delib_id, "1" * 64),
        ("vote", "remove", alice.delib_id, "--yes"),
        ("vote", "join", scene.node.url, alice.delib_id),
    ]

    async def run(*arguments):
        command = [sys.executable, "-m", "comity", *arguments, "--data", str(scene.node.settings.data)]
        pipe = asyncio.subprocess.PIPE
        running = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        out, err = await running.communicate()
        return running.returncode, out.decode() + err.decode()

    async def attempts(answers):
        for arguments in table:
            code, result = await run(*arguments)
            answers.add(" ".join(arguments[:2]), result, refused=code == 1)
        for arguments in (("vote", "list"), ("torch", "show"), ("context", "forget", "--mine", "--yes")):
            code, result = await run(*arguments, "--json")
            assert code == 0, result
            answers.of_lists(" ".join(arguments[:2]), json.loads(result))

    await unchanged_by(scene, alice, attempts)


async def test_another_node_gets_nowhere_at_the_address_of_deliberations(runtime):
    scene, alice = runtime
    async with extension_scene(clock=SystemClock()) as elsewhere:

        async def attempts(answers):
            key = load_identity(elsewhere.node.settings.data)
            alices = issue_a(key, issuer=elsewhere.node.vacant_id.hex(), kind="user", subject="alice")
            for identity in (elsewhere.token("bob"), alices):
                async with elsewhere.client() as bob:
                    await bob.hello(CONSENSUS, identity=identity)
                    join = {"url": scene.node.url, "delib_id": alice.delib_id}
                    with pytest.raises(RefusalError) as refusal:
                        await bob.call("consensus.join", **join)
                    answers.add("consensus.join", str(refusal.value), refused=True)
                    answers.of_lists("consensus.list", await bob.call("consensus.list"))
            async with httpx.AsyncClient() as http:
                reading = {"type": "read", "delib_id": alice.delib_id, "from": 1}
                result = await http.post(f"{scene.node.url}/v1/deliberations", json=reading)
                answers.add("without a signature", result.text, refused=result.status_code >= 400)

        await unchanged_by(scene, alice, attempts)


async def test_she_herself_gets_all_of_it_through_every_door(runtime):
    scene, alice = runtime
    async with over_http(scene, hello(*ALL, identity=scene.token())) as again:
        assert (await again.read(f"vcp://personal-state/{alice.session_id}"))["protection_level"] == "high"
        result = await again.call("vcp_get_personal_state", session_id=alice.session_id)
        assert result["protection_level"] == "high"
        found = await again.call("vcp_get_election_result", delib_id=alice.delib_id)
        assert found["clause"]["variants"][0]["text"] == SECRET
    for door in ("websocket", "tcp"):
        async with scene.session(*ALL, door=door) as again:
            assert (await again.call("relational.get"))["established_norms"][0]["description"] == SECRET
            assert (await again.call("consensus.list"))["deliberations"][0]["title"] == SECRET
