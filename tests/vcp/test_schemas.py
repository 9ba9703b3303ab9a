import pytest
from jsonschema import Draft202012Validator, ValidationError

from comity.vcp import tools as schemas

INPUTS = {
    "token": (schemas.VALIDATE_TOKEN_INPUT, {"token": "family.safe.guide"}),
    "code": (schemas.PARSE_CSM1_INPUT, {"code": "N5"}),
    "context": (schemas.ENCODE_CONTEXT_INPUT, {"dimensions": {"time": "morning"}}),
    "status": (schemas.STATUS_INPUT, {}),
}


@pytest.mark.parametrize(
    "schema", [value for name, value in vars(schemas).items() if name.endswith(("_INPUT", "_OUTPUT"))]
)
def test_is_a_schema(schema):
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_closed(name):
    schema, fitting = INPUTS[name]
    Draft202012Validator(schema).validate(fitting)
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate(fitting | {"surprise": 1})


@pytest.mark.parametrize(
    "arguments",
    [
        {"dimensions": {"mood": "x"}},
        {"dimensions": {"time": 3}},
        {"personal": {"time": "morning"}},
        {"personal": {"body_signals": {"value": "pain", "surprise": 1}}},
        {"personal": {"body_signals": {"value": "pain", "intensity": 6}}},
    ],
)
def test_the_objects_inside_are_closed_too(arguments):
    with pytest.raises(ValidationError):
        Draft202012Validator(schemas.ENCODE_CONTEXT_INPUT).validate(arguments)
