"""Reading of molecules in blocks, with the few fields that a selection depends on."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from atompack_torch.datasets.selection.blocks import BatchBlock, Block, CountsBlock
from atompack_torch.datasets.sweeping import runs
from atompack_torch.fields import STRUCTURE

if TYPE_CHECKING:
    from atompack_torch.datasets.base import MoleculeDataset

# A block is complete when it reaches either limit.
_BLOCK_MOLECULES = 4096
_BLOCK_ATOMS = 1 << 18


def molecule_blocks(
    dataset: MoleculeDataset, fields: Sequence[str] | None
) -> Iterator[tuple[Block, int]]:
    """Yields the molecules of a dataset in blocks of bounded size, in order, values as stored.

    Args:
        dataset: the dataset.
        fields: names of the fields to read; None: only the numbers of atoms, without any record.

    Yields:
        A block, and the number of its first molecule.

    Raises:
        CorruptFileError: a record is damaged.
    """
    n_atoms = dataset.n_atoms.numpy()
    if fields is None:
        yield CountsBlock(n_atoms), 0
        return
    plain = _plain(dataset, fields)
    try:
        for part in runs(n_atoms, _BLOCK_ATOMS, _BLOCK_MOLECULES):
            yield BatchBlock(plain.batch(part)), part.start
    finally:
        plain.close()


def _plain(dataset: MoleculeDataset, fields: Sequence[str]) -> MoleculeDataset:
    """Returns a copy that reads these fields alone, as stored, of every molecule."""
    plain = copy.copy(dataset)
    plain._request = dataset._request._replace(
        fields=tuple(name for name in fields if name not in STRUCTURE),
        exclude=(),
        dtype=None,
        missing="nan",
        neighbors=None,
        transform=None,
        outputs=(),
        optional=True,
        augment=None,
    )
    plain._computer = plain._forces = None
    plain._native = plain._table = plain._structures = None
    return plain
