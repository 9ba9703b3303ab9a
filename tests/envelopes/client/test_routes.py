"""The ways to a target: which are tried, in which order, and what counts as a way."""

import pytest

from comity.envelopes.client.routes import AnyOf, PinnedCard, doors_of, endpoints_of, pinned
from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from comity.envelopes.protocol.errors import EnvelopeSignatureError
from comity.http.client import GuardedHttp, HttpResponse
from comity.identity.protocol.keys import SigningKey
from comity.wire.errors import NoAnswerError, PinRefusedError, TargetRefusedError, UnreachableError

PIN = "ab" * 32
KEY = SigningKey.from_seed(bytes(32))
SEND = "/a2a/message/send"
OWN = "http://127.0.0.1:8420" + SEND
PUBLIC = "https://agent.example" + SEND


def card(endpoint=OWN, **outside):
    policy = {
        "outside": {"addresses": ["https://8.8.4.4:8421", "https://10.1.1.2:8421"], "pin": PIN, **outside}
    }
    made = CapabilityCard(
        vacant_id=KEY.vacant_id,
        capability_text="echo",
        substrate_spec=SubstrateSpec(policy=policy),
        endpoint=endpoint,
    )
    return made.signed(KEY)


def door(host):
    return f"https://{PIN}@{host}{SEND}"


def test_an_endpoint_of_another_machine_itself_comes_after_the_doors():
    doors = (door("8.8.4.4:8421"), door("10.1.1.2:8421"))
    assert endpoints_of(card(), named=True) == (*doors, OWN)
    assert endpoints_of(card("https://8.8.8.8" + SEND), named=True) == ("https://8.8.8.8" + SEND, *doors)


def test_of_an_agent_that_was_not_named_only_public_doors_are_tried():
    assert endpoints_of(card(), named=False) == (door("8.8.4.4:8421"), OWN)
    assert endpoints_of(card(addresses=["https://name.example"]), named=False) == (OWN,)


def test_a_card_without_a_good_signature_has_no_way():
    made = card()
    forged = CapabilityCard(
        vacant_id=made.vacant_id,
        capability_text="echo",
        substrate_spec=SubstrateSpec(policy={"outside": {"addresses": ["https://8.8.4.4"], "pin": PIN}}),
        endpoint=OWN,
        signature=made.signature,
    )
    with pytest.raises(EnvelopeSignatureError):
        endpoints_of(forged, named=True)


def test_a_card_that_was_read_under_a_pin_is_called_there_alone():
    found = pinned(card(PUBLIC), [f"https://{PIN}@10.1.1.9:8421"])
    assert isinstance(found, PinnedCard)
    assert found.verify()
    assert endpoints_of(found, named=False) == (door("10.1.1.9:8421"),)
    assert pinned(card(PUBLIC), ["https://agent.example"]) == card(PUBLIC)


@pytest.mark.parametrize(
    "outside",
    [
        {"pin": PIN.upper()},
        {"pin": None},
        {"addresses": "https://8.8.4.4"},
        {"addresses": [None, 7, {}]},
        {"addresses": ["http://8.8.4.4"]},
        {"addresses": [f"https://{PIN}@8.8.4.4"]},
        {"addresses": ["https://user:word@8.8.4.4"]},
        {"addresses": ["https://8.8.4.4/path"]},
        {"addresses": ["https://127.0.0.1:8421", "https://localhost:8421"]},
        {"addresses": ["https://"]},
    ],
)
def test_what_is_no_door_is_passed_over(outside):
    assert doors_of(card(**outside)) == ()


def test_there_are_at_most_eight_doors():
    assert len(doors_of(card(addresses=[f"https://8.8.4.{n}" for n in range(20)]))) == 8


async def test_a_pin_in_an_endpoint_of_a_card_admits_no_private_address():
    http = GuardedHttp(timeout=5)
    with pytest.raises(TargetRefusedError, match="private"):
        await http.request("POST", door("10.1.1.2:8421"), {})
    await http.aclose()


class Scripted:
    """Answers by URL: a failure is raised, a number is a status."""

    def __init__(self, **script):
        self.script = script
        self.asked = []

    async def request(self, method, url, json=None, headers=None, *, body=None):
        self.asked.append(url)
        said = self.script[url]
        if isinstance(said, Exception):
            raise said
        return HttpResponse(said, {}, b"")


async def test_the_first_way_that_can_be_reached_is_taken_and_kept():
    http = Scripted(a=UnreachableError("a"), b=TargetRefusedError("b"), c=PinRefusedError("c"), d=200, e=200)
    ways = AnyOf(http, list("abcde"))
    assert (await ways.request("POST", "x")).status == 200
    assert (await ways.request("POST", "x")).status == 200
    assert http.asked == ["a", "b", "c", "d", "d"]


async def test_a_way_that_may_have_taken_the_request_is_the_last_one():
    http = Scripted(a=NoAnswerError("a"), b=200)
    with pytest.raises(NoAnswerError):
        await AnyOf(http, ["a", "b"]).request("POST", "x")
    assert http.asked == ["a"]


async def test_another_key_is_what_is_reported_where_nothing_could_be_reached():
    http = Scripted(a=UnreachableError("a"), b=PinRefusedError("b"), c=UnreachableError("c"))
    with pytest.raises(PinRefusedError):
        await AnyOf(http, ["a", "b", "c"]).request("POST", "x")
