"""What a skill refuses: an input, or a data file that the operator wrote.

The message is a sentence for the person who caused it. Who calls the skills turns each class into an error of its own.
"""


class SkillError(Exception):
    @property
    def message(self) -> str:
        return str(self.args[0])


class SkillInputError(SkillError):
    """The skill cannot work with this input."""


class SkillDataError(SkillError):
    """A data file cannot be used."""
