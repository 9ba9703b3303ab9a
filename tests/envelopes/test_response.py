import pytest

from comity.envelopes.app import make_response_envelope
from comity.envelopes.protocol.envelope import reply_is_bound
from comity.envelopes.protocol.errors import ReplayDetectedError
from comity.envelopes.replay_stores import InMemoryReplayStore
from tests.envelopes.peers import SERVER, Caller, text
from tests.envelopes.residents import resident


@pytest.mark.parametrize("dialect", ["seed", "selfeval"])
async def test_replies_are_bound_chained_and_recorded(dialect):
    replay, caller = InMemoryReplayStore(), Caller(dialect=dialect)
    requests = [caller.next(), caller.next()]
    replies = [
        await make_response_envelope(
            request=request,
            response_payload=text("answer", "ROLE_AGENT"),
            self_signing_key=SERVER,
            response_replay_store=replay,
            self_form=resident(),
        )
        for request in requests
    ]
    assert [reply.sequence_no for reply in replies] == [1, 2]
    assert replies[1].prev_envelope_hash == replies[0].compute_hash()
    assert all(reply.verify(SERVER.vacant_id) and reply.dialect == dialect for reply in replies)
    assert all(map(reply_is_bound, replies, requests))
    with pytest.raises(ReplayDetectedError):
        await replay.check_and_advance(replies[1])
