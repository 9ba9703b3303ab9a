"""The injection scan of constitution text (vcp 5.2).

- It reports findings and never changes the text. `refuses` decides: critical findings are always refused, others down to
  the threshold that the operator has set.
- Every pattern runs in linear time: repeats are possessive and follow a fixed word, so hostile input cannot cause
  backtracking.
- A pattern reports at most `FINDINGS_PER_PATTERN` places, which bounds the memory and does not change the decision.
- Joined emoji contain U+200D and are found: scan constitutions, not context wires.
"""

import re
from typing import Literal

from msgspec import Struct

from comity.store.audit_chain import timestamp
from comity.wire.errors import InvalidError

SCANNER_VERSION = "1.0.0"
MATCHED_TEXT_LIMIT = 50
FINDINGS_PER_PATTERN = 100
_SHOWN_PATTERNS = 5

Severity = Literal["medium", "high", "critical"]

_RANK = {"medium": 1, "high": 2, "critical": 3}


class ScanPattern(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    severity: Severity
    description: str
    expression: re.Pattern[str]


class ScanFinding(Struct, frozen=True, kw_only=True):
    """`position` counts characters from 0; `matched_text` is cut after 50 characters."""

    pattern_id: str
    pattern_name: str
    severity: Severity
    position: int
    matched_text: str
    description: str


class ScanResult(Struct, frozen=True, kw_only=True):
    clean: bool
    findings: tuple[ScanFinding, ...]
    scanned_at: str
    scanner_version: str = SCANNER_VERSION


def scan(text: str, now: float) -> ScanResult:
    """Look for all patterns and forbidden characters; findings come in the order of the text."""
    findings = [finding for pattern in PATTERNS for finding in _matches(pattern, text)]
    for character, pattern in _CHARACTERS:
        if character in text:
            findings += _matches(pattern, text)
    findings.sort(key=lambda finding: finding.position)
    return ScanResult(clean=not findings, findings=tuple(findings), scanned_at=timestamp(now))


def refuses(result: ScanResult, threshold: Severity = "medium") -> bool:
    """Return whether the text is refused: a finding is critical or as severe as the threshold."""
    if threshold not in _RANK:
        raise InvalidError("the scan threshold must be medium, high or critical")
    return any(_RANK[finding.severity] >= _RANK[threshold] for finding in result.findings)


def failed_scan(text: str, threshold: Severity) -> str | None:
    """Return the reason for refusing a text, naming patterns and never the text that matched; None if it is
    accepted.
    """
    found = scan(text, 0.0)  # only the findings are used, so any time will do
    if not refuses(found, threshold):
        return None
    names = list(dict.fromkeys(finding.pattern_name for finding in found.findings))
    return f"failed the safety scan ({', '.join(names[:_SHOWN_PATTERNS])}); remove that text"


def _matches(pattern: ScanPattern, text: str) -> list[ScanFinding]:
    found: list[ScanFinding] = []
    for match in pattern.expression.finditer(text):
        # what comes before a group only says where the pattern applies
        start, end = match.span(pattern.expression.groups)
        found.append(
            ScanFinding(
                pattern_id=pattern.id,
                pattern_name=pattern.name,
                severity=pattern.severity,
                position=start,
                matched_text=text[start : min(end, start + MATCHED_TEXT_LIMIT)],
                description=pattern.description,
            )
        )
        if len(found) == FINDINGS_PER_PATTERN:
            break
    return found


def _pattern(
    pattern_id: str, name: str, severity: Severity, description: str, expression: str
) -> ScanPattern:
    return ScanPattern(
        id=pattern_id,
        name=name,
        severity=severity,
        description=description,
        expression=re.compile(expression, re.IGNORECASE),
    )


# Line breaks are those that any reader of the text may take for one, not only \n.
_BREAKS = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_BLANKS = rf"[^\S{_BREAKS}]*+"
_LINE_START = rf"(?<![^{_BREAKS}]){_BLANKS}"
_ROLE = r"(?:user|assistant|system|human|ai)"
_FILLERS = r"(?:(?:all|any|of|the|these|those|my|your|our)\s++){0,4}+"

PATTERNS = (
    _pattern(
        "OWASP-PI-001",
        "instruction_override",
        "critical",
        "tells the reader to ignore the instructions it already has",
        rf"\bignore\s++{_FILLERS}(?:previous|above|prior)\s++instructions?\b",
    ),
    _pattern(
        "OWASP-PI-002",
        "role_reassignment",
        "critical",
        "gives the reader another role",
        r"\byou(?:\s++are|['\u2019]re)\s++now\b",
    ),
    _pattern(
        "OWASP-PI-003",
        "instruction_disregard",
        "critical",
        "tells the reader to disregard what came before",
        rf"\bdisregard\s++{_FILLERS}(?:above|previous|prior)\b",
    ),
    _pattern(
        "OWASP-PI-004",
        "new_instructions",
        "critical",
        "announces new instructions, a new role or a new purpose",
        r"\byour\s++new\s++(?:instructions?|roles?|purposes?)\b",
    ),
    _pattern(
        "OWASP-PI-005",
        "role_delimiter",
        "high",
        "starts a line as if another participant spoke",
        rf"{_LINE_START}({_ROLE}{_BLANKS}:)",
    ),
    _pattern(
        "OWASP-PI-006",
        "markup_role",
        "high",
        "holds a tag that marks a participant's turn",
        rf"<(?:/\s*+)?\|?\s*+{_ROLE}\s*+(?:/|\|)?>|<\|\s*+im_(?:start|end)\s*+\|>",
    ),
    _pattern(
        "OWASP-PI-007",
        "code_block_system",
        "high",
        "opens a code block labelled system",
        rf"(?:```|~~~){_BLANKS}system\b",
    ),
    _pattern("OWASP-PI-008", "null_byte", "critical", "holds a null character", r"\x00"),
    _pattern(
        "VCP-PI-001",
        "vcp_delimiter_forgery",
        "critical",
        "forges the marks around a constitution",
        rf"---{_BLANKS}(?:begin|end)[-_\s]constitution{_BLANKS}---",
    ),
    _pattern(
        "VCP-PI-002",
        "vcp_header_forgery",
        "critical",
        "forges the header of a VCP block",
        rf"{_LINE_START}(\[{_BLANKS}vcp{_BLANKS}:{_BLANKS}\d++(?:\.\d++)++{_BLANKS}\])",
    ),
    _pattern(
        "OWASP-PI-009",
        "unicode_control",
        "medium",
        "holds characters without width, which hide text",
        "[\u200b-\u200d\ufeff]",
    ),
    _pattern(
        "OWASP-PI-010",
        "bidi_override",
        "high",
        "holds characters that reverse how text is shown",
        "[\u202a-\u202e\u2066-\u2069]",
    ),
)

_FORBIDDEN = (0x0000, *range(0x200B, 0x200E), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_CHARACTERS = tuple(
    (
        chr(code),
        _pattern(
            f"CHAR-{code:04X}",
            "forbidden_character",
            "high",
            f"holds the forbidden character U+{code:04X}",
            chr(code),
        ),
    )
    for code in _FORBIDDEN
)
