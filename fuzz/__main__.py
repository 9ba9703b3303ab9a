"""Run targets one after another, each in a process of its own, and say what was found."""

import argparse
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from fuzz.targets import names

FINDINGS = Path("build/fuzz")
SECONDS_FOR_ONE_INPUT = 10
MEGABYTES = 2048


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Feed the parsers garbage.")
    parser.add_argument("--seconds", type=int, default=60, help="how long for each target (default: 60)")
    parser.add_argument("target", nargs="*", help=f"which ones (default: all): {', '.join(names())}")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.target) - set(names()))
    if unknown:
        parser.error(f"there is no target {', '.join(unknown)}; choose from {', '.join(names())}")
    if arguments.seconds < 1:
        parser.error("--seconds must be at least 1")
    if find_spec("atheris") is None:
        print("nothing was fuzzed: atheris is not installed; it exists for Linux and Python below 3.14")
        return 0
    clean = [fuzz(target, arguments.seconds) for target in arguments.target or names()]
    return 0 if all(clean) else 1


def fuzz(target: str, seconds: int) -> bool:
    """Whether `target` held; otherwise the input that broke it is kept and named."""
    FINDINGS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        module = import_module(f"fuzz.targets.{target}")
        for number, example in enumerate(module.EXAMPLES):
            Path(corpus, str(number)).write_bytes(example)
        command = [sys.executable, "-m", "fuzz.child", target, corpus]
        command += [f"-max_total_time={seconds}", f"-max_len={module.LONGEST}", "-print_final_stats=1"]
        command += [f"-timeout={SECONDS_FOR_ONE_INPUT}", f"-rss_limit_mb={MEGABYTES}"]
        command += [f"-artifact_prefix={FINDINGS / target}-"]
        ended = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    counted = re.search(r"number_of_executed_units:\s*(\d+)", ended.stdout)
    executions = int(counted[1]) if counted else 0
    if ended.returncode == 0 and executions:
        print(f"{target}: {executions:,} executions in {seconds} s, no finding", flush=True)
        return True
    print(ended.stdout[-4000:])
    print(
        f"{target}: FINDING after {executions:,} executions (exit code {ended.returncode}); "
        f"the input is in {FINDINGS}",
        flush=True,
    )
    return False


if __name__ == "__main__":
    sys.exit(main())
