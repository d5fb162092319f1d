"""Ray Data with two workers: values, missing ones too, and what is left when tasks die."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.errors import AtompackError, FieldError

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.timeout(300)

N = 240


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """Two workers, which get functions of this module by value."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        logging_level="error",
        _node_ip_address="127.0.0.1",
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Molecules of 1 to 5 atoms in two files; every label is missing in some."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        with apt.AtpWriter(folder / f"{name}.atp") as writer:
            for k in range(N // 2):
                n = 1 + k % 5
                molecule = apt.Molecule.from_ase(_atoms(rng, n))
                molecule.set_property("number", k)
                if k % 3:
                    molecule.set_property("count", k)
                    molecule.set_property("text", f"Grüße {k}")
                if k % 4:
                    molecule.set_property("vector", rng.normal(size=4))
                    molecule.set_property("tensor", rng.normal(size=(2, 1 + k % 3, 4)))
                if k % 5:
                    molecule.set_property("spin", rng.normal(size=n), level="atom")
                    molecule.set_property("rows", rng.normal(size=(n, 2, 2)), level="atom")
                writer.write(molecule)
    return folder


def _atoms(rng: np.random.Generator, n: int) -> Any:
    import ase
    from ase.calculators.singlepoint import SinglePointCalculator

    atoms = ase.Atoms(rng.integers(1, 90, n), rng.normal(size=(n, 3)))
    results = {"energy": float(rng.normal()), "forces": rng.normal(size=(n, 3))}
    if rng.random() < 0.5:
        atoms.set_cell(np.eye(3) * 9 + rng.random((3, 3)))
        atoms.pbc = [True, False, True]
        results["stress"] = rng.normal(size=6)
    if rng.random() < 0.7:
        atoms.calc = SinglePointCalculator(atoms, **results)
    return atoms


def rows(path: Path) -> list[dict[str, Any]]:
    """Each molecule as plain values; what it does not have is omitted."""
    found = []
    for molecule in apt.AtpDataset(path):
        values = {key: molecule[key] for key in molecule.keys() if key != "index"}
        plain = {
            key: (value.tolist(), str(value.dtype)) if isinstance(value, torch.Tensor) else value
            for key, value in values.items()
            if value is not None
        }
        found.append(dict(sorted(plain.items())))
    return found


def assert_equal(made: Path, source: Path) -> None:
    """Every molecule once, in order, with the same values of the same types."""
    assert rows(made) == rows(source)
    assert len(apt.AtpDataset(made)) == N


def assert_nothing_else(folder: Path) -> None:
    """Nothing next to the folder, and parts alone in it."""
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"part-{i:05}-of-{len(names):05}.atp" for i in range(len(names))]


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("n_tasks", [1, 7])
def test_there_and_back(source: Path, tmp_path: Path, codec: Any, n_tasks: int) -> None:
    dataset = apt.ray.read_atp(source, override_num_blocks=n_tasks)
    assert dataset.count() == N
    dataset.write_datasink(apt.ray.AtpDatasink(tmp_path / "out", codec=codec))
    assert_equal(tmp_path / "out", source)
    assert_nothing_else(tmp_path / "out")
    assert len([*(tmp_path / "out").iterdir()]) == n_tasks


def test_columns(source: Path) -> None:
    dataset = apt.ray.read_atp(source, override_num_blocks=3)
    types = dict(zip(dataset.schema().names, map(str, dataset.schema().types), strict=True))
    assert types["positions"] == "list<item: fixed_size_list<item: double>[3]>"
    assert types["count"] == types["index"] == "int64"
    assert types["energy"] == "double"
    assert types["text"] == "string"
    assert types["spin"] == "list<item: double>"
    assert types["vector"] == "fixed_size_list<item: double>[4]"
    assert types["tensor"] == "struct<data: list<item: double>, shape: list<item: int64>>"
    found = sorted(dataset.take_all(), key=lambda row: row["index"])
    stored = apt.AtpDataset(source)
    assert [row["index"] for row in found] == list(range(N))
    for row, molecule in zip(found, stored, strict=True):
        assert set(row) - {"index"} == {*stored.schema}
        for name in stored.schema:
            value, expected = row[name], molecule.get(name)
            if expected is None:
                assert value is None, name
            elif name in ("tensor", "rows"):
                assert value["data"] == expected.ravel().tolist()
                assert value["shape"] == [*expected.shape]
            elif isinstance(expected, torch.Tensor):
                assert np.asarray(value).tolist() == expected.tolist(), name
            else:
                assert value == expected, name
    assert any(row["count"] is None for row in found)
    assert any(row["cell"] is None for row in found)


def test_fields_and_missing_ones(source: Path, tmp_path: Path) -> None:
    dataset = apt.ray.read_atp([source / "a.atp"], ["energy", "count"], missing="drop")
    expected = [
        molecule.energy.item()
        for molecule in apt.AtpDataset(source / "a.atp")
        if molecule.energy is not None and molecule.get("count") is not None
    ]
    # Ray hands on blocks as tasks end.
    found = sorted(dataset.take_all(), key=lambda row: row["index"])
    assert [row["energy"] for row in found] == expected
    assert {*found[0]} == {"index", "positions", "atomic_numbers", "energy", "count"}
    with pytest.raises(FieldError, match="no field 'energi'"):
        apt.ray.read_atp(source, ["energi"])
    with pytest.raises(TypeError, match="neighbors: expected an option on what is stored"):
        apt.ray.read_atp(source, neighbors=apt.NeighborList(4.0))
    with pytest.raises(FileNotFoundError):
        apt.ray.read_atp(tmp_path / "none.atp")


@pytest.mark.parametrize("form", ["pyarrow", "numpy", "pandas"])
def test_functions_on_batches(source: Path, tmp_path: Path, form: str) -> None:
    """Batches in other forms lose what is not in their types: levels and integers next to NaN."""
    fields = ["energy", "forces", "number", "text", "spin", "vector", "tensor"]

    def doubled(batch: Any) -> Any:
        if form == "pyarrow":
            import pyarrow.compute as pc

            place = batch.column_names.index("energy")
            return batch.set_column(place, "energy", pc.multiply(batch["energy"], 2.0))
        batch["energy"] = batch["energy"] * 2
        return batch

    dataset = apt.ray.read_atp(source, fields, override_num_blocks=4)
    dataset = dataset.map_batches(doubled, batch_format=form, batch_size=17)
    dataset.write_datasink(apt.ray.AtpDatasink(tmp_path / "out", atom_properties=["spin"]))
    made = apt.AtpDataset(tmp_path / "out", nan_is_missing=True)[:]
    whole = apt.AtpDataset(source, fields=fields)[:]
    assert torch.equal(made.positions, whole.positions)
    assert torch.equal(made.number, whole.number)
    for name in ("energy", "forces", "spin", "vector"):
        assert torch.equal(made.mask(name), whole.mask(name)), name
        factor = 2 if name == "energy" else 1
        values = torch.nan_to_num(whole[name], -1.0) * factor
        assert torch.equal(torch.nan_to_num(made[name], -1.0 * factor), values), name
    assert made.text == whole.text
    for one, other in zip(made.tensor, whole.tensor, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


class Dying(apt.ray.AtpDatasink):
    """Each task dies the first time, after its file is complete or before, or at random."""

    def __init__(self, folder: Path, notes: Path, how: str) -> None:
        super().__init__(folder)
        self.notes, self.how = notes, how

    def write(self, blocks: Any, ctx: Any) -> Any:
        note = self.notes / str(ctx.task_idx)
        is_first = not note.exists()
        note.touch()
        if is_first and self.how == "killed in the middle":

            def until_killed() -> Iterator[Any]:
                yield from blocks
                os._exit(1)

            return super().write(until_killed(), ctx)
        result = super().write(blocks, ctx)
        if self.how == "killed at random" and secrets.randbelow(5) < 2:
            os._exit(1)
        if is_first and self.how == "killed":
            os._exit(1)
        if is_first and self.how == "raising":
            raise OSError("a disk that is full for a moment")
        return result


@pytest.mark.parametrize("how", ["killed", "killed in the middle", "killed at random", "raising"])
def test_tasks_that_die_are_repeated(source: Path, tmp_path: Path, how: str) -> None:
    """Nothing is lost and nothing occurs twice, whatever a task had written before."""
    (notes := tmp_path / "notes").mkdir()
    (out := tmp_path / "made" / "out").parent.mkdir()
    dataset = apt.ray.read_atp(source, override_num_blocks=4)
    again = {"max_retries": 30, "retry_exceptions": [OSError]}
    dataset.write_datasink(Dying(out, notes, how), ray_remote_args=again)
    assert len([*notes.iterdir()]) == 4
    assert_equal(out, source)
    assert_nothing_else(out)


class Failing(apt.ray.AtpDatasink):
    """One task fails for good, while others have written their files."""

    def write(self, blocks: Any, ctx: Any) -> Any:
        result = super().write(blocks, ctx)
        if ctx.task_idx == 2:
            raise RuntimeError("for good")
        return result


def test_a_task_that_fails_leaves_nothing(source: Path, tmp_path: Path) -> None:
    dataset = apt.ray.read_atp(source, override_num_blocks=4)
    with pytest.raises(Exception, match="for good"):
        dataset.write_datasink(Failing(tmp_path / "out"))
    assert [*tmp_path.iterdir()] == []
    dataset.write_datasink(apt.ray.AtpDatasink(tmp_path / "out"))
    assert_equal(tmp_path / "out", source)


def test_read_tasks_that_die_are_repeated(source: Path, tmp_path: Path) -> None:
    (notes := tmp_path / "notes").mkdir()

    def once(batch: Any) -> Any:
        note = notes / str(batch["index"][0].as_py())
        if not note.exists():
            note.touch()
            os._exit(1)
        return batch

    dataset = apt.ray.read_atp(source, override_num_blocks=3)
    dataset = dataset.map_batches(once, batch_format="pyarrow", batch_size=None, max_retries=5)
    assert sorted(row["index"] for row in dataset.take_all()) == list(range(N))
    assert len([*notes.iterdir()]) == 3


def test_files_are_read_as_of_the_call(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.atp"
    apt.convert(source / "a.atp", path, progress=False)
    dataset = apt.ray.read_atp(path)
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.AtpDataset(path)[0])
    assert dataset.count() == N // 2
    assert apt.ray.read_atp(path).count() == N // 2 + 1


def test_types_that_differ_between_tasks(source: Path, tmp_path: Path) -> None:
    def mixed(batch: Any) -> Any:
        first = batch["index"][0].as_py()
        value = pa.array([1 if first else 0.5] * len(batch))
        return batch.append_column("mixed", value)

    dataset = apt.ray.read_atp(source, ["energy"], override_num_blocks=2)
    dataset = dataset.map_batches(mixed, batch_format="pyarrow", batch_size=None)
    with pytest.raises(FieldError, match=r"mixed: .* cast the column to one type"):
        dataset.write_datasink(apt.ray.AtpDatasink(tmp_path / "out"))
    assert [*tmp_path.iterdir()] == []


def test_rows_of_other_shapes_are_named(tmp_path: Path) -> None:
    one = {"positions": [[0.0, 0.0, 0.0]], "atomic_numbers": [1]}
    two = {"positions": [[0.0] * 3, [1.0] * 3], "atomic_numbers": [1, 8]}

    def write(**columns: Any) -> None:
        table = pa.Table.from_pylist(
            [{**row, **{k: v[i] for k, v in columns.items()}} for i, row in enumerate((one, two))]
        )
        out = tmp_path / f"out {len([*tmp_path.iterdir()])}"
        ray.data.from_arrow(table).write_datasink(apt.ray.AtpDatasink(out))

    write(gap=[1, None], charges=[[0.5], [1.5, 2.5]])
    batch = apt.AtpDataset(tmp_path / "out 0")[:]
    assert (batch.gap.tolist(), batch.mask("gap").tolist()) == ([1, 0], [True, False])
    assert batch.charges.tolist() == [0.5, 1.5, 2.5]
    nulls = [[[0.0] * 3], None]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("name the column in atom_properties", {"spin": [[1.0], [1.0, 2.0]]}),
        (r"charges: expected a row for each of 2 atoms, got 1 \(row 1\)", {"charges": [[1], [2]]}),
        (
            "positions: expected values in all rows, got null in row 1",
            {"positions": nulls},
        ),
        ("spin: expected numbers in arrays, got null", {"spin": [[1.0, None], [1.0, 2.0]]}),
    ]
    for message, columns in wrong:
        with pytest.raises(Exception, match=message):
            write(**columns)
    with pytest.raises(Exception, match="positions: expected a column"):
        ray.data.range(3).write_datasink(apt.ray.AtpDatasink(tmp_path / "none"))
    assert [path.name for path in tmp_path.iterdir()] == ["out 0"]


def test_nothing_to_write(source: Path, tmp_path: Path) -> None:
    dataset = apt.ray.read_atp(source).filter(lambda row: False)
    dataset.write_datasink(apt.ray.AtpDatasink(tmp_path / "out"))
    assert len(apt.AtpDataset(tmp_path / "out")) == 0
    assert apt.ray.read_atp(tmp_path / "out").count() == 0


def test_wrong_targets(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (source, tmp_path / "file"):
        with pytest.raises(FileExistsError, match="choose another folder"):
            apt.ray.AtpDatasink(path)
    with pytest.raises(ValueError, match="got a URL"):
        apt.ray.AtpDatasink("s3://bucket/key")
    with pytest.raises(ValueError, match="codec"):
        apt.ray.AtpDatasink(tmp_path / "out", codec="gzip")  # type: ignore[arg-type]
    sink = apt.ray.AtpDatasink(tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").touch()
    with pytest.raises(Exception, match="choose another folder"):
        apt.ray.read_atp(source).write_datasink(sink)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


def test_lost_files_are_noticed(source: Path, tmp_path: Path) -> None:
    class Forgetting(apt.ray.AtpDatasink):  # type: ignore[misc,name-defined]
        def write(self, blocks: Any, ctx: Any) -> Any:
            result = super().write(blocks, ctx)
            return None if ctx.task_idx == 1 else result

    dataset = apt.ray.read_atp(source, override_num_blocks=3)
    with pytest.raises(AtompackError, match="expected 240 molecules, got reports of 160"):
        dataset.write_datasink(Forgetting(tmp_path / "out"))
    assert [*tmp_path.iterdir()] == []


def test_without_ray() -> None:
    script = """
import sys
sys.modules["ray"] = None
import atompack_torch as apt
for call in (lambda: apt.ray.read_atp("x"), lambda: apt.ray.AtpDatasink):
    try:
        call()
    except ImportError as error:
        assert "pip install 'ray[data]'" in str(error), error
    else:
        raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=100)
