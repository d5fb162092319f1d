"""Comparison of batches, bit for bit."""

from __future__ import annotations

import torch

import atompack_torch as apt


def bits(values: torch.Tensor) -> torch.Tensor:
    """Floats as integers of the same bits, all NaN as one."""
    if not values.is_floating_point():
        return values
    values = torch.where(values.isnan(), torch.full_like(values, torch.nan), values)
    return values.contiguous().view(torch.int64 if values.dtype == torch.float64 else torch.int32)


def assert_same_batches(a: apt.MoleculeBatch, b: apt.MoleculeBatch) -> None:
    """All fields in the same order, with the same types, shapes, values and masks."""
    assert list(a.keys()) == list(b.keys())
    for name in a.keys():
        x, y = a[name], b[name]
        if isinstance(x, torch.Tensor):
            assert isinstance(y, torch.Tensor), name
            assert (x.dtype, x.shape) == (y.dtype, y.shape), name
            assert torch.equal(bits(x), bits(y)), name
        else:
            assert len(x) == len(y), name
            for p, q in zip(x, y, strict=True):
                if isinstance(p, torch.Tensor):
                    assert (p.dtype, p.shape) == (q.dtype, q.shape), name
                    assert torch.equal(bits(p), bits(q)), name
                else:
                    assert p == q, name
        if name not in ("positions", "atomic_numbers", "batch", "ptr", "n_atoms", "index"):
            assert torch.equal(a.mask(name), b.mask(name)), name
