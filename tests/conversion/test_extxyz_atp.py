"""Extended XYZ into .atp and back: nothing that both hold is lost or changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.extxyz import Told, read, write
from reference.frames import frames_of, same

import atompack_torch as apt
from atompack_torch.batch.columns import of_batch
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN

FIXTURES = ["custom_all_types_zstd", "optional_sections", "v3_f64_all", "tensor_ragged", "minimal"]


@pytest.mark.parametrize("name", FIXTURES)
def test_fixtures_survive(fixtures: Path, tmp_path: Path, name: str) -> None:
    """What the original wrote, in float64; pbc is present afterwards, as the format has it."""
    told = Told()
    dataset = apt.AtpDataset(fixtures / f"{name}.atp")
    write(tmp_path / "x.extxyz", [dataset[:]], report=told)
    got = read(tmp_path / "x.extxyz", report=told)
    assert told.skipped == []
    for frame, expected in zip(got, frames_of([of_batch(dataset[:])]), strict=True):
        if (BUILTIN, "pbc") not in expected:
            periodic = (BUILTIN, "cell") in expected
            assert frame.pop((BUILTIN, "pbc")).tolist() == [periodic] * 3
        assert frame.keys() == expected.keys()
        for field, value in expected.items():
            assert same(frame[field], _as_read(field, value)), field


def _as_read(field: tuple[int, str], value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if field[0] == ATOM_PROPERTY and array.ndim > 1:
        array = array.reshape(len(array), -1)
        array = array[:, 0] if array.shape[1] == 1 else array
    return array.astype(np.float64) if array.dtype.kind == "f" else array
