"""Two sessions that are linked, and what a test puts on the link between them."""

import pytest

from comity.rooms.protocol.channel import BridgeEnvelope, write_data
from comity.rooms.protocol.effects import TextArrived
from tests.simulation.rooms import OPEN, World

BOTH = pytest.mark.parametrize("own", [True, False], ids=["our nodes", "like the reference"])


def pair(demands=OPEN, own=True, other=None, **options):
    world = World()
    a = world.host("alice", demands=demands, own=own, **options)
    b = world.host("bob", demands=demands if other is None else other, own=own, **options)
    world.run(0.1)
    world.link(a, b)
    world.run(1)
    return world, a, b


def peer_of(host):
    [peer] = host.session.sync_peers(host.world.now)
    return peer


def say(world, frm, to, value, generation=None):
    """Put a raw message on the link; `generation` is that of one that is being closed."""
    generation = generation or world.links[frozenset((frm.name, to.name))]
    data = value if isinstance(value, bytes) else write_data(value)
    to.handle(TextArrived(world.uuid(frm.name, generation), data))


def envelope(kind, payload, frm="alice", ts=10**13, nonce="p_00000001"):
    return BridgeEnvelope(kind=kind, ts=ts, nonce=nonce, room="lab", from_stream_id=frm, payload=payload)


def peer_of_name(host, name):
    return next(peer for peer in host.session.sync_peers(host.world.now) if peer["stream_id"] == name)
