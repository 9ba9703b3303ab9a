"""The nine resources: who finds what in the lists, who may read it, and what is in it."""

import json

import pytest

from comity.identity.protocol.revocation import Denylist, RevocationStatus, Source, Status
from comity.identity.protocol.tokens import IdentityMode, log_prefix
from comity.store.memory import MemoryStore
from comity.store.vault import Vault
from comity.testing import VirtualClock
from comity.vcp.contexts import Contexts, UnreadableContextError
from comity.vcp.extension_host import Owner, ResourceReader
from comity.vcp.identity import IdentityChecker
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.built_in import BUILT_IN, addresses
from comity.vcp.protocol.context import after, constitution_id, read_request
from comity.vcp.protocol.negotiation import ServerPolicy
from comity.vcp.protocol.resource_addresses import core_templates
from comity.vcp.protocol.signals import CATEGORIES
from comity.vcp.resources import VcpResources, may_watch
from comity.vcp.sessions import LiveSessions, RunningFeatures
from comity.vcp.tool_handlers import InactiveExtensionError, RevocationUnknownError, RevokedError
from comity.wire.errors import ForbiddenError, InvalidError, NotFoundError
from tests.vcp.runtime import ALICE, ISSUERS, PERSONAL, RELATIONAL, VAULT_KEY, WIRE, registry, token

BOB = Identity(issuer="creed", subject="bob", owner="creed:user:bob")
STRUCTURAL = Identity(issuer="creed", subject="alice")
NOBODY = Owner()
CONSTITUTION = "Be kind to children."
EXTENSIONS = [address.extension for address in addresses().values()]
IDS = {"consensus": "delib_1"}


def a_session(id_, identity=None):
    return Session(
        id=id_, version="3.1", extensions=(PERSONAL,), core_features={"encryption": True}, identity=identity
    )


class NodeRuntime:
    def __init__(self):
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.vault = Vault([VAULT_KEY])
        self.sessions = LiveSessions()
        self.contexts = Contexts(self.store, self.clock)
        self.denied = Denylist()
        features = RunningFeatures(self.clock, vault=lambda: self.vault)
        self.resources = VcpResources(
            policy=ServerPolicy(
                core_features=features.running(), registry=registry(), environment="test", server_id="here"
            ),
            features=features,
            sessions=self.sessions,
            contexts=self.contexts,
            vault=lambda: self.vault,
            checker=IdentityChecker(
                self.clock, mode=IdentityMode.VERIFIED, issuers=ISSUERS, denylist=lambda: self.denied
            ),
        )

    async def open(self, id_, identity=None, **result):
        session = a_session(id_, identity)
        self.sessions.began(session)
        request = read_request({"categorical": WIRE, **result}, session)
        before = await self.contexts.read(session, self.vault)
        context = after(before.context, request)
        operations = self.contexts.keeping(session, request, before, context, self.vault)
        await self.store.commit(*operations)
        return session

    async def uris(self, owner, active=()):
        return [entry["uri"] for entry in await self.resources.list(owner, active)]

    async def read(self, uri, owner=NOBODY, active=()):
        (content,) = (await self.resources.read(uri, owner, active)).contents
        assert (content["uri"], content["mimeType"]) == (uri, "application/json")
        return json.loads(content["text"])

    def add_readers(self):
        for host in addresses():
            self.resources.readers[host] = ResourceReader(_read_of(host), _ids_of(host))


class Unsure:
    """A checker whose lists cannot be had."""

    async def still_good(self, jtis, identity):
        return RevocationStatus(Status.UNKNOWN, Source.FAIL_CLOSED, "no answer")


def _read_of(host):
    async def read(id_, owner):
        return {"of": host, "id": id_}

    return read


def _ids_of(host):
    async def ids(owner):
        return [IDS.get(host, "ses_1")]

    return ids


def test_every_extension_has_one_address():
    assert sorted(address.extension for address in addresses().values()) == sorted(BUILT_IN)


class TestTheLists:
    async def test_show_a_stranger_what_everybody_has(self):
        runtime = NodeRuntime()
        await runtime.open("ses_1", ALICE)
        assert await runtime.uris(NOBODY) == ["vcp://capabilities"]
        assert await runtime.uris(Owner(identity=STRUCTURAL)) == ["vcp://capabilities"]
        assert [one["uriTemplate"] for one in core_templates()] == [
            "vcp://bundle/{session_id}",
            "vcp://identity/{token}",
            "vcp://constitution/{csm1_code}",
        ]

    async def test_show_an_owner_its_own_sessions_and_nobody_elses(self):
        runtime = NodeRuntime()
        one, two = await runtime.open("ses_1", ALICE), await runtime.open("ses_2", ALICE)
        await runtime.open("ses_3", BOB)
        await runtime.open("ses_4", STRUCTURAL)
        await runtime.open("ses_5")
        own = [f"vcp://bundle/{session.id}" for session in (one, two)]
        assert await runtime.uris(Owner(identity=ALICE)) == ["vcp://capabilities", *own]
        with_session = Owner(identity=ALICE, session=two, token_prefix=log_prefix(token()))
        assert sorted(await runtime.uris(with_session)) == sorted(
            ["vcp://capabilities", *own, f"vcp://identity/{log_prefix(token())}"]
        )

    async def test_show_a_session_that_nobody_owns_to_itself(self):
        runtime = NodeRuntime()
        session = await runtime.open("ses_1")
        assert await runtime.uris(Owner(session=session)) == ["vcp://capabilities", "vcp://bundle/ses_1"]

    async def test_show_an_extension_while_it_is_active(self):
        runtime = NodeRuntime()
        runtime.add_readers()
        for host, address in addresses().items():
            uri = f"vcp://{host}/{IDS.get(host, 'ses_1')}"
            assert await runtime.uris(NOBODY, [address.extension]) == ["vcp://capabilities", uri]
        assert await runtime.uris(NOBODY) == ["vcp://capabilities"]

    async def test_do_not_show_an_extension_that_nobody_implements(self):
        runtime = NodeRuntime()
        assert await runtime.uris(NOBODY, EXTENSIONS) == ["vcp://capabilities"]

    async def test_write_an_id_so_that_it_can_be_read(self):
        runtime = NodeRuntime()
        session = await runtime.open("a/b c%20")
        owner = Owner(session=session)
        _, uri = await runtime.uris(owner)
        assert (await runtime.read(uri, owner))["session_id"] == "a/b c%20"


class TestABundle:
    async def test_holds_what_a_model_may_see_and_no_signal(self):
        runtime = NodeRuntime()
        await runtime.open(
            "ses_1",
            ALICE,
            constitution=CONSTITUTION,
            generation_preferences={"depth": 4},
            personal={"body_signals": {"category": "pain", "intensity": 4}},
        )
        result = await runtime.read("vcp://bundle/ses_1", Owner(identity=ALICE))
        assert result == {
            "session_id": "ses_1",
            "session_active": True,
            "version": "3.1",
            "extensions": [PERSONAL],
            "core_features": {"encryption": True},
            "identity": {"issuer": "creed", "subject": "alice", "verified": True},
            "constitution": {"id": constitution_id(CONSTITUTION), "text": CONSTITUTION},
            "generation_preferences": {
                "depth": 4,
                "formality": None,
                "directness": None,
                "technical_level": None,
            },
            "model_safe_context": {
                "protection_level": "elevated",
                "formality_level": None,
                "domain": "medical",
                "session_active": True,
            },
        }
        words = {word for words in CATEGORIES.values() for word in words}
        assert not [word for word in words if f'"{word}"' in json.dumps(result)]

    async def test_of_a_session_that_nobody_owns_is_for_that_session_only(self):
        runtime = NodeRuntime()
        session = await runtime.open("ses_1", constitution=CONSTITUTION)
        result = await runtime.read("vcp://bundle/ses_1", Owner(session=session))
        assert (result["identity"], result["constitution"]["text"]) == (None, CONSTITUTION)
        for other in (NOBODY, Owner(identity=ALICE), Owner(session=a_session("ses_2"))):
            with pytest.raises(ForbiddenError):
                await runtime.read("vcp://bundle/ses_1", other)

    @pytest.mark.parametrize("ended", [False, True])
    async def test_of_somebody_else_is_refused_also_when_the_session_has_ended(self, ended):
        runtime = NodeRuntime()
        session = await runtime.open("ses_1", ALICE)
        if ended:
            runtime.sessions.ended(session)
        for other in (NOBODY, Owner(identity=BOB), Owner(identity=STRUCTURAL)):
            with pytest.raises(ForbiddenError):
                await runtime.read("vcp://bundle/ses_1", other)

    async def test_of_a_session_that_has_ended_is_kept_for_its_owner(self):
        runtime = NodeRuntime()
        runtime.sessions.ended(await runtime.open("ses_1", ALICE, constitution=CONSTITUTION))
        result = await runtime.read("vcp://bundle/ses_1", Owner(identity=ALICE))
        assert (result["session_active"], result["constitution"]["text"]) == (False, CONSTITUTION)
        assert not result["model_safe_context"]["session_active"]
        assert "version" not in result

    async def test_of_no_session_is_not_found(self):
        with pytest.raises(NotFoundError):
            await NodeRuntime().read("vcp://bundle/ses_1", Owner(identity=ALICE))

    @pytest.mark.parametrize(
        "denied",
        [
            Denylist(jtis=frozenset({"ses_1"})),
            Denylist(jtis=frozenset({constitution_id(CONSTITUTION)})),
            Denylist(bundle_ids=frozenset({"creed:alice"})),
        ],
    )
    async def test_that_is_revoked_is_refused(self, denied):
        runtime = NodeRuntime()
        await runtime.open("ses_1", ALICE, constitution=CONSTITUTION)
        runtime.denied = denied
        with pytest.raises(RevokedError, match="Bundle has been revoked: "):
            await runtime.read("vcp://bundle/ses_1", Owner(identity=ALICE))

    async def test_is_refused_with_another_sentence_when_nobody_can_tell(self):
        runtime = NodeRuntime()
        await runtime.open("ses_1", ALICE)
        runtime.resources._checker = Unsure()
        with pytest.raises(RevocationUnknownError, match="list of its issuer was not available"):
            await runtime.read("vcp://bundle/ses_1", Owner(identity=ALICE))

    async def test_is_not_even_opened_when_its_session_is_revoked(self):
        runtime = NodeRuntime()
        await runtime.open("ses_1", ALICE)
        runtime.vault = Vault([], environment="test")
        with pytest.raises(UnreadableContextError):
            await runtime.read("vcp://bundle/ses_1", Owner(identity=ALICE))
        runtime.denied = Denylist(jtis=frozenset({"ses_1"}))
        with pytest.raises(RevokedError):
            await runtime.read("vcp://bundle/ses_1", Owner(identity=ALICE))


class TestAnIdentity:
    async def test_is_read_by_the_beginning_of_its_tokens_id_by_whoever_came_with_it(self):
        runtime = NodeRuntime()
        prefix = log_prefix(token())
        owner = Owner(identity=ALICE, token_prefix=prefix)
        assert await runtime.read(f"vcp://identity/{prefix}", owner) == {
            "token_prefix": prefix,
            "identity": {"issuer": "creed", "subject": "alice", "verified": True},
        }
        for other in (
            NOBODY,
            Owner(identity=BOB, token_prefix=log_prefix(token("bob"))),
            Owner(token_prefix=prefix),
        ):
            with pytest.raises(NotFoundError):
                await runtime.read(f"vcp://identity/{prefix}", other)

    async def test_token_of_values_is_read_by_everybody(self):
        runtime = NodeRuntime()
        result = await runtime.read("vcp://identity/family.safe.guide@1.2.0")
        assert (result["valid"], result["full"]) == (True, "family.safe.guide@1.2.0")
        assert not (await runtime.read("vcp://identity/nonsense"))["valid"]

    @pytest.mark.parametrize(
        "credential", [token(), "VCP-I:creed:x", "vcp:i:creed:user_42", "vcp-i%3Acreed%3Auser"]
    )
    async def test_token_that_is_a_credential_has_no_place_in_an_address(self, credential):
        with pytest.raises(InvalidError) as refusal:
            await NodeRuntime().read(f"vcp://identity/{credential}", Owner(identity=ALICE))
        assert "creed" not in refusal.value.message


class TestTheOthers:
    async def test_capabilities_are_for_everybody(self):
        result = await NodeRuntime().read("vcp://capabilities")
        assert (result["server_id"], result["versions"]) == ("here", ["1.0", "2.0", "3.0", "3.1"])
        assert list(result["extensions"]) == [PERSONAL, RELATIONAL]
        assert result["extensions"][PERSONAL]["max_intensity"] == 5
        assert result["core_features"]["encryption"] is True

    @pytest.mark.parametrize("code", ["N5+F+E:ELEM@1.2.0", "N5%2BF%2BE%3AELEM%401.2.0"])
    async def test_a_constitution_is_told_by_its_code(self, code):
        result = await NodeRuntime().read(f"vcp://constitution/{code}")
        assert (result["persona_name"], result["canonical"]) == ("nanny", "N5+E+F:ELEM@1.2.0")

    async def test_a_compact_code_can_stand_in_an_address(self):
        result = await NodeRuntime().read("vcp://constitution/CS1%7Cnanny%7C5%7Cfamily.safe.guide%7CF")
        assert result["token"] == "family.safe.guide"

    async def test_a_constitution_without_a_code_is_refused_by_its_label(self):
        with pytest.raises(InvalidError, match="invalid_persona"):
            await NodeRuntime().read("vcp://constitution/R4+E")

    @pytest.mark.parametrize(
        "uri",
        [
            *(
                "",
                "vcp://",
                "vcp://bundle",
                "vcp://bundle/",
                "vcp://identity/",
                "vcp://constitution",
                "vcp:bundle/x",
            ),
            *(
                "vcp://capabilities/x",
                "vcp://elsewhere/x",
                "VCP://capabilities",
                "http://bundle/x",
                "vcp://" + "a" * 9000,
            ),
            "vcp://identity/" + "a" * 9000,
        ],
    )
    async def test_what_is_no_address_is_not_found(self, uri):
        with pytest.raises(NotFoundError):
            await NodeRuntime().resources.read(uri, Owner(identity=ALICE), EXTENSIONS)


class TestAnExtension:
    @pytest.mark.parametrize("host", [*addresses(), "deliberation"])
    async def test_that_is_not_active_or_not_there_is_refused_with_the_remedy(self, host):
        runtime = NodeRuntime()
        session = await runtime.open("ses_1", ALICE)
        extension = addresses()["consensus" if host == "deliberation" else host].extension
        said = f"Extension {extension} is not active. Re-initialize with the extension in your VCP-Hello"
        owner = Owner(identity=ALICE, session=session)
        with pytest.raises(InactiveExtensionError) as refusal:
            await runtime.read(f"vcp://{host}/ses_1", owner, EXTENSIONS)
        assert refusal.value.message == said
        runtime.add_readers()
        others = [other for other in EXTENSIONS if other != extension]
        with pytest.raises(InactiveExtensionError) as refusal:
            await runtime.read(f"vcp://{host}/ses_1", owner, others)
        assert refusal.value.message == said

    async def test_reads_what_belongs_to_a_session_for_its_owner_only(self):
        runtime = NodeRuntime()
        runtime.add_readers()
        session = await runtime.open("ses_1", ALICE)
        for host in ("personal-state", "relational", "torch", "intent"):
            uri = f"vcp://{host}/ses_1"
            for owner in (Owner(identity=ALICE), Owner(session=session)):
                assert await runtime.read(uri, owner, EXTENSIONS) == {"of": host, "id": "ses_1"}
            for owner in (NOBODY, Owner(identity=BOB), Owner(identity=STRUCTURAL)):
                with pytest.raises(ForbiddenError):
                    await runtime.read(uri, owner, EXTENSIONS)
            with pytest.raises(NotFoundError):
                await runtime.read(f"vcp://{host}/ses_2", Owner(identity=ALICE), EXTENSIONS)

    async def test_reads_a_deliberation_under_both_names(self):
        runtime = NodeRuntime()
        runtime.add_readers()
        for host in ("consensus", "deliberation"):
            assert await runtime.read(f"vcp://{host}/delib_1", NOBODY, EXTENSIONS) == {
                "of": "consensus",
                "id": "delib_1",
            }
            with pytest.raises(NotFoundError):
                await runtime.read(f"vcp://{host}/", NOBODY, EXTENSIONS)


class TestSubscriptions:
    @pytest.mark.parametrize(
        "uri",
        [
            "vcp://",
            "vcp://nonsense",
            "vcp://nonsense/ses_1",
            "vcp://capabilities/x",
            "vcp://bundle",
            "vcp://bundle/",
            "vcp://bundle/ses_2",
            "vcp://constitution/nonsense",
            "vcp://identity/",
            "vcp://identity/0123abcd",
            "vcp://torch/ses_2",
            "vcp://consensus/",
            "vcp://capabilities\n",
            "other://capabilities",
            "vcp://bundle/" + "x" * 5000,
        ],
    )
    async def test_to_what_is_not_there_or_not_ones_own_are_refused(self, uri):
        session = await NodeRuntime().open("ses_1", ALICE)
        assert not may_watch(uri, Owner(identity=ALICE, session=session, token_prefix="ffffffff"), EXTENSIONS)

    @pytest.mark.parametrize(
        "uri",
        [
            "vcp://capabilities",
            "vcp://bundle/ses_1",
            "vcp://constitution/N5%2BE%2BF",
            "vcp://identity/family.safe.guide",
            "vcp://identity/0123abcd",
            *(f"vcp://{host}/ses_1" for host in addresses()),
            "vcp://deliberation/d",
        ],
    )
    async def test_to_what_one_may_read_are_taken_while_its_extension_is_active(self, uri):
        session = await NodeRuntime().open("ses_1", ALICE)
        owner = Owner(identity=ALICE, session=session, token_prefix="0123abcd")
        assert may_watch(uri, owner, EXTENSIONS)
        of_extension = uri.split("/")[2] in {*addresses(), "deliberation"}
        assert may_watch(uri, owner, ()) is not of_extension
