"""Methods of batches that give them a static shape, or to libraries not built on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from torch import Tensor

from atompack_torch.batch import other_frameworks, padding
from atompack_torch.batch.field_setting import SettableFields

if TYPE_CHECKING:
    import jraph

Self = TypeVar("Self", bound="ExportableFields")


class ExportableFields(SettableFields):
    """Base of ``MoleculeBatch``: its exports."""

    __slots__ = ()

    def padded_to(self: Self, molecules: int, atoms: int, edges: int | None = None) -> Self:
        """Pads the batch to a static shape, for CUDA graphs and compilers.

            padded = batch.padded_to(**sampler.shape_of(batch)._asdict())
            loss = (padded.molecule_mask * (energy - padded.energy) ** 2).sum()

        All padding belongs to one dummy structure, which follows the molecules: its atoms lie on a
        line, 1 apart, with the element of the first atom; its edges lead from its first atom to its
        second, so that no distance is 0; its cell is the identity, ``index`` is -1. Labels of the
        padding are 0 and masked, not NaN: products with ``atom_mask`` and the other masks, and
        their gradients, stay finite. Further molecules are empty. A batch that has this shape
        already is not padded, but gets the masks.

        Args:
            molecules: number of molecules of the result.
            atoms: number of its atoms.
            edges: number of its edges; required if the batch has ``edge_index``.

        Returns:
            A new batch with the fields ``molecule_mask`` (molecules,), ``atom_mask`` (atoms,) and
            ``edge_mask`` (edges,) bool, False for the padding. Batches without padding have them
            too, as attributes.

        Raises:
            TypeError: a number is not an integer.
            FieldError: the batch is larger, there is no room for a dummy structure of two atoms,
                or a field cannot be padded: triplets, derivatives, and fields whose shape differs
                between molecules.
        """
        return type(self)(*padding.padded(self, molecules, atoms, edges))

    def to_dlpack(self) -> dict[str, Tensor]:
        """Returns the tensors by name, for ``from_dlpack`` of another library, without a copy.

            arrays = {name: jax.dlpack.from_dlpack(x) for name, x in batch.to_dlpack().items()}

        Returns:
            Name to tensor, each without gradients, so that it has ``__dlpack__``. They share the
            memory of the batch. Strings and fields whose shape differs between molecules are left
            out.
        """
        return other_frameworks.to_dlpack(self)

    def to_jraph(self) -> jraph.GraphsTuple:
        """Returns the batch as a ``jraph.GraphsTuple`` of NumPy arrays.

        Returns:
            ``nodes``, ``edges`` and ``globals`` are dicts of the fields of atoms, edges and
            molecules, which share the memory of the batch. Messages go from neighbors
            (``senders``, row 1 of ``edge_index``) to centers (``receivers``, row 0); both are
            copies.

        Raises:
            FieldError: the batch has no ``edge_index``, or is not on the CPU.
        """
        return other_frameworks.to_jraph(self)
