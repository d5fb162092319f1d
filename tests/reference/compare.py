"""Bit-for-bit comparison of batches and molecules with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from reference.atp_record import BadValueError, Molecule, Value
from reference.collate import STRUCTURE, Expected, tensor_of
from reference.names import BUILTINS

PREFIXES = {"atom": "atom_properties/", "molecule": "properties/"}


def same_bits(got: Any, want: Any) -> bool:
    """Whether two values agree in type, dtype, shape and every bit (so NaN payloads count)."""
    if isinstance(want, list):
        return (
            isinstance(got, list)
            and len(got) == len(want)
            and all(same_bits(g, w) for g, w in zip(got, want, strict=True))
        )
    if isinstance(want, torch.Tensor):
        return (
            isinstance(got, torch.Tensor)
            and got.dtype == want.dtype
            and got.shape == want.shape
            and _raw(got) == _raw(want)
        )
    return type(got) is type(want) and bool(got == want)


def _raw(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def assert_same(got: Any, want: Any, what: str) -> None:
    """Raise AssertionError with both values where they differ."""
    assert same_bits(got, want), f"{what}\n  expected {_show(want)}\n  got      {_show(got)}"


def assert_same_batch(got: Any, want: Any) -> None:
    """Same names, values, levels and masks."""
    assert set(got.keys()) == set(want.keys())
    assert len(got) == len(want)
    for name in want.keys():
        assert got.level(name) == want.level(name)
        assert_same(got[name], want[name], name)
        assert_same(got.mask(name), want.mask(name), f"mask of {name}")


def _show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.tolist()!r:.300}"
    return f"{value!r:.300}"


def assert_batch(batch: Any, expected: Expected, *, nan_bits: bool = True) -> None:
    """A batch holds exactly what the reference says: keys, values, levels, masks.

    Args:
        batch: a ``MoleculeBatch``.
        expected: from ``ReferenceDataset.batch``.
        nan_bits: compare NaN payloads too; a narrowing cast need not keep them.
    """
    assert set(batch.keys()) == set(expected.values), "keys"
    assert len(batch) == len(expected.values["n_atoms"])
    for key, want in expected.values.items():
        got = batch[key]
        if not nan_bits:
            got, want = _plain_nan(got), _plain_nan(want)
        assert_same(got, want, f"field {key!r}")
        assert batch.level(key) == expected.levels[key], f"level of {key!r}"
    for key, mask in expected.masks.items():
        assert_same(batch.mask(key), mask, f"mask of {key!r}")
    for key in STRUCTURE:
        assert bool(batch.mask(key).all()), f"mask of {key!r}"


def _plain_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_nan(v) for v in value]
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return torch.where(value.isnan(), torch.full_like(value, torch.nan), value)
    return value


def assert_molecule(
    got: Any, want: Molecule, error: type[Exception], *, of_batch: bool = False
) -> None:
    """A ``Molecule`` of the package holds exactly what the reference read.

    Args:
        got: from ``ds[i]`` or a batch.
        want: the reference's reading; its bad values must raise on access.
        error: the class they must raise.
        of_batch: a molecule without atoms has the row shapes of its batch, not its own.
    """
    assert_same(got["positions"], tensor_of(want.positions), "positions")
    z = tensor_of(want.atomic_numbers).to(torch.int64)
    assert_same(got["atomic_numbers"], z, "atomic_numbers")
    for key in BUILTINS:
        value = want.builtins.get(key)
        if key == "energy" and value is not None:
            value = Value(value.tag, value.data.astype(np.float64))
        assert_same(got[key], as_delivered(value), key)
        assert (key in got.keys()) == (value is not None), f"{key} in keys()"
    for scope, prefix in PREFIXES.items():
        for key, held in want.custom(scope).items():
            if isinstance(held, BadValueError):
                _assert_raises(got, prefix + key, error)
            else:
                value = as_delivered(held)
                if of_batch and scope == "atom" and not len(value):
                    value = value.reshape(got[prefix + key].shape)
                assert_same(got[prefix + key], value, prefix + key)
                names = set(got.keys())
                assert key in names or prefix + key in names, f"{prefix + key} in keys()"
    n_custom = len(want.properties) + len(want.atom_properties)
    assert len(set(got.keys())) == 2 + len(want.builtins) + n_custom


def _assert_raises(molecule: Any, key: str, error: type[Exception]) -> None:
    try:
        value = molecule[key]
    except error:
        return
    raise AssertionError(f"{key!r} is damaged and gave {value!r}")


def as_delivered(value: Value | None) -> Any:
    """A stored value as a molecule hands it out; None where it is absent."""
    if value is None:
        return None
    return tensor_of(value.data) if isinstance(value.data, np.ndarray) else value.data
