"""One attempt to join a peer: by ticket where both are on one host, by WebRTC elsewhere."""

import asyncio

import pytest

from comity.rooms.links import joining
from comity.rooms.links.joining import LinkMaker, LinkSettings
from comity.wire.errors import ConfigError, PeerError
from comity.wire.link import LinkClosed

pytestmark = pytest.mark.usefixtures("patience", "only_loopback")


def maker(tickets=None, **settings):
    return LinkMaker(LinkSettings(tickets=tickets, **settings))


async def exchange(left_maker, right_maker):
    """Both sides of one attempt, and what was said between them."""
    telling = []

    def tell(whom):
        return lambda candidate: telling.append(asyncio.ensure_future(whom().add_candidates([candidate])))

    left = left_maker.join(is_offerer=True, candidate=tell(lambda: right))
    right = right_maker.join(is_offerer=False, candidate=tell(lambda: left))
    sdp, ticket = await left.offer()
    answer = await right.answer(sdp, ticket)
    if answer is not None:
        await left.accept(answer)
    links = await asyncio.gather(left.wait_link(), right.wait_link())
    for task in telling:
        task.cancel()
    return left, right, links


async def use(links):
    await links[0].control.send("hello")
    assert await links[1].control.receive() == "hello"


async def close(*things):
    for thing in things:
        await thing.close("the test is over") if hasattr(thing, "offer") else await thing.close()


async def test_on_one_host_the_ticket_is_used(tmp_path):
    one, two = maker(tmp_path / "t"), maker(tmp_path / "t")
    left, right, links = await exchange(one, two)
    assert {(await link.stats()).path for link in links} == {"websocket"}
    await use(links)
    assert list((tmp_path / "t").iterdir()) == []
    await close(left, right, one, two)


@pytest.mark.parametrize("folders", [("a", "b"), ("a", None), (None, "b"), (None, None)])
async def test_who_does_not_find_the_ticket_answers_the_offer(tmp_path, folders):
    one, two = (maker(tmp_path / name if name else None) for name in folders)
    left, right, links = await exchange(one, two)
    await use(links)
    assert {(await link.stats()).path for link in links} <= {"direct", "unknown"}
    await close(left, right, one, two)
    if folders[0]:
        assert list((tmp_path / folders[0]).iterdir()) == []


async def test_without_a_library_peers_on_one_host_are_joined_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(joining, "available_libraries", tuple)
    one, two = maker(tmp_path / "t"), maker(tmp_path / "t")
    left, right, links = await exchange(one, two)
    await use(links)
    await close(left, right, one, two)


async def test_without_a_library_and_without_a_ticket_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(joining, "available_libraries", tuple)
    one, two = maker(tmp_path / "a"), maker(tmp_path / "b")
    left, right = (
        one.join(is_offerer=True, candidate=lambda _found: None),
        two.join(is_offerer=False, candidate=lambda _found: None),
    )
    sdp, ticket = await left.offer()
    assert sdp == ""
    with pytest.raises(PeerError, match="no WebRTC library"):
        await right.answer(sdp, ticket)
    monkeypatch.setattr("comity.rooms.links.webrtc.available_libraries", tuple)
    with pytest.raises(ConfigError, match="pip install"):
        await maker().join(is_offerer=True, candidate=lambda _found: None).offer()
    await close(left, right, one, two)


async def test_a_ticket_of_nobody_is_no_hindrance(tmp_path):
    one, two = maker(), maker(tmp_path / "t")
    left = one.join(is_offerer=True, candidate=lambda _found: None)
    right = two.join(is_offerer=False, candidate=lambda _found: None)
    sdp, _ = await left.offer()
    for ticket in ("ab" * 16, "../../etc/passwd", "127.0.0.1:22"):
        fresh = two.join(is_offerer=False, candidate=lambda _found: None)
        assert await fresh.answer(sdp, ticket) is not None
        await fresh.close("enough")
    await close(left, right, one, two)


async def test_giving_up_ends_every_way_and_leaves_no_ticket(tmp_path):
    one = maker(tmp_path / "t")
    left = one.join(is_offerer=True, candidate=lambda _found: None)
    await left.offer()
    waiting = asyncio.create_task(left.wait_link())
    await asyncio.sleep(0.01)
    await left.close("given up")
    with pytest.raises(LinkClosed):
        await waiting
    assert list((tmp_path / "t").iterdir()) == []
    early = one.join(is_offerer=True, candidate=lambda _found: None)
    offering = asyncio.create_task(early.offer())
    await asyncio.sleep(0)
    await early.close("at once")
    with pytest.raises(LinkClosed, match="at once"):
        await offering
    assert list((tmp_path / "t").iterdir()) == []
    await one.close()


async def test_an_answer_to_an_offer_that_was_not_made_is_refused():
    one = maker()
    left = one.join(is_offerer=True, candidate=lambda _found: None)
    with pytest.raises(PeerError, match="was not made"):
        await left.accept("v=0")
    await one.close()


async def test_candidates_that_come_before_the_description_are_used():
    """Those of the offerer are all that the two have of each other's addresses."""
    found = []
    one, two = maker(library="wrtc"), maker(library="wrtc")
    left = one.join(is_offerer=True, candidate=found.append)
    right = two.join(is_offerer=False, candidate=lambda _found: None)
    sdp, _ = await left.offer()
    assert "a=candidate" not in sdp
    while not found:  # noqa: ASYNC110 - the library tells none when it is done
        await asyncio.sleep(0.01)
    early = asyncio.create_task(right.add_candidates(found))
    await asyncio.sleep(0)
    await left.accept(await right.answer(sdp, None))
    await use(await asyncio.gather(left.wait_link(), right.wait_link()))
    await early
    await close(left, right, one, two)
