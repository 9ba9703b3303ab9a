"""Moments as a person writes and reads them: `friday`, `3d`, `2026-12-01 18:00`; a day means its last minute.

Days and clock times are those of this machine's time zone, and a moment is always printed with it.
"""

import re
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final

from comity.terminal.output import counted
from comity.wire.errors import ConfigError

WHEN: Final = "today, tomorrow, a weekday, 2026-12-01, 'friday 18:00', 3d or 12h"

_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(?:in )?([0-9]{1,6}) ?(m|min|minutes?|h|hours?|d|days?|w|weeks?)")
_CLOCK: Final = re.compile(r"(?:(.+?)[ t])?([0-9]{1,2}):([0-9]{2})")
_LAST_MINUTE: Final = time(23, 59)
_MAX_SHOWN: Final = 40


def read_until(text: str, now: float, zone: tzinfo | None = None) -> datetime:
    """Return the moment that `--by` names. `zone` is the time zone of the writer, None for that of this machine."""
    here = datetime.fromtimestamp(now, zone) if zone else datetime.fromtimestamp(now).astimezone()
    try:
        moment = _moment_of(" ".join(text.lower().split()), here, zone)
    except (ValueError, OverflowError):
        raise ConfigError(f"--by {text[:_MAX_SHOWN]!r} is no time; write {WHEN}") from None
    if moment.timestamp() <= now:
        raise ConfigError(
            f"--by {text[:_MAX_SHOWN]!r} is {moment_text(moment)}, which is past; give a later time"
        )
    return moment


def _moment_of(text: str, here: datetime, zone: tzinfo | None) -> datetime:
    if found := _DURATION.fullmatch(text):
        return here + timedelta(**{_UNITS[found[2][0]]: int(found[1])})
    clock = _CLOCK.fullmatch(text)
    if clock is None and "t" in text and text[:1].isdigit():
        exact = datetime.fromisoformat(text.upper())
        return exact if exact.tzinfo else _in_zone(exact, zone)
    day = _day_of((clock[1] or "today") if clock else text, here.date())
    at = time(int(clock[2]), int(clock[3])) if clock else _LAST_MINUTE
    return _in_zone(datetime.combine(day, at), zone)


def _in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.replace(tzinfo=zone) if zone else moment.astimezone()


def _day_of(text: str, today: date) -> date:
    if text in {"today", "tomorrow"}:
        return today + timedelta(days=text == "tomorrow")
    named = [number for number, day in enumerate(_DAYS) if text in {day, day[:3]}]
    if named:
        return today + timedelta(days=(named[0] - today.weekday()) % 7)
    return date.fromisoformat(text)


def moment_text(moment: datetime) -> str:
    return f"{moment:%a %Y-%m-%d %H:%M} {moment.tzname()}"


def until_text(deadline: float, now: float) -> str:
    """Return a deadline in local time, and how far it is."""
    moment = moment_text(datetime.fromtimestamp(deadline).astimezone())
    left = deadline - now
    return f"{moment} (in {length_text(left)})" if left > 0 else f"{moment} (past)"


def length_text(seconds: float) -> str:
    """Return a length of time by its two largest units."""
    minutes = max(round(seconds / 60), 1)
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    named = ((days, "day"), (hours, "hour"), (minutes, "minute"))
    return " ".join([counted(number, unit, f"{unit}s") for number, unit in named if number][:2])
