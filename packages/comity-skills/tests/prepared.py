"""A skill with the data that it ships with, made ready once for all tests of a process."""

from importlib.resources import files

_PLACE = files("comity_skills")
_handlers = {}


def shipped(skill):
    return {name: _PLACE.joinpath(name).read_bytes() for name in skill.data}


def handler_of(skill):
    if skill.name not in _handlers:
        _handlers[skill.name] = skill.prepare(shipped(skill))
    return _handlers[skill.name]
