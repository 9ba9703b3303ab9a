"""Substrates for tests: what they say is known beforehand."""

from hashlib import blake2b

from comity.agents.substrate import SubstrateRequest
from comity.testing.nodes import DeterministicSubstrate, MockSubstrate, prompt_key

ASKED = SubstrateRequest(system_prompt="be kind", user_prompt="x" * 300)


async def test_the_mock_says_its_prompt_again_under_a_hash():
    answer = await MockSubstrate("seed").infer(ASKED)
    digest = blake2b(("seed\x1fbe kind\x1f" + "x" * 300).encode(), digest_size=8).hexdigest()
    assert answer.text == f"[mock-1#{digest}] " + "x" * 120
    assert answer.model_id == "mock-1"
    assert MockSubstrate().name == "mock"


async def test_another_seed_or_prompt_is_another_answer():
    texts = {
        (await MockSubstrate(seed).infer(SubstrateRequest(system_prompt=system, user_prompt="u"))).text
        for seed, system in (("a", "s"), ("b", "s"), ("a", "t"))
    }
    assert len(texts) == 3
    assert await MockSubstrate("a").infer(ASKED) == await MockSubstrate("a").infer(ASKED)


async def test_the_deterministic_one_answers_from_its_table():
    key = prompt_key("be kind", ASKED.user_prompt)
    substrate = DeterministicSubstrate({key: "as agreed"})
    assert (await substrate.infer(ASKED)).text == "as agreed"
    assert substrate.name == "deterministic"


async def test_the_deterministic_one_shows_the_key_that_it_misses():
    answer = await DeterministicSubstrate().infer(ASKED)
    assert answer.text == f"[det-1#{prompt_key('be kind', ASKED.user_prompt)}] " + "x" * 200
    assert answer.model_id == "det-1"
