"""What is measured, by name. Each entry is called without arguments and returns its tables."""

from collections.abc import Mapping

from evals.table import Tables
from evals.tables import act, crisis, crisis_long, examples, messages, scenarios, tone

TABLES: Mapping[str, Tables] = {
    "crisis": crisis.tables,
    "crisis_long": crisis_long.tables,
    "messages": messages.tables,
    "tone": tone.tables,
    "act": act.tables,
    "scenarios": scenarios.tables,
    "examples": examples.tables,
}
