import hashlib

import pytest

from comity.envelopes.protocol.errors import EnvelopeFormatError, TypeIntegrityError
from comity.envelopes.protocol.resident import BehaviorBundle

TOLD = {"system_prompt": "be honest ✓", "policy_dsl": "allow *", "tool_whitelist": ["b", "a"]}


def test_a_bundle_fills_in_its_own_hash():
    form = '{"policy_dsl":"allow *","system_prompt":"be honest ✓","tool_whitelist":["a","b"]}'
    assert BehaviorBundle(**TOLD).bundle_hash == hashlib.blake2b(form.encode(), digest_size=32).digest()


def test_a_bundle_keeps_a_list_of_tools_as_a_tuple_and_can_be_a_key():
    assert BehaviorBundle(**TOLD).tool_whitelist == ("b", "a")
    assert len({BehaviorBundle(**TOLD), BehaviorBundle(**TOLD)}) == 1


def test_the_order_of_tools_does_not_matter_and_everything_else_does():
    told = BehaviorBundle(**TOLD)
    assert BehaviorBundle(**TOLD | {"tool_whitelist": ("a", "b")}).bundle_hash == told.bundle_hash
    for change in ({"system_prompt": ""}, {"policy_dsl": ""}, {"tool_whitelist": ["a"]}):
        assert BehaviorBundle(**TOLD | change).bundle_hash != told.bundle_hash


def test_a_hash_that_fits_is_taken_and_any_other_refused():
    told = BehaviorBundle(**TOLD)
    assert BehaviorBundle(**TOLD, bundle_hash=told.bundle_hash) == told
    with pytest.raises(TypeIntegrityError, match="bundle_hash"):
        BehaviorBundle(**TOLD, bundle_hash=bytes(32))


@pytest.mark.parametrize(
    "wrong", [{"system_prompt": "\ud800"}, {"policy_dsl": object()}, {"tool_whitelist": [1, "a"]}]
)
def test_what_has_no_hash_is_refused(wrong):
    with pytest.raises(EnvelopeFormatError, match="hashed"):
        BehaviorBundle(**TOLD | wrong)
