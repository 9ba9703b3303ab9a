"""Finds in a text that somebody is in danger from himself, and where help is to be found in each country."""

from comity.core.actions.crisis.detector import DATA, CrisisDetector, crisis_detector
from comity.core.actions.crisis.report import CrisisReport, Severity, Signal

__all__ = ["DATA", "CrisisDetector", "CrisisReport", "Severity", "Signal", "crisis_detector"]
