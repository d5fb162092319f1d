"""Conversion in parts: the same dataset in any order, again, after a kill, all immediately."""

from __future__ import annotations

import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import ase
import ase.constraints
import ase.io
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from processes.client import ScriptServer

import atompack_torch as apt
from atompack_torch.conversion import Changes, Report, convert
from atompack_torch.conversion.pipe import Span, spans
from atompack_torch.errors import FieldError

N = 23


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Frames numbered 0 to 22: the label `step` is an integer in the first, real in the last."""
    images = []
    for k in range(N):
        atoms = ase.Atoms("H" * (1 + k % 3), np.full((1 + k % 3, 3), float(k)))
        atoms.info["step"] = k if k < 18 else k + 0.5
        if k % 4:
            atoms.info["gap"] = k / 7
        images.append(atoms)
    path = tmp_path / "source.extxyz"
    ase.io.write(path, images)
    return path


def run(*arguments: Any, **options: Any) -> Report:
    return convert(*arguments, progress=False, **options)


def contents(path: Path) -> list[Any]:
    dataset = apt.AtpDataset(path)
    batch = dataset[:]
    gaps = zip(batch.gap.tolist(), batch.mask("gap").tolist(), strict=True)
    gap = [value if has else None for value, has in gaps]
    return [batch.positions.tolist(), batch.step.tolist(), gap, batch.n_atoms.tolist()]


def files(folder: Path) -> dict[str, bytes]:
    """Names and bytes of all files but the reports."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.mark.parametrize("n_parts", [1, 4, 40])
def test_parts_make_the_whole(source: Path, tmp_path: Path, n_parts: int) -> None:
    run([source, source], tmp_path / "whole.atp")
    folder = tmp_path / "parts"
    order = np.random.default_rng(n_parts).permutation(n_parts).tolist()
    reports = [run([source, source], folder, part=(i, n_parts)) for i in order]
    assert sum(report.structures_written for report in reports) == 2 * N
    names = [f"part-{i:05}-of-{n_parts:05}.atp" for i in range(n_parts)]
    assert sorted(files(folder)) == [*names, "parts.json"]
    assert contents(folder) == contents(tmp_path / "whole.atp")
    other = tmp_path / "other"
    for i in range(n_parts):
        run([source, source], other, part=(i, n_parts))
    assert files(other) == files(folder)


def test_an_existing_part_is_left_alone(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    run(source, folder, part=(1, 2))
    (path,) = folder.glob("*.atp")
    before = path.stat()
    report = run(source, folder, part=(1, 2))
    assert (report.structures_read, report.structures_written) == (0, 0)
    assert report.notes == [f"{path}: exists already, and was left alone"]
    assert path.stat() == before
    report = run(source, folder, part=(1, 2), mode="w")
    assert report.structures_written == 12
    assert path.stat().st_ino != before.st_ino


def test_reports_of_all_parts_are_summed(source: Path, tmp_path: Path) -> None:
    """As of one run, even after parts were left alone or converted again, and if one is lost."""
    changed = {"on_error": "skip", "changes": Changes(energy_unit="Ha")}
    images = ase.io.read(source, ":")
    for k, atoms in enumerate(images):
        forces = np.full((len(atoms), 3), np.nan if k % 5 == 0 else 1.0)
        atoms.calc = SinglePointCalculator(atoms, energy=float(k), forces=forces)
        atoms.set_constraint(ase.constraints.FixAtoms([0]) if k % 2 else None)
    given = tmp_path / "x.db"
    ase.io.write(given, images)
    expected = run(given, tmp_path / "whole.atp", **changed).as_dict()
    folder = tmp_path / "parts"
    for i in (2, 0, 0):
        assert run(given, folder, part=(i, 3), **changed).whole is None
    last = run(given, folder, part=(1, 3), **changed)
    again = run(given, folder, part=(2, 3), **changed)
    replaced = run(given, folder, part=(0, 3), mode="w", **changed)
    assert again.structures_read == 0
    for report in (last, again, replaced):
        assert report.whole is not None
        found = report.whole.as_dict()
        for name in expected.keys() - {"seconds", "bytes_written"}:
            assert found[name] == expected[name], name
        assert found["seconds"] > 0
        assert found["bytes_written"] > 0
        assert "all parts\n" in str(report)
        assert report.as_dict()["whole"] == found
    assert all(expected[name] for name in ("skipped", "changes", "nan_as_missing"))
    (folder / ".reports" / "part-00001-of-00003.json").write_text('{"skipped": 3}')
    lost = run(given, folder, part=(1, 3), **changed).whole
    assert lost is not None
    assert lost.notes[-1].startswith("part-00001-of-00003.atp: its report was lost")
    assert lost.structures_written == 8 + 7


def test_missing_parts_are_named(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    run(source, folder, part=(0, 3))
    run(source, folder, part=(2, 3))
    with pytest.warns(UserWarning, match=r"1 of 3 parts are missing"):
        assert len(apt.AtpDataset(folder)) == 7 + 8
    assert len(apt.AtpDataset(sorted(folder.glob("*.atp")))) == 7 + 8
    run(source, folder, part=(1, 3))
    assert len(apt.AtpDataset(folder)) == N


@pytest.mark.parametrize("form", ["x.atp", "shards", "x.db", "x.traj", "x.npz"])
def test_every_kind_of_source(source: Path, tmp_path: Path, form: str) -> None:
    """Sources that can seek, those that are read whole, and those of unknown length."""
    given = tmp_path / form
    if form == "x.npz":
        np.savez(given, R=np.arange(N * 6.0).reshape(N, 2, 3), z=[1, 1], E=np.arange(N) / 3)
    elif form == "x.traj":
        ase.io.write(given, ase.io.read(source, ":"))
    else:
        run(source, given, target="shards" if form == "shards" else None)
    run(given, tmp_path / "whole.atp")
    folder = tmp_path / "parts"
    for i in (2, 0, 1):
        run(given, folder, part=(i, 3))
    whole, parts = apt.AtpDataset(tmp_path / "whole.atp"), apt.AtpDataset(folder)
    assert whole.schema == parts.schema
    for one, other in zip(whole, parts, strict=True):
        assert one.positions.tolist() == other.positions.tolist()
        assert [*one.keys()] == [*other.keys()]
        assert all(str(one[key]) == str(other[key]) for key in one.keys())


def test_types_come_from_the_whole_source(source: Path, tmp_path: Path) -> None:
    """No part before the last has a real number, and none after the first an integer alone."""
    run(source, tmp_path / "x.atp")
    for given in (source, tmp_path / "x.atp"):
        folder = tmp_path / f"parts of {given.name}"
        for i in range(5):
            run(given, folder, part=(i, 5))
        for path in folder.glob("*.atp"):
            assert str(apt.AtpDataset(path).schema["step"].dtype) == "torch.float64"
        assert apt.AtpDataset(folder)[:].step[[3, -1]].tolist() == [3.0, 22.5]


def test_types_of_files_that_are_told_before_reading(tmp_path: Path) -> None:
    sources = [tmp_path / "integers.atp", tmp_path / "reals.atp"]
    for path, values in zip(sources, (np.arange(4), np.arange(4) + 0.5), strict=True):
        with apt.AtpWriter(path) as writer:
            writer.write_arrays(
                positions=np.zeros((4, 1, 3)), atomic_numbers=[1], properties={"gap": values}
            )
    folder = tmp_path / "parts"
    for i in range(2):
        report = run(sources, folder, part=(i, 2))
        assert not [warning for warning in report.warnings if warning.startswith("gap")]
    assert apt.AtpDataset(folder)[:].gap.tolist() == [0, 1, 2, 3, 0.5, 1.5, 2.5, 3.5]


def test_types_that_nothing_tells_are_warned_of(tmp_path: Path) -> None:
    """Shards state no types: the parts differ, which is said when they are made and read."""
    with apt.ShardWriter(tmp_path / "shards", 10, 10) as writer:
        for k in range(8):
            structure = {"positions": np.zeros((1, 3)), "atomic_numbers": np.ones(1, int)}
            writer.write({**structure, "gap": k if k < 4 else k + 0.5})
    folder = tmp_path / "parts"
    report = run(tmp_path / "shards", folder, part=(0, 2))
    assert not [warning for warning in report.warnings if warning.startswith("gap")]
    report = run(tmp_path / "shards", folder, part=(1, 2))
    expected = "gap: float64 in one file, int64 in another (part-00000-of-00002.atp and part-0000"
    assert any(expected in warning for warning in report.warnings), report.warnings
    with pytest.raises(FieldError, match=r"int64 and float64 \(field 'gap'\)"):
        apt.AtpDataset(folder)[:]


def test_another_conversion_is_refused(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    run(source, folder, part=(0, 2))
    with pytest.raises(ValueError, match=r"part-00000-of-00002\.atp, which is none of 3 parts"):
        run(source, folder, part=(1, 3))
    with pytest.raises(ValueError, match=r"other sources or options \(key_map\)"):
        run(source, folder, part=(1, 2), key_map={"gap": "energy"})
    with pytest.raises(ValueError, match=r"other sources or options \(structures\)"):
        run([source, source], folder, part=(1, 2))
    run(source, tmp_path / "x.atp")
    with pytest.raises(ValueError, match="which is none of 2 parts"):
        run(source, tmp_path, part=(1, 2))
    wrong = [((2, 2), ValueError), ((0, 0), ValueError), ((-1, 2), ValueError), (1, TypeError)]
    for part, error in wrong:
        with pytest.raises(error, match=r"^part: expected"):
            run(source, folder, part=part)
    with pytest.raises(ValueError, match=r"only \.atp files"):
        run(source, folder, part=(1, 2), target="extxyz")
    with pytest.raises(ValueError, match="not appended to"):
        run(source, folder, part=(1, 2), mode="a")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        run(source, tmp_path / "file", part=(0, 2))


def test_a_mistake_is_corrected_without_removing_anything(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    with pytest.raises(FieldError):
        run(source, folder, part=(0, 2), key_map={"none": "energy"})
    for i in range(2):
        run(source, folder, part=(i, 2), key_map={"gap": "energy"})
    assert apt.AtpDataset(folder)[:].energy[1].item() == 1 / 7


def test_keys_that_only_one_part_has(source: Path, tmp_path: Path) -> None:
    images = ase.io.read(source, ":")
    for atoms in images[1:]:
        del atoms.info["step"]
    ase.io.write(tmp_path / "x.traj", images)
    folder = tmp_path / "parts"
    for i in range(3):
        run(tmp_path / "x.traj", folder, part=(i, 3), key_map={"step": "first"})
    assert apt.AtpDataset(folder)[:].mask("first").tolist() == [True] + [False] * (N - 1)


@pytest.mark.parametrize("counts", [[0], [7], [3, 0, 5], [0, 1, 0], [2, 2, 2]])
def test_spans_cover_everything_once(counts: list[int]) -> None:
    """Also structures that a source has beyond those counted."""
    for n_parts, surplus in product((1, 2, 3, 7, 11), (0, 2)):
        found = []
        for i in range(n_parts):
            for source, span in enumerate(spans((i, n_parts), counts)):
                last = counts[source] + surplus if span.last is None else span.last
                found += [(source, k) for k in range(span.first, last)]
        assert found == sorted((s, k) for s, n in enumerate(counts) for k in range(n + surplus))
    assert Span().length(5) == 5


SLOW = """
    import os, sys, time
    import ase, ase.io
    from pathlib import Path
    os.chdir(sys.argv[1])
    plain = ase.io.iread
    def images(*arguments, **options):
        for k, atoms in enumerate(plain(*arguments, **options)):
            yield atoms
            if k == 0:
                passes.append(k)
            if Path("slow").exists() and k == 1500 and len(passes) == 2:  # the first one counts
                print("in the middle", flush=True)
                time.sleep(100)
    passes = []
    ase.io.iread = images
    from atompack_torch.conversion import convert
    convert("x.traj", "parts", part=(1, 3), progress=False)
"""


def test_a_killed_part_is_made_by_the_next_run(tmp_path: Path, scripts: ScriptServer) -> None:
    """SIGKILL in the middle leaves a hidden file, which the next run replaces."""
    images = [ase.Atoms("H", [[k, 0, 0]], info={"gap": k / 3, "step": k}) for k in range(2700)]
    ase.io.write(tmp_path / "x.traj", images)
    (tmp_path / "slow").touch()
    script = scripts.start(textwrap.dedent(SLOW), tmp_path)
    script.wait_for("in the middle")
    script.kill()
    folder = tmp_path / "parts"
    left = sorted(path.name for path in folder.iterdir())
    assert left == [".part-00001-of-00003.atp.new", "parts.json"]
    (tmp_path / "slow").unlink()
    for i in (0, 1, 2):
        run(tmp_path / "x.traj", folder, part=(i, 3))
    names = [f"part-{i:05}-of-00003.atp" for i in range(3)]
    assert sorted(files(folder)) == [*names, "parts.json"]
    assert apt.AtpDataset(folder)[:].step.tolist() == list(range(2700))


def test_parts_at_the_same_time(source: Path, tmp_path: Path, scripts: ScriptServer) -> None:
    """As torchrun starts them, with one part started twice: while the first writes it, or after."""
    folder = tmp_path / "parts"
    started = [
        scripts.start_command(
            "convert", source, folder, "--part", "auto", RANK=str(i % 3), WORLD_SIZE="3"
        )
        for i in range(4)
    ]
    for script in started:
        status, _, errors = script.wait()
        second = "another writer has this file open" in errors or "exists already" in errors
        assert status == 0 or second, errors
    assert apt.AtpDataset(folder)[:].step.tolist() == [*range(18), 18.5, 19.5, 20.5, 21.5, 22.5]


def test_the_command(source: Path, tmp_path: Path, scripts: ScriptServer) -> None:
    command = scripts.command
    folder = tmp_path / "parts"
    task = {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}
    array = {**task, "SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "1"}
    assert command("convert", source, folder, "--part", "auto", **array).returncode == 0
    again = command("convert", source, folder, "--part", "1/2")
    assert again.returncode == 0
    assert "part-00001-of-00002.atp: exists already, and was left alone" in again.stdout
    assert command("convert", source, folder, "--part", "0/2").returncode == 0
    assert len(apt.AtpDataset(folder)) == N
    for given in ("2/2", "1", "-1/2", "x", "1/0"):
        wrong = command("convert", source, folder, f"--part={given}")
        assert wrong.returncode == 2, given
        assert "--part: expected" in wrong.stderr
