"""The checks of fairchem's ``AtomicData`` (fairchem-core 2.24), by its rules: shapes and dtypes."""

from __future__ import annotations

from typing import Any

import torch

REQUIRED = {"pos", "atomic_numbers", "cell", "pbc", "natoms", "edge_index", "cell_offsets"}
REQUIRED |= {"nedges", "charge", "spin", "fixed", "tags"}
INTEGERS = ("atomic_numbers", "edge_index", "fixed", "tags", "batch", "natoms", "nedges")
SHARED_DTYPE = ("cell", "cell_offsets", "energy", "forces", "stress")


def check(fields: dict[str, Any]) -> None:
    """Raise AssertionError where ``AtomicData.from_dict`` or its ``validate`` would."""
    assert fields.keys() >= REQUIRED, REQUIRED - fields.keys()
    n, b, e = len(fields["pos"]), len(fields["natoms"]), fields["edge_index"].shape[1]
    shapes = {
        "pos": (n, 3),
        "atomic_numbers": (n,),
        "cell": (b, 3, 3),
        "pbc": (b, 3),
        "edge_index": (2, e),
        "cell_offsets": (e, 3),
        "nedges": (b,),
        "charge": (b,),
        "spin": (b,),
        "fixed": (n,),
        "tags": (n,),
        "batch": (n,),
        "energy": (b,),
        "forces": (n, 3),
        "stress": (b, 3, 3),
    }
    for name, shape in shapes.items():
        if name in fields:
            assert tuple(fields[name].shape) == shape, name
    assert fields["natoms"].sum() == n
    assert fields["nedges"].sum() == e
    assert int(fields["batch"].max()) + 1 == b
    assert fields["pos"].dtype in (torch.float32, torch.float64)
    for name in SHARED_DTYPE:
        assert name not in fields or fields[name].dtype == fields["pos"].dtype, name
    for name in INTEGERS:
        assert fields[name].dtype == torch.int64, name
    assert fields["pbc"].dtype == torch.bool
    for name in ("sid", "dataset"):
        if name in fields:
            assert isinstance(fields[name], list)
            assert len(fields[name]) == b
            assert all(isinstance(text, str) for text in fields[name])


def vectors(fields: dict[str, Any]) -> torch.Tensor:
    """(E, 3): what fairchem computes of the edges (``core/graph/compute.py``)."""
    first, second = fields["edge_index"]
    cells = fields["cell"].repeat_interleave(fields["nedges"], dim=0)
    offsets = torch.bmm(fields["cell_offsets"].view(-1, 1, 3), cells).view(-1, 3)
    return fields["pos"][first] - fields["pos"][second] + offsets
