"""Colours as they are seen: read from CSS text, laid over one another, and compared.

A colour is red, green, blue and alpha between 0 and 1; one beyond what a screen shows is cut to that. What cannot
be read (system colours, other colour spaces, mixes) is None: unknown, never a guess. Luminance and contrast are
those of WCAG 2.
"""

from functools import lru_cache
from math import cos, isfinite, radians, sin
from typing import NamedTuple

from tinycss2.color5 import parse_color  # type: ignore[import-untyped] # it brings no types

_SRGB = frozenset({"srgb", "hsl", "hwb"})
_LINEAR = 0.04045
_FAR = 1e6


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
    if isinstance(parsed, str) or parsed is None:
        return None
    if parsed.space in {"oklab", "oklch"}:
        return _from_oklab(*(part or 0.0 for part in parsed), polar=parsed.space == "oklch")
    if parsed.space not in _SRGB:
        return None
    red, green, blue, alpha = (_unit(part) for part in parsed.to("srgb"))
    return Colour(red, green, blue, alpha)


def _from_oklab(light: float, one: float, two: float, alpha: float, *, polar: bool) -> Colour:
    """By the matrices of CSS Color 4."""
    hue = radians(two % 360) if polar and isfinite(two) else 0.0
    light, one, two = _bounded(light), _bounded(one), _bounded(two)
    a, b = (one * cos(hue), one * sin(hue)) if polar else (one, two)
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return Colour(
        _unit(_encoded(4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short)),
        _unit(_encoded(-1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short)),
        _unit(_encoded(-0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short)),
        _unit(alpha),
    )


def _bounded(part: float) -> float:
    """A part as it is, unless it is so far beyond every screen that its third power could not be computed."""
    return min(_FAR, max(-_FAR, part))


def _encoded(part: float) -> float:
    """A linear part as a screen takes it."""
    return 12.92 * part if part <= _LINEAR / 12.92 else 1.055 * part ** (1 / 2.4) - 0.055


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
