"""Ancestors and descendants, how deep they go and what they do not show."""

import pytest

from comity.directory.events import NODES
from comity.wire.errors import InvalidError
from tests.directory.publications import agent, hexes, publication

A, B, C, D, E = (agent(name) for name in "abcde")


async def born(directory, key, parent=None, **members):
    parent_id = None if parent is None else parent.vacant_id.hex()
    await directory.publish(publication(key, parent_id=parent_id, **members))


async def relatives(directory, key, direction, **asked):
    told = await directory.ask("lineage", key, direction=direction, **asked)
    assert told["direction"] == direction
    assert told["chain"] == [node["vacant_id"] for node in told["nodes"]]
    return [(node["vacant_id"], node["depth"]) for node in told["nodes"]]


@pytest.fixture
async def family(directory):
    """A → B → (C, D), C → E."""
    for key, parent in ((A, None), (B, A), (C, B), (D, B), (E, C)):
        await born(directory, key, parent)
    return directory


class TestAncestors:
    async def test_come_nearest_first(self, family):
        assert await relatives(family, E, "ancestors") == list(zip(hexes(C, B, A), (1, 2, 3), strict=True))
        assert await relatives(family, A, "ancestors") == []

    async def test_end_at_the_depth_asked_for(self, family):
        assert await relatives(family, E, "ancestors", depth=2) == [*zip(hexes(C, B), (1, 2), strict=True)]

    async def test_are_what_is_meant_when_nobody_says(self, family):
        told = await family.ask("lineage", E)
        assert (told["direction"], len(told["nodes"])) == ("ancestors", 3)

    async def test_end_where_a_parent_is_not_here(self, directory):
        await born(directory, B, A)
        assert await relatives(directory, B, "ancestors") == []

    async def test_end_before_one_that_is_hidden(self, directory):
        await born(directory, A)
        await born(directory, B, A, visibility="NONE")
        await born(directory, C, B)
        assert await relatives(directory, C, "ancestors") == []

    async def test_show_one_that_is_restricted_since_its_child_names_it(self, directory):
        await born(directory, A, visibility="RESTRICTED")
        await born(directory, B, A)
        assert await relatives(directory, B, "ancestors") == [(A.vacant_id.hex(), 1)]


class TestDescendants:
    async def test_come_generation_by_generation(self, family):
        assert await relatives(family, A, "descendants") == [
            *zip(hexes(B, C, D, E), (1, 2, 2, 3), strict=True)
        ]
        assert await relatives(family, E, "descendants") == []

    async def test_end_at_the_depth_asked_for(self, family):
        assert await relatives(family, A, "descendants", depth=1) == [(B.vacant_id.hex(), 1)]

    @pytest.mark.parametrize("quiet", [{"visibility": "NONE"}, {"visibility": "RESTRICTED"}])
    async def test_neither_show_nor_pass_through_what_is_not_public(self, directory, quiet):
        await born(directory, A)
        await born(directory, B, A, **quiet)
        await born(directory, C, B)
        await born(directory, D, A)
        assert await relatives(directory, A, "descendants") == [(D.vacant_id.hex(), 1)]

    async def test_are_no_more_than_one_answer_holds(self, directory):
        await born(directory, A)
        for n in range(NODES + 1):
            await born(directory, agent(n), A)
        told = await directory.ask("lineage", A, direction="descendants")
        assert (len(told["nodes"]), told["truncated"]) == (NODES, True)

    async def test_are_not_called_cut_when_they_all_fit(self, family):
        assert (await family.ask("lineage", A, direction="descendants"))["truncated"] is False


class TestACircle:
    """Nobody is its own parent, but two may call each other so."""

    @pytest.fixture
    async def circle(self, directory):
        for key, parent in ((A, C), (B, A), (C, B), (D, C)):
            await born(directory, key, parent)
        return directory

    async def test_is_walked_once_upwards(self, circle):
        assert await relatives(circle, A, "ancestors") == [*zip(hexes(C, B), (1, 2), strict=True)]
        assert await relatives(circle, D, "ancestors") == [*zip(hexes(C, B, A), (1, 2, 3), strict=True)]

    async def test_is_walked_once_downwards(self, circle):
        found = await relatives(circle, A, "descendants")
        assert found == [*zip(hexes(B, C, D), (1, 2, 3), strict=True)]


async def test_thirty_two_generations_are_the_most(directory):
    line = [agent(n) for n in range(40)]
    for parent, child in zip([None, *line], line, strict=False):
        await born(directory, child, parent)
    assert len(await relatives(directory, line[-1], "ancestors")) == 32
    assert len(await relatives(directory, line[0], "descendants")) == 32


@pytest.mark.parametrize(
    "wrong", [{"depth": 0}, {"depth": 33}, {"depth": "x"}, {"direction": "sideways"}, {"direction": ""}]
)
async def test_what_is_outside_its_range_is_refused(family, wrong):
    with pytest.raises(InvalidError):
        await family.ask("lineage", A, **wrong)
