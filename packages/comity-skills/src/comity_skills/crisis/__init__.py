"""Finds in a text that somebody may hurt themselves, and the crisis lines of each country.

The names are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comity_skills.crisis.detector import CrisisDetector, crisis_detector
    from comity_skills.crisis.report import CrisisReport, Severity, Signal, Verdict

__all__ = ["CrisisDetector", "CrisisReport", "Severity", "Signal", "Verdict", "crisis_detector"]

_HOMES = {
    "CrisisDetector": "detector",
    "crisis_detector": "detector",
    "CrisisReport": "report",
    "Severity": "report",
    "Signal": "report",
    "Verdict": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(name=name, obj=__name__)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
