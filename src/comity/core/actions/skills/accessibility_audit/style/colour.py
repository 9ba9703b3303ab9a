"""Colours as they are seen: read from CSS text, laid over one another, and compared.

A colour is red, green, blue and alpha between 0 and 1. What cannot be read (system colours, wide gamuts,
mixes) is None: unknown, never a guess. Luminance and contrast are those of WCAG 2.
"""

from functools import lru_cache
from typing import NamedTuple

from tinycss2.color5 import parse_color  # type: ignore[import-untyped] # it brings no types

_SRGB = frozenset({"srgb", "hsl", "hwb"})
_LINEAR = 0.04045


class Colour(NamedTuple):
    red: float
    green: float
    blue: float
    alpha: float = 1.0


BLACK = Colour(0, 0, 0)
WHITE = Colour(1, 1, 1)
CLEAR = Colour(0, 0, 0, 0)


def read_colour(text: str, current: Colour | None = None) -> Colour | None:
    """`current` is what `currentcolor` stands for."""
    return current if text.strip().lower() == "currentcolor" else _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Colour | None:
    parsed = parse_color(text)
    if isinstance(parsed, str) or parsed is None or parsed.space not in _SRGB:
        return None
    red, green, blue, alpha = (_unit(part) for part in parsed.to("srgb"))
    return Colour(red, green, blue, alpha)


def is_colour(text: str) -> bool:
    """Whether it names a colour at all, be it one that cannot be computed here."""
    return parse_color(text) is not None


def _unit(part: float | None) -> float:
    return min(1.0, max(0.0, part or 0.0))


def over(upper: Colour, lower: Colour) -> Colour:
    """The colour seen where `upper` lies on `lower`."""
    alpha = upper.alpha + lower.alpha * (1 - upper.alpha)
    if alpha == 0:
        return CLEAR
    mixed = [
        (top * upper.alpha + bottom * lower.alpha * (1 - upper.alpha)) / alpha
        for top, bottom in zip(upper[:3], lower[:3], strict=True)
    ]
    return Colour(mixed[0], mixed[1], mixed[2], alpha)


def faded(colour: Colour, opacity: float) -> Colour:
    return colour._replace(alpha=colour.alpha * opacity)


def luminance(colour: Colour) -> float:
    red, green, blue = (
        part / 12.92 if part <= _LINEAR else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Colour, other: Colour) -> float:
    """From 1 (the same) to 21 (black on white)."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)
