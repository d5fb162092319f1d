"""A sixth format of molecules, as a plugin would add it: a text file of one energy per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import atompack_torch as apt
from atompack_torch.batch.columns import Columns
from atompack_torch.formats.converter import TargetOptions
from atompack_torch.formats.entry import (
    Compaction,
    CompactOptions,
    Description,
    Head,
    Summary,
)
from atompack_torch.formats.paths import Place
from atompack_torch.formats.records import records_of
from atompack_torch.formats.text import molecule_document, molecule_text
from atompack_torch.formats.verification import Verification
from atompack_torch.formats.writer_base import WriterBase

MAGIC = b"TOY\n"


class ToyDataset(torch.utils.data.Dataset[apt.Molecule]):
    """Hydrogen atoms with the energies of the file."""

    def __init__(self, path: Any) -> None:
        self._energies = [float(line) for line in Path(path).read_text().splitlines()[1:]]

    def __len__(self) -> int:
        return len(self._energies)

    def __getitem__(self, i: int) -> apt.Molecule:
        return apt.Molecule(torch.zeros(1, 3), torch.ones(1, dtype=int), energy=self._energies[i])


def open_dataset(path: Any, options: Mapping[str, Any]) -> ToyDataset:
    return ToyDataset(path, **options)


def describe(places: Sequence[Place], full: bool, progress: Any) -> Description:
    n = sum(len(ToyDataset(place.path)) for place in places)
    return Description({"n_molecules": n}, f"{n} toys")


def head(places: Sequence[Place], n: int, fields: Sequence[str] | None) -> Head:
    dataset = ToyDataset(places[0].path)
    molecules = [dataset[i] for i in range(min(n, len(dataset)))]
    documents = [molecule_document(i, molecule) for i, molecule in enumerate(molecules)]
    return Head(molecules, documents, "\n".join(map(molecule_text, range(n), molecules)))


def verify(places: Sequence[Place], max_faults: int, progress: Any) -> Verification:
    molecules = len(ToyDataset(places[0].path))
    return Verification([place.path for place in places], Counter(molecules=molecules))


def statistics(places: Sequence[Place], options: Mapping[str, Any], progress: Any) -> Summary:
    energies = [float(molecule.energy) for molecule in head(places, 1000, None).values]
    return Summary(energies, energies, f"{len(energies)} energies")


class ToyWriter(WriterBase):
    """Keeps the energies until the file is complete."""

    def __init__(self, path: str, options: TargetOptions) -> None:
        self._path, self._report = Path(path), options.report
        self._lines: list[str] | None = []

    def write(self, columns: Columns) -> None:
        assert self._lines is not None
        for record in records_of(columns):
            self._lines.append(str(record.labels["energy"]))
            for name in record.labels.keys() - {"energy"}:
                self._report.skip(name, "a toy file has energies alone")

    def close(self) -> None:
        write_lines(self._path, self._lines or [])
        self._lines = None

    def discard(self) -> None:
        self._lines = None

    def _is_unfinished(self) -> bool:
        return self._lines is not None


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.write_bytes(MAGIC + "".join(f"{line}\n" for line in lines).encode())


def open_target(path: str, options: TargetOptions) -> ToyWriter:
    return ToyWriter(path, options)


def compact(places: Sequence[Place], target: Place, options: CompactOptions) -> Compaction:
    lines = [line for one in places for line in Path(one.path).read_text().splitlines()[1:]]
    kept = lines if options.order is None else [lines[i] for i in options.order]
    before = sum(place.stored_bytes() for place in places)
    write_lines(Path(target.path), [line.strip() for line in kept])
    return Compaction(len(kept), "toys", before, target.stored_bytes())
