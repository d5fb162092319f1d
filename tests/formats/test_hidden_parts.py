"""Hidden outputs of conversions: those of killed processes are removed by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from atompack_torch.formats.hidden_parts import hidden_part


def test_parts_of_dead_processes_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "a[1].db"
    own = hidden_part(target)
    own.touch()
    begin = own.name.partition("-")[0]
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = [f"{begin}-{ended.pid}-00.part", f"{begin}-{ended.pid}-00.part-journal"]
    for name in dead:
        (tmp_path / name).touch()
    folder = tmp_path / f"{begin}-{ended.pid}-11.part"
    (folder / "inside").mkdir(parents=True)
    kept = [
        f"{begin}-1-00.part",  # of a process that runs
        f"{begin}-x-00.part",
        f".a[1].db.00000000-{ended.pid}-00.part",  # of another machine
        f".b.db.{begin.rpartition('.')[2]}-{ended.pid}-00.part",  # of another target
    ]
    for name in kept:
        (tmp_path / name).touch()
    made = hidden_part(target)
    assert made != own
    assert made.name.startswith(f"{begin}-{os.getpid()}-")
    assert {path.name for path in tmp_path.iterdir()} == {own.name, *kept}
