"""Outputs appear whole or not at all; what killed processes left is removed by the next one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from atompack_torch.publishing import hidden_part, published


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


def _make(path: Path, text: str, is_folder: bool) -> None:
    if is_folder:
        path.mkdir()
    (path / "inside" if is_folder else path).write_text(text)


def _texts(path: Path) -> dict[str, str]:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {file.name: file.read_text() for file in files}


@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("mode", ["w", "x"])
def test_outputs_are_synced_before_they_get_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, is_folder: bool
) -> None:
    target = tmp_path / "made"
    if mode == "w":
        _make(target, "old", is_folder)
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink().relative_to(tmp_path)
        synced.append((path.as_posix(), "new" in _texts(target).values()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    with published(target, mode) as hidden:  # type: ignore[arg-type]
        _make(hidden, "new", is_folder)
    inside = [(f"{hidden.name}/inside", False)] if is_folder else []
    assert synced == [*inside, (hidden.name, False), (".", True)]
    assert [*_texts(tmp_path).values()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("is_folder", [False, True])
def test_an_exclusive_output_replaces_nothing(tmp_path: Path, is_folder: bool) -> None:
    target = tmp_path / "made"
    _make(target, "old", is_folder)
    with pytest.raises(FileExistsError, match="made"), published(target, "x") as hidden:
        _make(hidden, "new", is_folder)
    assert [*_texts(tmp_path).values()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_devices_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("pipe")
    for target in (pipe, link):
        with (
            pytest.raises(OSError, match="expected a regular file") as error,
            published(target) as hidden,
        ):
            hidden.write_text("x")
        assert error.value.filename == str(target)
        assert target.is_fifo()
