"""Every file of the fixtures against the values the original reads from it.

Where our rules are stricter than the original's, the test below says so by the file's name.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference import fixture_json
from reference.atp_file import AtpFile
from reference.atp_record import BadFileError, BadValueError, Value
from reference.collate import FieldClashError, ReferenceDataset
from reference.compare import assert_batch, assert_molecule, assert_same, tensor_of
from reference.fixture_files import names_of
from reference.names import reserved_names

import atompack_torch as apt

NAMES = names_of("atp/*", ".atp")

# The original opens these; every molecule in them would be wrong or unreadable, so we refuse.
REFUSED_AT_OPEN = {"bad_no_schema_v3", "bad_schema_255_v3", "odd_index_count"}
# The original reads these although index and record disagree on the number of atoms.
REFUSED_MOLECULES = {"bad_index_atoms": {0, 1}}
UNSUPPORTED = {
    "bad_a_version",
    "bad_version_3",
    "bad_record_format_1",
    "bad_record_format_4",
    "bad_schema_version",
}
# Single values for which our rule differs; each has a test of its own below.
OWN_VALUE_RULE = {"odd_both_scopes", "odd_dup_custom", "odd_tensor_rank0"}


def read_or_error(dataset: ReferenceDataset, indices: list[int]) -> object:
    """The reference's batch, or the class of error that the package must raise."""
    try:
        return dataset.batch(indices)
    except BadFileError:
        return apt.CorruptFileError
    except FieldClashError:
        return apt.FieldError


def index_lists(n: int) -> list[list[int]]:
    """Whole, empty, single, reversed and repeating selections."""
    everything = list(range(n))
    lists = [[], everything, everything[::-1], *([i] for i in everything)]
    if n > 1:
        lists += [[n - 1, 0, n - 1], [1, 0], [0, 1], [n // 2, n - 1], [-1, 0, -n]]
    return lists


def test_the_set_is_complete(fixtures: Path) -> None:
    groups = {name.split("_")[0] for name in NAMES}
    assert {"bad", "odd", "cut", "tail", "legacy", "codec", "only", "v3", "gen3"} <= groups
    assert len(NAMES) >= 80
    assert all((fixtures / f"{name}.json").is_file() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_molecules_or_the_error_of_opening(fixtures: Path, name: str) -> None:
    expected = fixture_json.load(fixtures / f"{name}.json")
    path = fixtures / f"{name}.atp"
    if expected.opens and name not in REFUSED_AT_OPEN:
        assert_molecules(path, expected.molecules)
        return
    error = apt.UnsupportedFormatError if name in UNSUPPORTED else apt.CorruptFileError
    with pytest.raises(error) as caught:
        apt.AtpDataset(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert isinstance(caught.value, apt.AtompackError)


def assert_molecules(path: Path, expected: list[Any]) -> None:
    dataset = apt.AtpDataset(path)
    assert len(dataset) == len(expected)
    for i, molecule in enumerate(expected):
        if molecule is None or i in REFUSED_MOLECULES.get(path.stem, ()):
            with pytest.raises(apt.CorruptFileError, match=f"molecule {i}") as caught:
                dataset[i]
            assert str(caught.value).startswith(f"{path}: ")
            with pytest.raises(apt.CorruptFileError, match=f"molecule {i}"):
                dataset.batch([i])
        elif path.stem not in OWN_VALUE_RULE:
            assert_molecule(dataset[i], molecule, apt.CorruptFileError)


@pytest.mark.parametrize("name", NAMES)
def test_reference_agrees_with_the_original(fixtures: Path, name: str) -> None:
    """The reference must deserve its name: the same values as in the JSON, bit for bit."""
    expected = fixture_json.load(fixtures / f"{name}.json")
    if not expected.opens or name in REFUSED_AT_OPEN:
        with pytest.raises(BadFileError):
            AtpFile.open(fixtures / f"{name}.atp")
        return
    file = AtpFile.open(fixtures / f"{name}.atp")
    assert len(file) == len(expected.molecules)
    for i, molecule in enumerate(expected.molecules):
        if molecule is None or i in REFUSED_MOLECULES.get(name, ()):
            with pytest.raises(BadFileError):
                file.molecule(i)
            continue
        got = file.molecule(i)
        assert_same(tensor_of(got.positions), tensor_of(molecule.positions), "positions")
        assert_same(tensor_of(got.atomic_numbers), tensor_of(molecule.atomic_numbers), "numbers")
        assert got.builtins.keys() == molecule.builtins.keys()
        for key, held in got.builtins.items():
            _assert_value(held, molecule.builtins[key], key)
        if name in OWN_VALUE_RULE:
            continue
        for scope in ("atom", "molecule"):
            assert got.custom(scope).keys() == molecule.custom(scope).keys()
            for key, value in got.custom(scope).items():
                _assert_value(value, molecule.custom(scope)[key], key)


def _assert_value(got: Value | BadValueError, want: Value | BadValueError, key: str) -> None:
    if isinstance(got, BadValueError) or isinstance(want, BadValueError):
        assert type(got) is type(want), key
    elif isinstance(got.data, np.ndarray):
        wide = got.data.astype("f8") if key == "energy" else got.data
        assert_same(tensor_of(wide), tensor_of(want.data), key)
    else:
        assert_same(got.data, want.data, key)


@pytest.mark.parametrize("name", NAMES)
def test_batches(fixtures: Path, name: str) -> None:
    path = fixtures / f"{name}.atp"
    try:
        reference = ReferenceDataset([AtpFile.open(path)], reserved_names())
    except BadFileError:
        return  # the test above has seen it
    dataset = apt.AtpDataset(path)
    for indices in index_lists(len(reference)):
        want = read_or_error(reference, indices)
        if isinstance(want, type):
            with pytest.raises(want):
                dataset.batch(indices)
        else:
            assert_batch(dataset.batch(indices), want)


def test_key_in_both_scopes(fixtures: Path) -> None:
    """The original cannot deliver either value; ours gives both under their full names."""
    dataset = apt.AtpDataset(fixtures / "odd_both_scopes.atp")
    molecule, batch = dataset[0], dataset.batch([0, 0])
    assert molecule["properties/k"].item() == 2.5
    assert molecule["atom_properties/k"].tolist() == [2.5, 2.5]
    assert batch["properties/k"].tolist() == [2.5, 2.5]
    assert batch["atom_properties/k"].tolist() == [2.5] * 4
    assert "k" not in batch.keys()
    with pytest.raises(apt.FieldError):
        batch["k"]


def test_repeated_custom_key(fixtures: Path) -> None:
    """The original gives the first value or the last, by the way of reading; ours refuses."""
    dataset = apt.AtpDataset(fixtures / "odd_dup_custom.atp")
    assert dataset[0].positions.shape == (2, 3)
    with pytest.raises(apt.CorruptFileError):
        dataset[0]["k"]
    with pytest.raises(apt.CorruptFileError):
        dataset.batch([0])
    without = apt.AtpDataset(fixtures / "odd_dup_custom.atp", exclude=["k"])
    assert len(without.batch([0])) == 1


def test_rank_0_tensor(fixtures: Path) -> None:
    """Delivered with the stored shape; the original makes it (1,)."""
    dataset = apt.AtpDataset(fixtures / "odd_tensor_rank0.atp")
    assert_same(dataset[0]["k"], torch.tensor(3.0), "k")
    assert_same(dataset.batch([0, 0])["k"], torch.tensor([3.0, 3.0]), "k")


@pytest.mark.parametrize(
    "name",
    [
        "bad_none_payload",
        "bad_scalar_len",
        "bad_tensor_count",
        "bad_utf8_value",
        "odd_custom_tag_11",
        "odd_custom_tag_99",
    ],
)
def test_damaged_value_spoils_only_itself(fixtures: Path, name: str) -> None:
    path = fixtures / f"{name}.atp"
    dataset = apt.AtpDataset(path)
    assert dataset[0].positions.shape == (2, 3)
    with pytest.raises(apt.CorruptFileError, match="'k'"):
        dataset[0]["k"]
    with pytest.raises(apt.CorruptFileError, match=r"molecule 0.*'k'"):
        dataset.batch([0])
    for options in ({"exclude": ["k"]}, {"fields": ["positions"]}):
        batch = apt.AtpDataset(path, **options).batch([0])
        assert batch.positions.shape == (2, 3)
        assert "k" not in batch.keys()


@pytest.mark.parametrize(
    "name", [n for n in NAMES if n.startswith(("codec", "custom", "v3", "gen"))]
)
def test_schema(fixtures: Path, name: str) -> None:
    reference = ReferenceDataset([AtpFile.open(fixtures / f"{name}.atp")], reserved_names())
    dataset = apt.AtpDataset(fixtures / f"{name}.atp")
    batch = reference.batch(range(len(reference)))
    for key, mask in batch.masks.items():
        spec, value = dataset.schema[key], batch.values[key]
        assert mask.any()
        assert spec.level == batch.levels[key], key
        if isinstance(value, torch.Tensor):
            assert spec.dtype == value.dtype, key
            assert spec.shape in (tuple(value.shape[1:]), None), key
        else:
            assert spec.dtype == ("string" if isinstance(value[0], str) else "none"), key
    extra = set(dataset.schema) - set(batch.masks)
    assert extra <= {"positions", "atomic_numbers", "n_atoms", "batch", "ptr", "index"}


def test_shard_folder(fixtures: Path) -> None:
    """All ``**/*.atp`` by plain order of the path; other names are left alone."""
    folder = fixtures / "shards"
    expected = json.loads((fixtures / "shards.json").read_text())
    dataset = apt.AtpDataset(folder)
    assert len(dataset) == expected["length"] == 7
    molecules = [fixture_json.molecule_of(m) for m in expected["molecules"]]
    parts = [apt.AtpDataset(file) for file in sorted(folder.rglob("*.atp"))]
    alone = [molecule for part in parts for molecule in map(part.__getitem__, range(len(part)))]
    for i, molecule in enumerate(molecules):
        assert_molecule(alone[i], molecule, apt.CorruptFileError)
        # Widths that differ between the files are settled for the whole folder.
        assert dataset[i].positions.dtype == dataset.schema["positions"].dtype == torch.float64
        assert torch.equal(dataset[i].positions, alone[i].positions.double())
    assert torch.equal(dataset[-1].positions, dataset[len(molecules) - 1].positions)
    with pytest.raises(IndexError):
        dataset[7]
    with pytest.raises(IndexError):
        dataset[-8]

    files = [AtpFile.open(folder / name) for name in expected["order"]]
    reference = ReferenceDataset(files, reserved_names())
    assert [len(f) for f in files] == expected["lengths"]
    assert dataset.n_atoms.tolist() == [m.n_atoms for m in molecules]
    for indices in [*index_lists(7), [3, 0, 3], [6, 5, 0, 1, 2]]:
        assert_batch(dataset.batch(indices), reference.batch(indices))


def test_list_of_files_keeps_its_order(fixtures: Path) -> None:
    paths = [fixtures / "gen2.atp", fixtures / "v3_f64_all.atp", fixtures / "codec_lz4.atp"]
    reference = ReferenceDataset([AtpFile.open(p) for p in paths], reserved_names())
    dataset = apt.AtpDataset(paths)
    assert len(dataset) == len(reference)
    for indices in index_lists(len(reference)):
        assert_batch(dataset.batch(indices), reference.batch(indices))


def test_what_cannot_be_opened(fixtures: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        apt.AtpDataset(tmp_path / "nothing.atp")
    with pytest.raises(FileNotFoundError):
        apt.AtpDataset(tmp_path)  # a folder without shards
    with pytest.raises(apt.UnsupportedFormatError, match="got a JSON file"):
        apt.AtpDataset(fixtures / "minimal.json")
    shutil.copy(fixtures / "bad_both.atp", tmp_path / "b.atp")
    shutil.copy(fixtures / "minimal.atp", tmp_path / "a.atp")
    with pytest.raises(apt.CorruptFileError, match=r"b\.atp"):
        apt.AtpDataset(tmp_path)
