"""Features beside signed calls: what they add travels, is stored with the reply, and never makes a call fail."""

import pytest

from comity.envelopes.features import Features
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.protocol.metadata import members_of_reply, members_of_request, with_members
from comity.wire import strict_json
from comity.wire.errors import InvalidError
from tests.envelopes.client.scene import BOB, Scene, simulated
from tests.envelopes.peers import Caller, Server


class Counting:
    """Adds a number that is another one each time."""

    member, unasked = "witness", False

    def __init__(self, fault=None, *, unasked=False):
        self.fault = fault
        self.unasked = unasked
        self.number = 0
        self.heard = []

    def _next(self):
        if self.fault is not None:
            raise self.fault
        self.number += 1
        return {"number": self.number}

    async def to_request(self, card):
        return self._next()

    async def to_reply(self, peer, given, *, known):
        self.heard.append((given, known))
        return self._next()

    async def take_reply(self, card, given):
        self.heard.append((card.vacant_id, given))


def request(caller, members):
    body = to_a2a_jsonrpc(caller.next())
    body["params"]["message"] = with_members(body["params"]["message"], members)
    return body


async def test_a_repeat_gets_the_bytes_of_the_first_reply_with_what_stood_beside_it(store):
    feature = Counting()
    server, caller = Server(store, features=Features([feature])), Caller()
    body = request(caller, {"witness": {"hello": 1}})
    first = await server.post(body)
    assert members_of_reply(first.json()) == {"witness": {"number": 1}}
    again = await server.post(body)
    assert again.content == first.content
    assert feature.heard == [({"hello": 1}, False)]
    await server.post(request(caller, {"witness": {}}))
    assert feature.heard[-1] == ({}, True)


async def test_who_announces_nothing_gets_nothing(store):
    feature = Counting()
    server = Server(store, features=Features([feature]))
    reply = await server.post(Caller().next())
    assert reply.status_code == 200
    assert members_of_reply(reply.json()) == {}
    assert feature.number == 0


async def test_a_feature_may_add_unasked(store):
    server = Server(store, features=Features([Counting(unasked=True)]))
    assert members_of_reply((await server.post(Caller().next())).json()) == {"witness": {"number": 1}}


@pytest.mark.parametrize("fault", [InvalidError("a bad hint"), RuntimeError("a bug")])
async def test_a_feature_that_fails_costs_its_member_and_not_the_call(store, fault):
    server = Server(store, features=Features([Counting(fault)]))
    reply = await server.post(request(Caller(), {"witness": {"hello": 1}}))
    assert reply.status_code == 200
    assert members_of_reply(reply.json()) == {}


async def test_what_is_too_large_is_not_sent(store):
    feature = Counting()
    feature._next = lambda: {"hashes": "0" * 20_000}
    server = Server(store, features=Features([feature]))
    assert members_of_reply((await server.post(request(Caller(), {"witness": {}}))).json()) == {}


@simulated
async def test_a_caller_sends_its_member_and_takes_that_of_the_verified_reply():
    scene, feature = Scene(), Counting()
    alice = scene.caller(features=Features([feature]))
    scene.bob.members = {"witness": {"of": "bob"}}
    await scene.say(caller=alice)
    assert members_of_request(strict_json.loads(scene.wire.bodies[0])) == {"witness": {"number": 1}}
    assert feature.heard == [(BOB.vacant_id, {"of": "bob"})]


@simulated
async def test_a_caller_whose_feature_fails_still_calls():
    scene = Scene()
    alice = scene.caller(features=Features([Counting(RuntimeError("a bug"))]))
    assert await scene.say(caller=alice) == "echo hello"
    assert members_of_request(strict_json.loads(scene.wire.bodies[0])) == {}
