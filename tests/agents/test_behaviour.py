"""What every behaviour has to do with."""

from comity.agents.behaviour import close_behaviour, echo, saying, text_of
from tests.agents.envelopes import request


def test_the_text_of_an_envelope_is_that_of_all_its_parts():
    assert text_of(request("a", "b c")) == "a b c"


def test_saying_is_a_message_of_an_agent():
    assert saying("x").role == "ROLE_AGENT"
    assert [part.text for part in saying("x").parts] == ["x"]


async def test_a_behaviour_that_holds_nothing_is_closed_without_ado():
    await close_behaviour(echo)


async def test_a_behaviour_that_holds_something_lets_go_of_it():
    class Holder:
        closed = False

        async def __call__(self, envelope):
            return saying("")

        async def aclose(self):
            self.closed = True

    holder = Holder()
    await close_behaviour(holder)
    assert holder.closed
