"""Files whose generation leaves no room for another commit."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import atompack_torch as apt

SLOT = 4096
LAST = 2**64 - 1


def write(path: Path, n: int, mode: Literal["x", "w", "a"]) -> None:
    """Molecules of one atom, in one commit."""
    with apt.AtpWriter(path, mode=mode) as writer:
        writer.write_arrays(
            positions=np.zeros((n, 3), "f4"),
            atomic_numbers=np.ones(n, "u1"),
            n_atoms=np.ones(n, "i8"),
        )


def set_generation(path: Path, generation: int) -> None:
    """Gives the newest slot another generation, with a right checksum."""
    content = bytearray(path.read_bytes())
    slots = [bytes(content[:SLOT]), bytes(content[SLOT : 2 * SLOT])]
    newest = max(slots, key=lambda slot: struct.unpack_from("<Q", slot, 8)[0])
    changed = bytearray(newest[: SLOT - 4])
    struct.pack_into("<Q", changed, 8, generation)
    changed += struct.pack("<I", zlib.adler32(changed))
    place = (generation % 2) * SLOT
    content[place : place + SLOT] = changed
    path.write_bytes(content)


@pytest.mark.parametrize("generation", [LAST, LAST - 1])
def test_no_commit_is_lost(tmp_path: Path, generation: int) -> None:
    """Such a file is read, replaced and compacted, but not appended to."""
    path = tmp_path / "a.atp"
    write(path, 3, "x")
    set_generation(path, generation)
    before = path.read_bytes()
    with pytest.raises(apt.UnsupportedFormatError, match=r"a\.atp: generation: expected at most"):
        apt.AtpWriter(path, mode="a")
    assert path.read_bytes() == before
    assert len(apt.AtpDataset(path)) == 3
    apt.compact(path, tmp_path / "b.atp")
    write(tmp_path / "b.atp", 2, "a")
    assert len(apt.AtpDataset(tmp_path / "b.atp")) == 5
    write(path, 1, "w")
    write(path, 1, "a")
    assert len(apt.AtpDataset(path)) == 2
