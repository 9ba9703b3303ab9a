"""A skill with the data that it ships with, made ready once for all tests of a process."""

from comity_skills_data import shipped

_handlers = {}


def handler_of(skill):
    if skill.name not in _handlers:
        _handlers[skill.name] = skill.prepare(shipped())
    return _handlers[skill.name]
