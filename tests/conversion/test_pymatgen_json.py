"""JSON files of pymatgen structures, in the layouts of MPtrj, MatPES and Alexandria."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ase.units
import numpy as np
import pytest
from reference.foreign import (
    SYMBOLS,
    assert_refused,
    converted,
    structures,
)

import atompack_torch as apt
from atompack_torch.conversion.sources.pymatgen_json import JsonStream

Json = dict[str, Any]
KBAR = -1000.0 * ase.units.bar


def as_dict(data: Json, **properties: Any) -> Json:
    """The layout of ``Structure.as_dict`` of pymatgen."""
    fractions = data["positions"] @ np.linalg.inv(data["cell"])
    sites = [
        {
            "species": [{"element": SYMBOLS[z], "occu": 1}],
            "abc": fractions[i].tolist(),
            "properties": {
                key: np.asarray(values)[i].tolist() for key, values in properties.items()
            },
            "label": SYMBOLS[z],
            "xyz": data["positions"][i].tolist(),
        }
        for i, z in enumerate(data["numbers"])
    ]
    return {
        "@module": "pymatgen.core.structure",
        "@class": "Structure",
        "charge": 0,
        "lattice": {"matrix": data["cell"].tolist(), "pbc": [True, True, True], "a": 1.0},
        "sites": sites,
    }


def mptrj(data: list[Json], per_material: int = 2) -> Json:
    made: Json = {}
    for i, d in enumerate(data):
        material, frame = f"mp-{i // per_material}", f"mp-{i // per_material}-0-{i % per_material}"
        made.setdefault(material, {})[frame] = {
            "structure": as_dict(d),
            "uncorrected_total_energy": d["energy"] - 1.0,
            "corrected_total_energy": d["energy"],
            "energy_per_atom": d["energy"] / len(d["numbers"]),
            "force": d["forces"].tolist(),
            "stress": d["stress"].tolist(),
            "magmom": d["moments"].tolist() if i % 2 else None,
            "bandgap": 0.5,
            "mp_id": material,
        }
    return made


def matpes(data: list[Json]) -> list[Json]:
    return [
        {
            "builder_meta": {"emmet_version": "0.84", "pymatgen_version": "2025.1.9"},
            "nsites": len(d["numbers"]),
            "composition": {"H": 1.0},
            "structure": as_dict(d, magmom=d["moments"]),
            "energy": d["energy"],
            "forces": d["forces"].tolist(),
            "stress": [d["stress"][i] for i in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))],
            "matpes_id": f"matpes-{i}",
            "bandgap": 0.5,
            "functional": "r2SCAN",
            "abs_forces": [1.0] * len(d["numbers"]),
            "bader_charges": None,
            "provenance": {"md_step": i, "mlip_name": "M3GNet"},
        }
        for i, d in enumerate(data)
    ]


def alexandria(data: list[Json]) -> Json:
    entries = [
        {
            "@module": "pymatgen.entries.computed_entries",
            "@class": "ComputedStructureEntry",
            "energy": d["energy"],
            "composition": {"H": 1.0},
            "entry_id": f"e{i}",
            "correction": 0.0,
            "energy_adjustments": [],
            "parameters": {},
            "data": {
                "mat_id": f"agm{i}",
                "stress": d["stress"].tolist(),
                "band_gap_ind": 0.25,
                "decomposition": "H",
            },
            "structure": as_dict(d, forces=d["forces"], magmom=d["moments"]),
        }
        for i, d in enumerate(data)
    ]
    return {"entries": entries}


def relaxations(data: list[Json]) -> Json:
    steps = [
        {
            "structure": as_dict(d),
            "energy": d["energy"],
            "forces": d["forces"].tolist(),
            "stress": d["stress"].tolist(),
        }
        for d in data
    ]
    calculation = {"kpoints": [1, 1, 1], "functional": "PBE", "steps": steps[:-1]}
    return {"agm0": [calculation], "agm1": [{**calculation, "steps": steps[-1:]}]}


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def check(dataset: apt.AtpDataset, data: list[Json], factor: float = 1.0) -> None:
    assert len(dataset) == len(data)
    for i, own in enumerate(data):
        molecule = dataset[i]
        assert molecule.atomic_numbers.tolist() == own["numbers"].tolist()
        for name in ("positions", "cell", "forces"):
            assert np.array_equal(molecule[name].numpy(), own[name]), name
        assert float(molecule.energy) == own["energy"]
        assert np.array_equal(molecule.stress.numpy(), own["stress"] * factor)
        assert molecule.pbc.tolist() == [True] * 3


def test_mptrj(tmp_path: Path) -> None:
    data = structures([3, 1, 4, 2, 2])
    dataset, report = converted(tmp_path / "a.json", dumped(mptrj(data)))
    check(dataset, data, KBAR)
    batch = dataset[:]
    assert batch.name == ["mp-0-0-0", "mp-0-0-1", "mp-1-0-0", "mp-1-0-1", "mp-2-0-0"]
    assert batch["mp_id"] == ["mp-0", "mp-0", "mp-1", "mp-1", "mp-2"]
    assert batch["bandgap"].tolist() == [0.5] * 5
    assert batch["uncorrected_total_energy"].tolist() == [d["energy"] - 1.0 for d in data]
    assert batch.mask("magmom").tolist() == [False, True, False, True, False]
    assert np.array_equal(dataset[3]["magmom"].numpy(), data[3]["moments"])
    assert report.sources["energy"] == ["corrected_total_energy"]
    assert any("'stress' read as stress in eV/Å³" in note for note in report.notes)
    assert any(note.startswith("read as MPtrj: energies in eV") for note in report.notes)
    assert not report.warnings
    keys = {"uncorrected_total_energy": "energy"}
    batch = converted(tmp_path / "a.json", key_map=keys, format="pymatgen-json")[0][:]
    assert batch.energy.tolist() == [d["energy"] - 1.0 for d in data]
    assert batch["corrected_total_energy"].tolist() == [d["energy"] for d in data]


def test_matpes(tmp_path: Path) -> None:
    data = structures([3, 1, 4])
    dataset, report = converted(tmp_path / "a.json", dumped(matpes(data)))
    check(dataset, data, KBAR)
    batch = dataset[:]
    assert batch.name == ["matpes-0", "matpes-1", "matpes-2"]
    assert batch["functional"] == ["r2SCAN"] * 3
    assert np.array_equal(batch["magmom"].numpy(), np.concatenate([d["moments"] for d in data]))
    assert report.skipped["key 'abs_forces'", "it follows from the structure"] == 3
    assert not report.warnings
    lines = b"\n".join(map(dumped, matpes(data))) + b"\n"
    keys = {"stress": "stress", "provenance.md_step": "step", "bandgap": "properties/gap"}
    dataset, _ = converted(tmp_path / "a.jsonl", lines, key_map=keys)
    check(dataset, data)
    assert dataset[:]["step"].tolist() == [0, 1, 2]
    assert dataset[:]["gap"].tolist() == [0.5] * 3
    with pytest.raises(apt.FieldError, match="key_map: no entry has a value 'absent'"):
        converted(tmp_path / "a.jsonl", lines, key_map={"absent": "x"})


@pytest.mark.parametrize(
    ("suffix", "packed"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_alexandria(tmp_path: Path, suffix: str, packed: Callable[[bytes], bytes]) -> None:
    data = structures([3, 1, 4])
    content = packed(dumped(alexandria(data)))
    dataset, report = converted(tmp_path / f"a.json{suffix}", content)
    check(dataset, data)
    batch = dataset[:]
    assert batch.name == ["agm0", "agm1", "agm2"]
    assert batch["band_gap_ind"].tolist() == [0.25] * 3
    assert batch["decomposition"] == ["H"] * 3
    assert batch["entry_id"] == ["e0", "e1", "e2"]
    assert any("does not state one unit and sign for 'stress'" in w for w in report.warnings)


def test_relaxations_of_alexandria(tmp_path: Path) -> None:
    data = structures([3, 3, 4])
    dataset, _ = converted(tmp_path / "a.json.bz2", bz2.compress(dumped(relaxations(data))))
    check(dataset, data)
    batch = dataset[:]
    assert batch.name == ["agm0-0", "agm0-1", "agm1-0"]
    assert batch["material"] == ["agm0", "agm0", "agm1"]
    assert batch["step"].tolist() == [0, 1, 0]
    assert batch["functional"] == ["PBE"] * 3


def test_structures_alone(tmp_path: Path) -> None:
    data = structures([3, 2])
    bare = [as_dict(d) for d in data]
    for site in bare[1]["sites"]:
        del site["xyz"]
    del bare[0]["lattice"]["pbc"]
    dataset, report = converted(tmp_path / "a.json", dumped(bare))
    assert np.array_equal(dataset[0].positions.numpy(), data[0]["positions"])
    fractions = np.array([site["abc"] for site in bare[1]["sites"]])
    assert np.array_equal(dataset[1].positions.numpy(), fractions @ data[1]["cell"])
    assert dataset[:].pbc.all()
    one, _ = converted(tmp_path / "one.json", dumped(bare[0]))
    assert len(one) == 1
    assert any("no energy, forces or stress" in warning for warning in report.warnings)


def test_the_order_of_keys_means_nothing(tmp_path: Path) -> None:
    (data,) = structures([3])
    whole = as_dict(data)
    for first in ("sites", "@class", "charge", "lattice"):
        turned = {first: whole[first]} | {key: whole[key] for key in reversed(whole)}
        dataset, _ = converted(tmp_path / "a.json", dumped(turned), format="pymatgen-json")
        assert np.array_equal(dataset[0].positions.numpy(), data["positions"]), first
        assert dataset[0]["charge"].item() == 0


def test_a_dipole_of_three_atoms(tmp_path: Path) -> None:
    entries = [
        {"structure": as_dict(data), "energy": 1.0, "dipole": [1.0, 2.0, 3.0]}
        for data in structures([3, 4])
    ]
    dataset, report = converted(tmp_path / "a.json", dumped(entries))
    assert dataset[:].dipole.tolist() == [[1, 2, 3]] * 2
    assert not report.skipped


def test_vectors_as_long_as_some_molecules(tmp_path: Path) -> None:
    entries = [
        {"structure": as_dict(data), "mu": [i, 2.0, 3.0], "q": [1.5] * n}
        for i, (n, data) in enumerate(zip([3, 4, 2], structures([3, 4, 2]), strict=True))
    ]
    dataset, report = converted(tmp_path / "a.json", dumped(entries))
    assert dataset[:]["mu"].tolist() == [[0, 2, 3], [1, 2, 3], [2, 2, 3]]
    assert dataset[:]["q"].tolist() == [1.5] * 9
    assert not report.skipped


def test_values_of_the_structure_its_sites_and_species(tmp_path: Path) -> None:
    (data,) = structures([3])
    whole = as_dict(data) | {"charge": 2.0, "properties": {"origin": "a", "energy": 9.0}}
    sites = whole["sites"]
    sites[1]["species"][0] |= {"oxidation_state": -2, "properties": {"spin": 5}}
    sites[2]["properties"] = {"magmom": 1.5}
    sites[2]["label"] = "Fe2"
    entry = {"structure": whole, "energy": 1.0, "magmom": [1, 2, 3]}
    dataset, report = converted(tmp_path / "a.json", dumped([entry]))
    one = dataset[0]
    assert (one["charge"].item(), one["origin"], one.energy.item()) == (2, "a", 1)
    assert one["magmom"].tolist() == [1, 2, 3]
    for key, value in (("oxidation_state", -2), ("spin", 5)):
        assert np.array_equal(one[key].numpy(), [np.nan, value, np.nan], equal_nan=True), key
    assert {what for what, _ in report.skipped} == {
        "key 'energy' of the structure",
        "key 'magmom' of the structure",
        "key 'label'",
    }


def test_what_no_molecule_can_hold_is_listed(tmp_path: Path) -> None:
    (data,) = structures([3])

    def lost(content: Any, **options: Any) -> Json:
        _, report = converted(tmp_path / "a.json", dumped(content), **options)
        return {what: count for (what, _), count in report.skipped.items()}

    whole = as_dict(data) | {"@version": "2025.1.9", "builder_meta": {"license": "BY"}}
    whole["lattice"] |= {"note": "relaxed", "volume": 2.0}
    for site in whole["sites"]:
        site |= {"velocity": [0, 0, 1], "properties": None}
    whole["sites"][1] |= {"properties": 7}
    whole["sites"][2]["species"][0] |= {"spin": 5, "properties": {"spin": 4}}
    assert lost([{"structure": whole, "energy": 1.0}]) == {
        "key '@version'": 1,
        "key 'builder_meta'": 1,
        "key 'note' of the lattice": 1,
        "key 'properties' of a site": 1,
        "key 'velocity' of a site": 3,
        "key 'spin' of a species": 1,
    }
    entries = matpes([data])
    keys = {"builder_meta.emmet_version": "emmet"}
    assert lost(entries, key_map=keys)["key 'builder_meta'"] == 1
    assert apt.AtpDataset(tmp_path / "made.atp")[0]["emmet"] == "0.84"

    of_set = {"license": "BY", **alexandria([data, data]), "note": {}, "dates": []}
    of_set["entries"][0]["data"] |= {"energy": 8.0, "correction": 0.0}
    assert lost(of_set | {"version": 2}) == {
        "key 'license'": 1,
        "key 'version'": 1,
        "key 'composition'": 2,
        "key 'energy' of 'data'": 1,
    }
    assert lost(relaxations([data, data])) == {"key 'kpoints' of a relaxation": 2}
    steps = relaxations([data, data])
    steps["agm0"][0]["steps"][0]["functional"] = "r2SCAN"
    assert lost(steps)["key 'functional' around the entry"] == 1
    task = {"energy": 3.0, "task": 1, "output": {"structure": as_dict(data), "energy": 2.0}}
    assert lost([task]) == {"key 'energy' around the entry": 1}
    assert apt.AtpDataset(tmp_path / "made.atp")[0].energy.item() == 2.0


def test_encoded_arrays_and_nested_documents(tmp_path: Path) -> None:
    (data,) = structures([3])

    def encoded(values: Any, **more: Any) -> Json:
        return {"@module": "numpy", "@class": "array", "data": np.asarray(values).tolist()} | more

    structure = as_dict(data)
    structure["lattice"]["matrix"] = encoded(data["cell"])
    output = {"structure": structure, "energy": 1.5, "forces": encoded(data["forces"])}
    task = {
        "calcs_reversed": [{"output": {}}],
        "input": {"structure": as_dict(data)},
        "output": output | {"waves": encoded([1, 2], dtype="complex128")},
        "weights": encoded([1, 2, 3, 4]),
    }
    for document in (task, [{"result": task}]):
        source = dumped(document)
        dataset, report = converted(tmp_path / "a.json", source, format="pymatgen-json")
        one = dataset[0]
        assert np.array_equal(one.forces.numpy(), data["forces"])
        assert one.energy.item() == 1.5
        assert one["weights"].tolist() == [1, 2, 3, 4]
        assert {what for what, _ in report.skipped} >= {"key 'calcs_reversed'", "key 'waves'"}
    del task["output"]["structure"]
    task["initial"] = {"structure": as_dict(data)}
    with pytest.raises(apt.CorruptFileError, match="got several: input, initial"):
        converted(tmp_path / "a.json", dumped([task]), format="pymatgen-json")


def test_missing_values(tmp_path: Path) -> None:
    data = structures([3, 1, 2])
    entries = matpes(data)
    entries[0]["forces"] = None
    entries[1]["forces"] = [[None] * 3]
    del entries[2]["stress"]
    dataset, report = converted(tmp_path / "a.json", dumped(entries))
    assert dataset[:].mask("forces").tolist() == [False, False, True]
    assert dataset[:].mask("stress").tolist() == [True, True, False]
    assert np.array_equal(dataset[2].forces.numpy(), data[2]["forces"])
    assert report.nan_as_missing == {"forces": 1}


def test_integers_are_not_rounded(tmp_path: Path) -> None:
    entries = matpes(structures([3, 1]))
    for entry in entries:
        entry |= {"exact": [2**60, 0.5], "whole": [2**60 + 1, 5]}
        entry |= {"rounded": [2**60 + 1, 0.5], "with_null": [2**60 + 1, None]}
    dataset, report = converted(tmp_path / "a.json", dumped(entries))
    assert dataset[:]["exact"].tolist() == [[2.0**60, 0.5]] * 2
    assert dataset[:]["whole"].tolist() == [[2**60 + 1, 5]] * 2
    for key in ("rounded", "with_null"):
        assert key not in dataset.schema
        assert any(what == f"key {key!r}" for what, _ in report.skipped)


def test_fractional_occupancies_are_refused_by_name(tmp_path: Path) -> None:
    data = structures([3, 2, 4])
    content = mptrj(data)
    half = [{"element": "Fe", "occu": 0.5}, {"element": "O", "occu": 0.5}]
    content["mp-0"]["mp-0-0-1"]["structure"]["sites"][1]["species"] = half
    message = r"site 1: .* fractional occupancies: Fe 0\.5, O 0\.5 \(molecule 1 of 'mp-0-0-1'\)"
    with pytest.raises(apt.UnsupportedFormatError, match=message):
        converted(tmp_path / "a.json", dumped(content))
    dataset, report = converted(tmp_path / "a.json", dumped(content), on_error="skip")
    assert dataset[:].name == ["mp-0-0-0", "mp-1-0-0"]
    assert any("'mp-0-0-1'" in why for what, why in report.skipped if what == "structures")


def test_blocks_and_chunks(tmp_path: Path) -> None:
    data = structures([1 + i % 7 for i in range(2_500)])
    dataset, _ = converted(tmp_path / "a.json", dumped(mptrj(data, 3)))
    batch = dataset[:]
    for name in ("positions", "forces"):
        assert np.array_equal(batch[name].numpy(), np.concatenate([d[name] for d in data]))
    assert batch.energy.tolist() == [d["energy"] for d in data]


def test_other_json_is_left_to_ase(tmp_path: Path) -> None:
    import ase.io

    ase.io.write(tmp_path / "a.json", ase.Atoms("H2", positions=[[0, 0, 0], [0, 0, 1]]))
    dataset, _ = converted(tmp_path / "a.json", (tmp_path / "a.json").read_bytes())
    assert dataset[0].atomic_numbers.tolist() == [1, 1]


def put(place: str, value: Any) -> Callable[[bytes], bytes]:
    """Changes a value of the second entry, given by its path."""

    def harm(_: bytes) -> bytes:
        content = mptrj(structures([2, 1, 3]))
        found: Any = content["mp-0"]["mp-0-0-1"]
        *way, last = (int(key) if key.isdigit() else key for key in place.split("/"))
        for key in way:
            found = found[key]
        found[last] = value
        return dumped(content)

    return harm


GAP, DEEP = b'"bandgap": 0.5', b"[" * 200_000
SITE = "structure/sites/0"
DAMAGE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("cut", lambda data: data[:-40], r"JSON: expected the rest of a value, got the end of the fi"),
    ("cut twice", lambda data: data[: len(data) // 3], "got the end of the file"),
    ("no end", lambda data: data[:-1], "got the end of the file"),
    ("text behind", lambda data: data + b" x", r"expected the end of the file, got 'x' \(char"),
    ("a comma", lambda data: data.replace(b'"force": [[', b'"force": [[,', 1), "Expecting value"),
    ("a quote", lambda data: data.replace(b'"force"', b'"force', 1), "JSON: "),
    ("not UTF-8", lambda data: data.replace(b"Structure", b"\xff\xfe", 1), "expected UTF-8"),
    ("deep", lambda data: data.replace(GAP, GAP[:-3] + DEEP, 1), "RecursionError"),
    ("digits", lambda data: data.replace(GAP, GAP[:-3] + b"1" * 9999, 1), "Exceeds the limit"),
    ("frames", lambda data: data[:-1] + b', "mp-9": 7}', "expected frames of 'mp-9', got '7'"),
    ("no entry", lambda data: data[:-1] + b', "mp-9": {"a": 7}}', r"another value \(molecule 3"),
    ("forces", put("force", [[1.0, 2.0, 3.0]] * 2), r"force: expected \(1, 3\) .*, got \(2, 3"),
    ("rows", put("force", [[1.0], [2.0, 3.0]]), r"force: expected \(1, 3\) numbers, got other val"),
    ("stress", put("stress", [1.0, 2.0]), r"stress: expected \(3, 3\) numbers, got \(2,\)"),
    ("energy", put("corrected_total_energy", "low"), r"expected \(\) numbers, got other values"),
    ("structure", put("structure", {}), r"expected a list of sites, got none \(molecule 1 of 'mp-"),
    ("species", put(f"{SITE}/species", None), "site 0: expected species, got None"),
    ("element", put(f"{SITE}/species", [{"element": "Qq"}]), "symbol of an element, got 'Qq'"),
    ("xyz", put(SITE, {"species": [{"element": "H"}]}), "expected three numbers xyz or abc"),
    ("matrix", put("structure/lattice/matrix", [[1.0]]), "expected a matrix of 3 x 3 numbers"),
    ("lattice", put("structure/lattice", [1.0]), "lattice: expected an object, got "),
    ("pbc", put("structure/lattice/pbc", "TTT"), "expected three booleans pbc"),
]


@pytest.mark.parametrize(("harm", "message"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_damage(tmp_path: Path, harm: Callable[[bytes], bytes], message: str) -> None:
    (tmp_path / "a.json").write_bytes(harm(dumped(mptrj(structures([2, 1, 3])))))
    assert_refused(tmp_path / "a.json", apt.CorruptFileError, message)


@pytest.mark.parametrize("packed", [gzip.compress, bz2.compress, partial(lzma.compress, preset=0)])
def test_damaged_compression(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    rng = np.random.default_rng(0)
    content = packed(dumped(mptrj(structures([int(n) for n in rng.integers(1, 9, 1500)]))))
    for harmed in (content[: len(content) // 2], content[:-100] + bytes(100)):
        with pytest.raises(apt.CorruptFileError, match=r"a\.json"):
            converted(tmp_path / "a.json.gz", harmed)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_values_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("atompack_torch.conversion.sources.pymatgen_json._CHUNK", size)
    values: list[Any] = [
        1,
        -12.5e3,
        True,
        None,
        'a"\\u00e9\u00e9',
        {"k": [1, 2, {"x": -1e-5}]},
        [],
        "",
        12345,
    ]
    (tmp_path / "a.json").write_text(" [" + " ,\n".join(map(json.dumps, values)) + "]\n 17 ")
    with JsonStream(str(tmp_path / "a.json")) as stream:
        assert [*stream.items()] == values
        assert stream.value() == 17
        assert stream.peek() == ""


def test_values_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "atompack_torch.conversion.sources.pymatgen_json.MAX_VALUE_CHARACTERS", 1 << 20
    )
    (tmp_path / "a.json").write_text('["' + "x" * (5 << 20))
    with (
        JsonStream(str(tmp_path / "a.json")) as stream,
        pytest.raises(apt.CorruptFileError, match="expected values of at most 1048576 characters"),
    ):
        list(stream.items())
