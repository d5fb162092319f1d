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


def describe(
    paths: Sequence[str], full: bool = False, progress: Any = False, remote: Any = None
) -> Description:
    n = sum(len(ToyDataset(path)) for path in paths)
    return Description({"n_molecules": n}, f"{n} toys")


def head(
    paths: Sequence[str], n: int, fields: Sequence[str] | None = None, remote: Any = None
) -> Head:
    dataset = ToyDataset(paths[0])
    molecules = [dataset[i] for i in range(min(n, len(dataset)))]
    documents = [molecule_document(i, molecule) for i, molecule in enumerate(molecules)]
    return Head(molecules, documents, "\n".join(map(molecule_text, range(n), molecules)))


def verify(
    paths: Sequence[str], max_faults: int, progress: Any, remote: Any = None
) -> Verification:
    return Verification(list(paths), Counter(molecules=len(ToyDataset(paths[0]))))


def statistics(
    paths: Sequence[str], options: Mapping[str, Any], progress: Any, remote: Any = None
) -> Summary:
    energies = [float(molecule.energy) for molecule in head(paths, 1000).values]
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


def compact(paths: Sequence[str], target: str, options: CompactOptions) -> Compaction:
    lines = [line for path in paths for line in Path(path).read_text().splitlines()[1:]]
    kept = lines if options.order is None else [lines[i] for i in options.order]
    before = sum(Path(path).stat().st_size for path in paths)
    write_lines(Path(target), [line.strip() for line in kept])
    return Compaction(len(kept), "toys", before, Path(target).stat().st_size)
