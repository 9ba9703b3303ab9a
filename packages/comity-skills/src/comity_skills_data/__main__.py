"""`python -m comity_skills_data [FOLDER]`: prepare the data of the skills."""

import sys
from pathlib import Path

from comity_skills_data import FOLDER, prepare

prepare(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
