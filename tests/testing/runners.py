"""Load the modules of a suite that plug in a runner of vectors. `python runners.py FOLDER` prints what they leave, by area.

A suite that is not the one being run needs a process of its own, because every suite has a package named `tests`.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

from comity.testing import vectors

SKILLS = Path(__file__).resolve().parents[2] / "packages" / "comity-skills"


def load_runners(suite):
    for path in sorted(suite.joinpath("tests").rglob("test_*.py")):
        if "@format_runner(" in path.read_text("utf-8"):
            importlib.import_module(".".join(path.relative_to(suite).with_suffix("").parts))


def left_by_the_skills():
    """The files, and the cases of files, for which the tests of the skills have no runner, by area."""
    done = subprocess.run(
        [sys.executable, __file__, SKILLS],
        env={**os.environ, "PYTHONPATH": str(SKILLS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


if __name__ == "__main__":
    load_runners(Path(sys.argv[1]))
    print(json.dumps({area: vectors.unplugged(area) for area in vectors.areas_found()}))
