"""How long do batches for trainers take, compared with the trainers' own data paths?

    python benchmarks/trainers.py [NAME ...]

For each trainer: seconds an epoch of the same structures, batches and cutoff (5 Å) takes through
its own datasets and loaders and through ours, in turns, and the share of training steps that waits
for data. Each runs in its environment, which ``make .venv-trainers/NAME/done`` makes; without names
those that are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CASES = Path(__file__).parent / "trainer_cases"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = sorted(path.stem for path in CASES.glob("*.py") if path.stem != "common")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"expected names of {', '.join(known)}, got {unknown[0]}")
    failed = []
    for name in names or [name for name in known if _python(name).exists()]:
        rows = _run(name)
        if rows is None:
            failed.append(name)
        for row in rows or ():
            print(_line(row), flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _python(name: str) -> Path:
    return ROOT / ".venv-trainers" / name / "bin" / "python"


def _run(name: str) -> list[dict[str, Any]] | None:
    """Rows of one trainer; None if it failed."""
    if not _python(name).exists():
        print(f"{name}: no environment; `make .venv-trainers/{name}/done` makes it")
        return None
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run(
        [_python(name), CASES / f"{name}.py"], env=environment, text=True, capture_output=True
    )
    if done.returncode:
        print(f"{name}: ended with {done.returncode}\n{done.stderr[-3000:]}", file=sys.stderr)
        return None
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def _line(row: dict[str, Any]) -> str:
    if "waiting" in row:
        return (
            f"{row['trainer']:<12} {row['loader']:<28} waits {100 * row['waiting']:.2f} % of a step"
        )
    rate = row["structures"] / row["ours_s"]
    stock, ours = 1000 * row["stock_s"], 1000 * row["ours_s"]
    return (
        f"{row['trainer']:<12} {row['beside']:<28} {stock:9.1f} ms, ours {ours:7.2f} ms: "
        f"{row['ratio']:6.0f}x ({rate:,.0f} molecules/s)"
    )


if __name__ == "__main__":
    sys.exit(main())
