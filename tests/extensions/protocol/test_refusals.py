"""A refusal says which argument is wrong and what it must be, and never repeats what was sent."""

import pytest

from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.extension_calls import ExtensionError, shaped

NORM = {"norm_id": "n1", "description": "Be brief", "origin": "human", "established_date": "2026-01-15"}
CERTAIN = {"value": 7, "uncertain": False}
OPENING = {"title": "Rules", "clauses": ["A."], "stakeholders": []}


@pytest.mark.parametrize(
    ("op", "args", "said"),
    [
        ("personal.pin", {"dimension": "x", "pinned": "sent"}, "pinned must be true or false"),
        ("personal.preset", {}, "id is missing"),
        ("personal.get", {"sent": 1}, "sent is no argument; leave it out"),
        ("personal.get", ["sent"], "the object of arguments must be an object"),
        ("personal.set", {"signals": {"x": "sent"}}, "signals[...] must be an object or null"),
        (
            "relational.norm",
            {"norm": NORM | {"origin": "sent"}},
            "norm.origin must be one of ai, co_authored, human, inherited",
        ),
        ("relational.norm", {"norm": NORM | {"norm_id": 7}}, "norm.norm_id must be a text"),
        ("relational.selfmodel", {"model": {"depth": {"value": 1}}}, "model.depth.uncertain is missing"),
        (
            "relational.selfmodel",
            {"model": {"custom_dimensions": {"a": CERTAIN | {"trend": "sent"}}}},
            "model.custom_dimensions[...].trend must be one of falling, rising, stable, unknown",
        ),
        ("consensus.open", OPENING | {"clauses": [7]}, "clauses[0] must be a text or an object"),
        ("consensus.open", OPENING | {"quorum": []}, "quorum must be a number or a text"),
        (
            "consensus.open",
            OPENING | {"stakeholders": [{"id": "a"}, {"id": "b", "role": "sent"}]},
            "stakeholders[1].role must be one of ai_party, ai_representative, author, observer, participant",
        ),
        ("consensus.vote", {"delib_id": "d", "vote": "sent"}, "vote must be one of accept, reject"),
    ],
)
def test_an_argument_that_is_wrong_is_told_by_its_name_and_what_it_must_be(op, args, said):
    with pytest.raises(ExtensionError) as refusal:
        shaped(args, operations()[op].arguments)
    assert refusal.value.message == said
    assert refusal.value.wire_code == "INVALID_ARGUMENT"
