"""The table of all benchmarks: from what they note to Markdown and a picture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"
NOTES = """
from results import Result, Run, note, note_run

note(Result("ATLAS store", "write", 2.0, "ms", "Zarr", 5.0))
note(Result("ATLAS store", "write", 2.0, "ms", "bare copy", 1.0, reference=True))
note(Result("ATLAS store", "open", 1234.5, "stores/s", "Zarr", 12345.0))
note(Result("ATLAS store", "alone", 0.125, "GB/s"))
note_run(Run("atlas", 0, 1.5))
note_run(Run("convert", 3, 1.5))
"""


def run(script: Path, *arguments: object, results: Path | None = None) -> tuple[int, str]:
    """Status and output."""
    environment = {key: value for key, value in os.environ.items() if key != "BENCH_RESULTS"}
    if results is not None:
        environment["BENCH_RESULTS"] = str(results)
    environment["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *sys.path])
    command = [sys.executable, str(script), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def test_table_and_picture(tmp_path: Path) -> None:
    script, results = tmp_path / "atlas.py", tmp_path / "results.jsonl"
    script.write_text(NOTES)
    assert run(script, results=results) == (0, "")
    status, printed = run(FOLDER / "table.py", results, "--out", tmp_path / "out")
    assert status == 1  # most benchmarks are missing
    assert (tmp_path / "out" / "table.md").read_text() == printed
    lines = printed.splitlines()
    assert lines[2:5] == [
        "| ATLAS store | write | 2 ms | 2.5x Zarr (5 ms) | 50% of the speed of bare copy (1 ms) |",
        "| ATLAS store | open | 1,234 stores/s | 0.1x Zarr (12,345 stores/s) |  |",
        "| ATLAS store | alone | 0.125 GB/s |  |  |",
    ]
    assert "- `convert` failed with status 3 after 0 cases" in lines
    assert "- `read_atp` is missing: did not run" in lines
    assert not any("`atlas`" in line for line in lines)
    assert (tmp_path / "out" / "benchmarks.png").read_bytes().startswith(b"\x89PNG")


def test_no_file_no_notes(tmp_path: Path) -> None:
    script = tmp_path / "atlas.py"
    script.write_text(NOTES)
    assert run(script) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["atlas.py"]
