"""The agent that says what it was told."""

import pytest

from comity.agents.behaviour import echo
from tests.agents.envelopes import BOB, request, said


@pytest.mark.parametrize(
    ("texts", "answer"), [(("hello",), "hello"), (("a", "b"), "a b"), ((), ""), (("é\n",), "é\n")]
)
async def test_echo_names_the_vacant_that_answers(texts, answer):
    assert said(await echo(request(*texts))) == f"echo from {BOB.vacant_id.short()}: {answer}"
