"""What is found, in which order, and what never is."""

import msgspec
import pytest

from comity.directory.cards import search_capability
from comity.wire.errors import InvalidError
from tests.directory.publications import agent, card_of, hexes, publication

A, B, C, D, E = (agent(name) for name in "abcde")


@pytest.fixture
async def filled(directory):
    for key, text, members in (
        (A, "Traducción técnica: English → 繁體中文", {"base_model_family": "claude"}),
        (B, "translate legal contracts", {"base_model_family": "gpt"}),
        (C, "code_review for C++ & Rust (unsafe)", {"base_model_family": "claude"}),
        (D, "summarise articles\nand letters", {"declared_capabilities": ["digest", "NEAR the sea"]}),
    ):
        await directory.publish(publication(key, text, **members))
    return directory


class TestWords:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("translate", [B]),
            ("TRANSLATE", [B]),
            ("trans", [B]),
            ("legal translate", [B]),
            ("legal review", []),
            ("traduccion", [A]),
            ("TÉCNICA", [A]),
            ("te\u0301cnica", [A]),
            ("中文", [A]),
            ("繁體", [A]),
            ("日本語", []),
            ("code_review", [C]),
            ("code review", [C]),
            ("c++ rust", [C]),
            ("unsafe", [C]),
            ("letters", [D]),
            ("digest", [D]),
            ("near", [D]),
            ("ranslate", []),
        ],
    )
    async def test_are_found_by_their_beginnings_without_case_and_accents(self, filled, query, expected):
        assert set(await filled.found(query)) == set(hexes(*expected))

    @pytest.mark.parametrize(
        "query",
        [
            '"legal contracts',
            "legal*",
            "(legal)",
            "legal)",
            "legal:",
            "^legal",
            "legal +contracts",
            "-legal",
            "'legal'",
            "legal --",
            "{legal}",
            "legal\tcontracts\n",
            "legal ?",
        ],
    )
    async def test_are_only_words_whatever_is_around_them(self, filled, query):
        assert await filled.found(query) == hexes(B)

    @pytest.mark.parametrize("query", ["legal OR code", "legal AND contracts", "NOT code", "text: legal"])
    async def test_are_words_even_where_a_query_language_has_a_meaning_for_them(self, filled, query):
        assert await filled.found(query) == []

    async def test_near_is_a_word_too(self, filled):
        assert await filled.found("NEAR sea") == hexes(D)

    @pytest.mark.parametrize("query", ["?!", "->", '"', "*", "\u2192", "\x00"])
    async def test_that_hold_no_word_find_nothing(self, filled, query):
        assert await filled.found(query) == []

    @pytest.mark.parametrize("query", ["", "   ", "\n"])
    async def test_that_are_none_find_everything_the_oldest_first(self, filled, query):
        assert await filled.found(query) == hexes(A, B, C, D)

    @pytest.mark.parametrize("query", ["x" * 513, "a " * 33, "\u4e2d" * 33])
    async def test_that_are_too_many_are_refused(self, filled, query):
        with pytest.raises(InvalidError, match="at most"):
            await filled.found(query)

    async def test_said_more_often_in_less_text_come_first(self, directory):
        await directory.publish(publication(A, "knits " + "and does much else besides " * 20))
        await directory.publish(publication(B, "knits"))
        await directory.publish(publication(C, "knits and purls, knits again"))
        found = await directory.found("knits")
        assert set(found) == set(hexes(A, B, C))
        assert found[-1] == A.vacant_id.hex()


class TestTheFamily:
    async def test_is_matched_whole(self, filled):
        assert await filled.found("", family="claude") == hexes(A, C)
        assert await filled.found("", family="clau") == []
        assert await filled.found("", family="Claude") == []
        assert await filled.found("", family="\x00") == []
        assert await filled.found("", family="") == hexes(A, B, C, D)

    async def test_narrows_the_words(self, filled):
        assert await filled.found("trans", family="claude") == []
        assert await filled.found("code", family="claude") == hexes(C)


class TestTheLimit:
    async def test_is_kept(self, filled):
        assert await filled.found("", limit=2) == hexes(A, B)
        assert len(await filled.found("", limit=100)) == 4

    @pytest.mark.parametrize("limit", [0, 101, -1, "", "x", "1e1", "99999999999999999999"])
    async def test_is_from_one_to_a_hundred(self, filled, limit):
        with pytest.raises(InvalidError, match="limit must be a number from 1 to 100"):
            await filled.found("", limit=limit)

    async def test_is_the_same_from_inside(self, filled):
        for limit in (0, 101):
            with pytest.raises(InvalidError, match="limit"):
                await search_capability(store=filled.store, limit=limit)

    async def test_is_twenty_when_nobody_says(self, directory):
        for n in range(21):
            await directory.publish(publication(agent(n)))
        assert len(await directory.found()) == 20


class TestWhatIsNotPublic:
    async def test_is_found_by_this_nodes_owner_only(self, filled):
        await filled.publish(publication(E, "translate at home", runtime_state="LOCAL"))
        open_matches = await search_capability(store=filled.store, query="translate")
        assert [match.vacant_id for match in open_matches] == hexes(B)
        all_matches = await search_capability(store=filled.store, query="translate", include_local=True)
        assert [match.vacant_id for match in all_matches] == hexes(B, E)
        assert [match.visibility for match in all_matches] == ["PUBLIC", "NONE"]

    async def test_is_not_found_once_it_is_gone_for_good(self, filled):
        await filled.publish(publication(B, "translate", seq=2, runtime_state="SUNK"))
        for include_local in (False, True):
            matches = await search_capability(
                store=filled.store, query="translate", include_local=include_local
            )
            assert matches == []

    async def test_is_found_while_it_sleeps(self, filled):
        await filled.publish(publication(B, "translate", seq=2, runtime_state="HIBERNATING"))
        assert await filled.found("translate") == hexes(B)

    async def test_counts_for_the_limit_after_what_is(self, filled):
        await filled.publish(publication(E, "at home", runtime_state="LOCAL"))
        found = await search_capability(store=filled.store, include_local=True, limit=5)
        assert [match.vacant_id for match in found] == hexes(A, B, C, D, E)
        found = await search_capability(store=filled.store, include_local=True, limit=2)
        assert [match.vacant_id for match in found] == hexes(A, B)


class TestAMatch:
    async def test_carries_the_signed_card(self, filled):
        (match,) = await search_capability(store=filled.store, query="legal")
        card = card_of(B, "translate legal contracts")
        assert match.capability_card == card
        assert match.capability_card.verify()
        assert match.capability_card_hash == card.card_hash()
        assert match.capability_card_sig == card.signature
        assert match.score == 0.0

    async def test_shows_what_was_declared_as_json(self, filled):
        (match,) = await search_capability(store=filled.store, query="digest")
        assert msgspec.json.decode(match.declared_capabilities_json) == ["digest", "NEAR the sea"]
