"""Lengths as pixels, where the text alone decides."""

import re

_LENGTH = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?)(px|pt|pc|in|cm|mm|q|em|rem|ex|ch|%|vw|vh)?"
)
_PIXELS = {
    "px": 1.0,
    "pt": 96 / 72,
    "pc": 16.0,
    "in": 96.0,
    "cm": 96 / 2.54,
    "mm": 96 / 25.4,
    "q": 96 / 101.6,
}
_NAMED = {
    "xx-small": 9.0,
    "x-small": 10.0,
    "small": 13.0,
    "medium": 16.0,
    "large": 18.0,
    "x-large": 24.0,
    "xx-large": 32.0,
    "xxx-large": 48.0,
}
ROOT = 16.0
_LONGEST = 60


def split(text: str) -> tuple[float, str] | None:
    """The number and the unit; None when it is not a plain length."""
    found = _LENGTH.fullmatch(text.strip().lower()) if len(text) <= _LONGEST else None
    return (float(found[1]), found[2] or "") if found is not None else None


def pixels(text: str, font: float, whole: float | None = None, root: float = ROOT) -> float | None:
    """`font` is the font size that `em` stands for, `whole` what a percentage is of."""
    parts = split(text)
    if parts is None:
        return None
    number, unit = parts
    if unit in _PIXELS:
        return number * _PIXELS[unit]
    if unit == "em":
        return number * font
    if unit == "rem":
        return number * root
    if unit in {"ex", "ch"}:
        return number * font / 2
    if unit == "%":
        return None if whole is None else number * whole / 100
    if unit in {"vw", "vh"}:
        return number * (1280 if unit == "vw" else 720) / 100
    return 0.0 if number == 0 else None


def font_size(text: str, parent: float, root: float) -> float | None:
    lowered = text.strip().lower()
    if lowered in _NAMED:
        return _NAMED[lowered]
    if lowered in {"smaller", "larger"}:
        return parent / 1.2 if lowered == "smaller" else parent * 1.2
    return pixels(lowered, parent, parent, root)
