"""A refused argument under the name by which somebody knows it."""

import pytest

from comity.vcp.protocol.extension_calls import ExtensionError, in_words_of, refused

OPTIONS = {"level": "--level", "concern": "--concern", "clause_id": "--clause"}


@pytest.mark.parametrize(
    ("refusal", "message", "field"),
    [
        (refused("clause_id", "is needed"), "--clause is needed", "clause_id"),
        (refused(("level", "concern"), "are needed", field="concern"), "--level and --concern are needed", "concern"),
        (refused(("level", "mood"), "are needed"), "--level and mood are needed", "level"),
        (refused("level", "must be no clause_id", code="STALE"), "--level must be no clause_id", "level"),
    ],
)  # fmt: skip
def test_each_argument_is_called_by_its_option(refusal, message, field):
    told = in_words_of(OPTIONS, refusal)
    assert (told.message, told.field, told.wire_code) == (message, field, refusal.wire_code)


@pytest.mark.parametrize(
    "refusal",
    [
        refused("signal", "must not be empty"),
        refused("clauses[0]", "must not be empty"),
        ExtensionError("CONFLICT", "level is what somebody else began a sentence with", "level"),
        ExtensionError("NOT_FOUND", "there is no such clause in this deliberation", "clause_id"),
    ],
)
def test_any_other_refusal_stays_as_it_is(refusal):
    assert in_words_of(OPTIONS, refusal) is refusal
