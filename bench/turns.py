"""One row of one tree, a turn at a time: `python PATH/bench/turns.py ROW SECONDS FOLDER FILE`, started in that tree.

It is run by the tree's own interpreter and takes the rows from the tree it was started in, which may be an older one:
nothing is asked of it but that a row opens and that its first contender takes its turn. A row that it does not have
yet is taken from FILE. One line of JSON says that it is ready; then each line on standard input is one turn, and its
figure one line.
"""

import json
import runpy
import sys
from pathlib import Path


def main(name: str, seconds: str, folder: str, file: str) -> None:
    sys.path[0] = str(Path.cwd())  # instead of the folder of this file
    from bench.harness.row import Setting
    from bench.rows import ROWS

    try:
        rows = {row.name: row for row in ROWS}
        if name not in rows:
            rows = {row.name: row for row in runpy.run_path(file)["ROWS"]}
        row = rows[name]
        with row.open(Setting(folder=Path(folder), seconds=float(seconds))) as contenders:
            _tell({"ready": contenders[0].name})
            for _ in sys.stdin:
                _tell({"figure": contenders[0].turn()})
    except Exception as fault:  # noqa: BLE001 - whatever it is, the other side has to hear of it
        _tell({"error": f"{type(fault).__name__}: {fault}"})


def _tell(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
