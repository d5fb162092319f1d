"""`convert(add=...)`: predictions and other arrays next to the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.cli import main

SIZES = [3, 1, 4, 1, 5]
M, N = len(SIZES), sum(SIZES)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "labels.atp"
    with apt.AtpWriter(path) as writer:
        for i, n in enumerate(SIZES):
            forces = torch.full((n, 3), float(i)) if i % 2 else None
            writer.write(
                apt.Molecule(
                    torch.full((n, 3), float(i)),
                    torch.arange(1, n + 1),
                    energy=float(i),
                    forces=forces,
                )
            )
    return path


def predictions() -> dict[str, np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    return {
        "energy_pred": draw.normal(size=M),
        "forces_pred": draw.normal(size=(N, 3)).astype(np.float32),
        "stress_pred": draw.normal(size=(M, 3, 3)),
        "model é": np.array(["a", "b", "ç", "", "e"]),
        "seed": np.arange(M),
        "atom_id": np.arange(N),
    }


def check(path: Path) -> None:
    batch = apt.AtpDataset(path)[:]
    for name, values in predictions().items():
        if name == "model é":
            assert batch[name] == values.tolist()
            continue
        assert np.array_equal(batch[name].numpy(), values), name
        assert batch.level(name) == ("atom" if len(values) == N else "molecule")
    assert batch.energy.tolist() == list(range(M))
    assert batch.mask("forces").tolist() == [False, True, False, True, False]


def test_a_file_of_predictions(source: Path, tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "pred.npz", **predictions())
    command = ["convert", str(source), str(tmp_path / "out.atp"), "--quiet"]
    assert main([*command, "--add", str(tmp_path / "pred.npz")]) == 0
    check(tmp_path / "out.atp")


def test_arrays_tensors_and_several_sources(source: Path, tmp_path: Path) -> None:
    whole = apt.AtpDataset(source)
    for i, part in enumerate((range(2), range(2, M))):
        with apt.AtpWriter(tmp_path / f"{i}.atp") as writer:
            writer.write(whole[list(part)])
    values: dict[str, Any] = predictions()
    values["energy_pred"] = torch.from_numpy(values["energy_pred"])
    report = apt.convert(
        [tmp_path / "0.atp", tmp_path / "1.atp"], tmp_path / "out.atp", add=values, progress=False
    )
    check(tmp_path / "out.atp")
    assert "energy_pred: added, one row per molecule" in report.notes


def test_a_source_that_does_not_know_its_length(source: Path, tmp_path: Path) -> None:
    apt.convert(source, tmp_path / "x.extxyz", progress=False)
    np.savez(tmp_path / "pred.npz", **predictions())
    paths = [tmp_path / "pred.npz"]
    apt.convert(tmp_path / "x.extxyz", tmp_path / "out.atp", add=paths, progress=False)
    check(tmp_path / "out.atp")


def test_types_that_are_widened_later(source: Path, tmp_path: Path) -> None:
    """The sources are read twice, and so are the arrays."""
    with apt.AtpWriter(tmp_path / "more.atp") as writer:
        writer.write(
            apt.Molecule(
                torch.zeros(2, 3, dtype=torch.float64),
                torch.tensor([1, 1]),
                energy=0.0,
                forces=torch.zeros(2, 3, dtype=torch.float64),
            )
        )
    values = {"p": np.arange(M + 1.0), "q": np.arange(N + 2)}
    apt.convert([source, tmp_path / "more.atp"], tmp_path / "o.atp", add=values, progress=False)
    batch = apt.AtpDataset(tmp_path / "o.atp")[:]
    assert batch["p"].tolist() == list(range(M + 1))
    assert batch["q"].tolist() == list(range(N + 2))


def test_labels_are_not_replaced_unless_asked(source: Path, tmp_path: Path) -> None:
    new = {"energy": np.arange(M) + 100.0, "forces": np.ones((N, 3))}
    with pytest.raises(apt.FieldError, match=r"'energy' exists already: .*'energy_pred'"):
        apt.convert(source, tmp_path / "out.atp", add=new, progress=False)
    assert not (tmp_path / "out.atp").exists()
    apt.convert(source, tmp_path / "out.atp", add=new, replace_labels=True, progress=False)
    batch = apt.AtpDataset(tmp_path / "out.atp")[:]
    assert batch.energy.tolist() == [100, 101, 102, 103, 104]
    assert batch.mask("forces").all()


def test_a_label_that_no_structure_has(source: Path, tmp_path: Path) -> None:
    values = {"charges": np.arange(N) / 2, "stress": np.zeros((M, 3, 3))}
    apt.convert(source, tmp_path / "out.atp", add=values, progress=False)
    batch = apt.AtpDataset(tmp_path / "out.atp")[:]
    assert batch.charges.tolist() == [i / 2 for i in range(N)]
    assert batch.mask("stress").all()


def test_one_atom_each(tmp_path: Path) -> None:
    """As many atoms as structures: the name decides."""
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        for _ in range(3):
            writer.write(apt.Molecule(torch.zeros(1, 3), torch.tensor([1])))
    values = {"a": np.arange(3), "atom_properties/b": np.arange(3)}
    apt.convert(tmp_path / "x.atp", tmp_path / "y.atp", add=values, progress=False)
    batch = apt.AtpDataset(tmp_path / "y.atp")[:]
    assert (batch.level("a"), batch.level("b")) == ("molecule", "atom")


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"p": np.zeros(M + 1)}, apt.FieldError, f"expected {M} rows.*or .*{N}, one per atom"),
        ({"p": np.zeros(N - 1)}, apt.FieldError, f"got {N - 1}"),
        ({"p": np.zeros(N + 1)}, apt.FieldError, f"got {N + 1}"),
        ({"p": np.zeros(0)}, apt.FieldError, "got 0"),
        ({"p": np.float64(3)}, apt.FieldError, "got one value"),
        ({"p": np.array([{}] * M, object)}, apt.FieldError, "expected numbers or strings"),
        ({"p": np.zeros(M, complex)}, apt.FieldError, "expected numbers or strings"),
        ({"stress": np.zeros((M, 6))}, apt.FieldError, r"expected shape \('rows', 3, 3\)"),
        ({"positions": np.zeros((N, 3))}, ValueError, "which every molecule has already"),
        ({}, ValueError, "expected at least one array"),
    ],
)
def test_wrong_arrays(
    source: Path, tmp_path: Path, values: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        apt.convert(source, tmp_path / "out.atp", add=values, progress=False)
    assert not (tmp_path / "out.atp").exists()


def test_wrong_files(source: Path, tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(apt.CorruptFileError, match=r"text.npz: expected an .npz file"):
        apt.convert(source, tmp_path / "out.atp", add=tmp_path / "text.npz", progress=False)
    np.savez(tmp_path / "objects.npz", p=np.array([{}] * M, object))
    with pytest.raises(apt.UnsupportedFormatError, match="pickled objects are not read"):
        apt.convert(source, tmp_path / "out.atp", add=tmp_path / "objects.npz", progress=False)
    np.savez(tmp_path / "a.npz", p=np.zeros(M))
    with pytest.raises(ValueError, match="expected each name once, got 'p' twice"):
        apt.convert(source, tmp_path / "o.atp", add=[tmp_path / "a.npz"] * 2, progress=False)
    with pytest.raises(FileNotFoundError):
        apt.convert(source, tmp_path / "o.atp", add=tmp_path / "gone.npz", progress=False)
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[:60] + bytes(20) + data[80:])
    with pytest.raises(apt.CorruptFileError):
        apt.convert(source, tmp_path / "o.atp", add=tmp_path / "cut.npz", progress=False)


@pytest.mark.parametrize("options", [{"part": (0, 2)}, {"on_error": "skip"}])
def test_rows_must_be_counted(source: Path, tmp_path: Path, options: Any) -> None:
    with pytest.raises(ValueError, match="add: expected neither a part nor on_error='skip'"):
        apt.convert(source, tmp_path / "o", add={"p": np.zeros(M)}, progress=False, **options)
