"""Casts, copies, joins and exports of batches, and the output of the commands."""

from __future__ import annotations

import contextlib
import copy
import io
from functools import partial
from typing import Any

import torch
from golden.description import FIXTURES, Found, attempt, cut

import atompack_torch as apt
from atompack_torch import cli

BATCHES = (
    "cache/water.atp",
    "cache/water.h5",
    "commits.atp",
    "empty.atp",
    "labels.atp",
    "labels_f64.atp",
    "properties.atp",
    "some_fields.atp",
)
FILES = (
    "atlas/attrs_json",
    "atlas/sensors_lz4_json_zst",
    "atlas/tiny_json",
    "atlas/tiny_json/t/data.af",
    "atlas_shards/data/s1_atoms",
    "atp/bad_zstd_record.atp",
    "atp/gen4_idle.atp",
    "atp/shards",
    "cache/water.h5",
    "commits.atp",
    "empty.atp",
    "labels.atp",
    "properties_lz4.atp",
)


def _dataset(fixture: str, **options: Any) -> Any:
    kind = apt.TorchCacheDataset if fixture.endswith(".h5") else apt.AtpDataset
    return kind(FIXTURES / fixture, **options)


def read_forms(fixture: str) -> Found:
    """Casts, copies, joins and exports of the batch of all molecules."""
    dataset = _dataset(fixture)
    batch: apt.MoleculeBatch = dataset[:]
    half = len(batch) // 2
    found = {
        "repr": attempt(lambda: repr(batch)),
        "float32": attempt(lambda: batch.to(torch.float32)),
        "float64": attempt(lambda: batch.to("cpu", torch.float64)),
        "clone": attempt(batch.clone),
        "deepcopy": attempt(lambda: copy.deepcopy(batch)),
        "from_molecules": attempt(lambda: apt.MoleculeBatch.from_molecules([*batch])),
        "collate parts": attempt(lambda: apt.collate([dataset[:half], dataset[half:]])),
        "collate reversed": attempt(lambda: apt.collate([*batch][::-1])),
        "set a field": attempt(partial(_with_fields, dataset[:])),
        "iterated": attempt(lambda: [repr(molecule) for molecule in batch]),
        "edges": attempt(
            lambda: _dataset(fixture, neighbors=apt.NeighborList(2.0, vectors=False))[:]
        ),
        "half the edges": attempt(
            lambda: _dataset(fixture, neighbors=apt.NeighborList(2.5, full=False, vectors=False))[:]
        ),
        "numbers of edges": attempt(lambda: apt.NeighborList(2.0).count(dataset)),
        "by a loader": attempt(lambda: [*apt.Loader(dataset, 2, num_threads=2)]),
        "by a DataLoader": attempt(
            lambda: [*torch.utils.data.DataLoader(dataset, 2, collate_fn=apt.collate_identity)]
        ),
        "transformed": attempt(lambda: _dataset(fixture, transform=lambda b: [*b.keys()])[:]),
    }
    for preset in (None, "pyg", "fairchem", "nvalchemi"):
        found[f"to_dict({preset})"] = attempt(partial(batch.to_dict, preset))
    return found


def _with_fields(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.set_field("weight", torch.arange(len(batch)), "molecule")
    batch.set_field("site", torch.arange(len(batch.positions)), "atom")
    batch.set_field("label", [str(number) for number in range(len(batch))], "molecule")
    return batch


def read_commands(fixture: str) -> Found:
    """The output of the commands for a file, and their exit status."""
    path = FIXTURES / fixture
    # Energies by element are fitted by LAPACK, whose last digits are those of a processor.
    commands = ["info", "head", "verify", *(["stats"] if fixture.startswith("atlas") else [])]
    found = {name: _printed(name, str(path)) for name in commands}
    for name in commands:
        document = "\n".join(_printed(name, "--json", str(path)))
        found[f"{name} --json"] = attempt(partial(str, document))
    return found


def _printed(*words: str) -> list[str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main([*words])
    printed = cut(f"{out.getvalue()}\n{err.getvalue()}")
    return [f"exit status {status}", *printed.splitlines()]
