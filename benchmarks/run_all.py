"""Runs all benchmarks one after the other and notes what they measured, for ``table.py``.

    python benchmarks/run_all.py RESULTS [--quick]

RESULTS is overwritten. Further options go to every benchmark. One that fails does not stop the
others: ``table.py`` names it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from results import BENCHMARKS, VARIABLE, Run, note_run


def run(name: str, options: list[str]) -> Run:
    """Run one to its end."""
    start = time.perf_counter()
    script = Path(__file__).with_name(f"{name}.py")
    status = subprocess.run([sys.executable, script, *options], check=False).returncode
    return Run(name, status, time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, help="file to write")
    arguments, options = parser.parse_known_args()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text("")
    os.environ[VARIABLE] = str(arguments.results.resolve())
    for number, name in enumerate(BENCHMARKS, 1):
        print(f"== {name} ({number} of {len(BENCHMARKS)})", flush=True)
        done = run(name, options)
        note_run(done)
        ended = "took" if done.status == 0 else f"FAILED with status {done.status} after"
        print(f"== {name} {ended} {done.seconds:.0f} s\n", flush=True)


if __name__ == "__main__":
    main()
