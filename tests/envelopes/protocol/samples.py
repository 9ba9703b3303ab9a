"""Cards of one vacant, and strategies for any of them."""

from hypothesis import strategies as st

from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec
from tests.envelopes.protocol.envelope_samples import ALICE, KEYS
from tests.wire.json_values import texts, values

ENDPOINT = "https://example.com/a2a/message/send"


def card(key=ALICE, **more):
    given = {"capability_text": "echo", "endpoint": ENDPOINT} | more
    return CapabilityCard(vacant_id=key.vacant_id, **given).signed(key)


def as_lists(value):
    """What JSON makes of a value: it knows lists, and no tuples."""
    if isinstance(value, dict):
        return {key: as_lists(inner) for key, inner in value.items()}
    return [as_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


policies = st.dictionaries(texts, values().map(as_lists), max_size=3)
substrates = st.lists(texts.filter(str.strip), max_size=3)
specs = st.builds(SubstrateSpec, substrates, policies)


@st.composite
def cards(draw):
    return card(
        draw(st.sampled_from(KEYS)),
        capability_text=draw(texts),
        substrate_spec=draw(specs),
        endpoint=draw(st.none() | texts),
    )
