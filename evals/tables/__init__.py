"""What is measured, by name. Each entry is called without arguments and returns its tables."""

from collections.abc import Mapping

from evals.table import Tables
from evals.tables import act, crisis, scenarios

TABLES: Mapping[str, Tables] = {"crisis": crisis.tables, "act": act.tables, "scenarios": scenarios.tables}
