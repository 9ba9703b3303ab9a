"""The JSON Schemas of the skills: what their contracts are made of. Places count characters of a text as it was sent."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from comity_skills.skill import SkillContract

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
TEXTS: Final[Schema] = {"type": "array", "items": TEXT}
PLACE: Final[Schema] = {"type": "integer", "minimum": 0}
YES_NO: Final[Schema] = {"type": "boolean"}


def closed(properties: Schema, required: list[str] | None = None, **more: Any) -> Schema:
    """An object with these properties and no other, all of them required unless it is said which."""
    return {
        "type": "object",
        "required": [*properties] if required is None else required,
        "properties": properties,
        "additionalProperties": False,
        **more,
    }


def one_of(*choices: str) -> Schema:
    return {"type": "string", "enum": [*choices]}


def told(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


class Contracts(NamedTuple):
    """What the contracts of a skill have in common: `needs` are required in the input, `gives` in the output; `gives` is
    everything where it is None.
    """

    skill: str
    boundary: str
    needs: list[str] | None
    gives: list[str] | None = None
    description: str = ""

    def of(self, given: Schema, output: Schema, more: Mapping[str, Any] | None = None) -> SkillContract:
        """`more` is required in the output, too."""
        added = more or {}
        return SkillContract(
            skill=self.skill,
            boundary=self.boundary,
            input_schema=closed(given, self.needs),
            output_schema=closed({**output, **added}, None if self.gives is None else [*self.gives, *added]),
            description=self.description,
        )

    def silent(self, given: Schema, output: Schema) -> SkillContract:
        """That of strict, which has no description."""
        return self._replace(description="").of(given, output)
