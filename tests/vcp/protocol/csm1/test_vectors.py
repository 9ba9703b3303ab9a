"""The recorded codes: how they are read, written and resolved."""

from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.csm1 import Csm1Error, parse_csm1, persona_named, persona_of


def compared(answer, expected):
    known_keys(expected, *answer)
    for key in expected.keys() & answer.keys():
        assert answer[key] == expected[key], key


def told(text):
    try:
        code = parse_csm1(text)
    except Csm1Error as refusal:
        return {"valid": False, "error": refusal.label}
    return {
        "valid": True,
        "persona": code.persona,
        "persona_name": code.character.name,
        "adherence": code.adherence,
        "scopes": list(code.scopes),
        "namespace": code.namespace,
        "version": code.version,
    }


@format_runner("vcp", "csm1_parsing")
def test_vector_vcp_csm1_code_is_read_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    compared(told(case["input"]), case["expected"])


@format_runner("vcp", "csm1_encoding")
def test_vector_vcp_csm1_code_is_written_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    code = parse_csm1(case["input"])
    written = {
        "parse_succeeds": True,
        "to_nano": code.nano(),
        "to_micro": code.micro(),
        "reparse_to_nano": parse_csm1(code.nano()).nano(),
    }
    compared(written, case["expected"])


@format_runner("vcp", "csm1_personas")
def test_vector_vcp_csm1_persona_is_resolved_as_recorded(case):
    known_keys(case, "id", "description", "input", "input_name", "expected")
    try:
        persona = persona_named(case["input_name"]) if "input_name" in case else persona_of(case["input"])
    except Csm1Error:
        answer = {"valid": False}
    else:
        answer = {
            "valid": True,
            "persona_code": persona.code,
            "persona_name": persona.name,
            "focus": persona.focus,
            "default_adherence": persona.default_adherence,
            "requires_namespace": persona.requires_namespace,
        }
    compared(answer, case["expected"])
