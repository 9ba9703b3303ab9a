"""One target in this process, until libFuzzer ends it: `python -m fuzz.child TARGET [libFuzzer's options]`."""

import sys
from importlib import import_module


def main() -> None:
    atheris = import_module("atheris")
    target, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["comity", "fuzz.targets"]):
        check = import_module(f"fuzz.targets.{target}").check
    atheris.Setup([sys.argv[0], *options], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
