"""Events and effects: values that compare, and cannot be changed on their way."""

import pytest

from comity.wire import machine
from comity.wire.errors import InvalidError
from comity.wire.machine import Answered, Ask, CancelTimer, Close, LinkLost, Received, Refused, Send, SetTimer

SAMPLES = [
    Received(b"x"),
    Answered("tag", {"any": "thing"}),
    Refused("tag", InvalidError("no")),
    LinkLost("gone"),
    Send(b"x"),
    SetTimer("tea", 3.0),
    CancelTimer("tea"),
    Ask("tag", object()),
    Close("bye"),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_a_value_is_equal_to_its_like_and_stays_as_it_is(sample):
    fields = [getattr(sample, name) for name in sample.__struct_fields__]
    assert type(sample)(*fields) == sample
    with pytest.raises(AttributeError):
        setattr(sample, sample.__struct_fields__[0], None)


def test_what_happened_and_what_is_wanted_are_told_apart():
    kinds = [
        kind
        for kind in vars(machine).values()
        if isinstance(kind, type) and kind.__module__ == machine.__name__
    ]
    events = {kind for kind in kinds if issubclass(kind, machine.Event)} - {machine.Event}
    effects = {kind for kind in kinds if issubclass(kind, machine.Effect)} - {machine.Effect}
    assert len(events) == 6
    assert len(effects) == 5
    assert not events & effects
    assert Close() == Close("")
