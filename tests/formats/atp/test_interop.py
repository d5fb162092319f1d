"""Ours and the original read and extend each other's files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.client import AtompackProcess
from reference import plain, strategies
from reference.atp_file import AtpFile, decode_slot
from reference.atp_forge import atp_file, record, schema_blob
from reference.atp_record import BadFileError
from reference.collate import ReferenceDataset
from reference.compare import assert_batch, assert_molecule
from reference.fixture_files import present
from reference.names import reserved_names

import atompack_torch as apt

NewPath = Callable[[], Path]
Plains = Sequence[plain.Plain]


def some_molecules(n: int, seed: int, recipe: strategies.Recipe) -> Plains:
    """The first has all fields, the others some."""
    rng = np.random.default_rng(seed)
    present = [1.0] + [0.6] * (n - 1)
    return [strategies.molecule(rng, recipe, int(rng.integers(0, 9)), p) for p in present]


def ours(path: Path, plains: Plains, codec: str | None = None, mode: str = "a") -> None:
    """One commit of our writer."""
    with apt.AtpWriter(path, codec=codec, mode=mode) as writer:
        writer.write([plain.molecule(p) for p in plains])


def assert_all_read(path: Path, plains: Plains, atompack: AtompackProcess) -> None:
    """The bytes, the original and our reader agree on what the file holds."""
    plain.assert_file_holds(path, plains)
    theirs = atompack.read(path)
    assert len(theirs) == len(plains)
    for got, want in zip(theirs, plains, strict=True):
        plain.assert_plain(got, want)
    dataset = apt.AtpDataset(path)
    reference = ReferenceDataset([AtpFile.open(path)], reserved_names())
    assert len(dataset) == len(plains)
    assert_batch(dataset.batch(range(len(plains))), reference.batch(range(len(plains))))
    for i in range(len(plains)):
        assert_molecule(dataset[i], reference.molecule(i), apt.CorruptFileError)


@settings(max_examples=25)
@given(st.data())
def test_appends_by_turns(
    atompack: AtompackProcess, new_path: NewPath, data: st.DataObject
) -> None:
    recipe = data.draw(strategies.recipes())
    unusual = any(v != strategies.USUAL[k] for k, v in recipe.builtins.items())
    first = data.draw(strategies.contents(recipe, 4))
    codec = data.draw(st.sampled_from(strategies.CODECS))
    path = new_path()
    if data.draw(st.booleans()):
        ours(path, first, codec)
    else:
        atompack.write(path, first, codec)
    plains = list(first)
    for turn in range(data.draw(st.integers(1, 4))):
        if unusual and recipe.positions == "f4":
            break  # the first molecules may have settled another record format
        more = data.draw(strategies.contents(recipe, 3))
        if (turn + len(first)) % 2:
            ours(path, more)
        else:
            atompack.append(path, more)
        plains += more
    assert_all_read(path, plains, atompack)


def damaged_newest_slot(content: bytes) -> bytes:
    """One byte of the slot that counts is another."""
    at = max((0, 4096), key=lambda at: content[at + 8 : at + 16][::-1]) + 60
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]


CRASHES: dict[str, Callable[[bytes], bytes]] = {
    "tail of garbage": lambda content: content + bytes(range(256)) * 40,
    "tail of zeros": lambda content: content + bytes(5000),
    "tail of one byte": lambda content: content + b"x",
    "cut index": lambda content: content[:-5],
    "cut record": lambda content: content[: content.index(b"energy", 8192) + 3],
    "damaged newest slot": damaged_newest_slot,
}


@pytest.mark.parametrize("who", ["ours", "theirs"])
@pytest.mark.parametrize("crash", sorted(CRASHES))
def test_appends_after_a_crash(
    atompack: AtompackProcess, new_path: NewPath, crash: str, who: str
) -> None:
    """What the file opens at stays, what is appended follows; the original continues from there."""
    recipe = strategies.Recipe("f8", {"energy": "f8", "forces": "f8"})
    plains = [*some_molecules(9, 3, recipe)]
    path = new_path()
    if who == "ours":
        ours(path, plains[:4])
        ours(path, plains[4:6])
    else:
        atompack.write(path, plains[:6], commits=[4])
    path.write_bytes(CRASHES[crash](path.read_bytes()))
    try:
        survived = len(AtpFile.open(path))
    except BadFileError:  # the older commit is gone too
        assert crash == "cut record"
        with pytest.raises(apt.CorruptFileError, match="no valid header slot"):
            ours(path, plains[6:])
        return
    assert survived == (6 if crash.startswith("tail") else 4)
    ours(path, plains[6:8])
    assert_all_read(path, [*plains[:survived], *plains[6:8]], atompack)
    atompack.append(path, plains[8:])
    assert_all_read(path, [*plains[:survived], *plains[6:]], atompack)


ONLY_SLOT = ("bad_a_newest", "bad_b_newest", "bad_b_magic", "odd_generation_tie")


@pytest.mark.parametrize("name", [*ONLY_SLOT, "even in slot B"])
def test_the_slot_that_counts_is_not_overwritten(
    fixtures: Path, atompack: AtompackProcess, new_path: NewPath, name: str
) -> None:
    """Wherever it lies: until the next commit is complete, there is no other to fall back to."""
    path = new_path()
    if name in ONLY_SLOT:
        shutil.copy(fixtures / f"{name}.atp", path)
    else:
        path.write_bytes(atp_file([record(2)], schema=schema_blob(), generation=2))
    before = AtpFile.open(path)
    at = [0, 4096][[decode_slot(raw, 1 << 40) for raw in slots_of(before.data)].index(before.slot)]
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.Molecule(np.zeros((1, 3), "f4"), [1]))
    after = AtpFile.open(path)
    assert after.data[at : at + 4096] == before.data[at : at + 4096]
    assert after.slot.generation > before.slot.generation
    assert len(atompack.read(path)) == len(before) + 1


def slots_of(content: bytes) -> tuple[bytes, bytes]:
    """The two header slots."""
    return content[:4096], content[4096:8192]


@pytest.mark.parametrize("version", present(["v020", "v030", "v031"], "atp/legacy_{}.atp"))
@pytest.mark.parametrize("kind", ["", "_batch"])
def test_appending_to_files_of_older_releases(
    fixtures: Path, atompack: AtompackProcess, new_path: NewPath, version: str, kind: str
) -> None:
    """Their schema is missing, or has wrong slots: it is derived again, or put right."""
    path = new_path()
    shutil.copy(fixtures / f"legacy_{version}{kind}.atp", path)
    before = apt.AtpDataset(path)
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write([before[0], before[2]])
    held = AtpFile.open(path)
    for i, want in ((3, 0), (4, 2)):
        assert plain.all_bits(held.molecule(i)) == plain.all_bits(held.molecule(want))
    assert len(atompack.read(path)) == 5
    if not kind or version != "v030":
        atompack.append(path, [atompack.read(path)[1]])  # compares schema entries bit for bit
        assert len(apt.AtpDataset(path)) == 6
