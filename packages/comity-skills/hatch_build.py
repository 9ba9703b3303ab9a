"""Prepares the data of the skills when the wheel is built, and for a checkout when it is installed."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "comity_skills_data"


class PrepareData(BuildHookInterface):  # type: ignore[type-arg,misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(self.root, "src")))
        from comity_skills_data import prepare  # noqa: PLC0415 - of these sources

        if version == "editable":
            prepare()
            return
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        prepare(folder)
        for path in sorted(folder.iterdir()):
            build_data["force_include"][str(path)] = f"{PACKAGE}/{path.name}"

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        if version != "editable":
            self._folder.cleanup()
