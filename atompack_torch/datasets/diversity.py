"""Choice of molecules that differ from each other as much as possible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atompack_torch._core import FarthestPoints
from atompack_torch.datasets.columns import column_blocks
from atompack_torch.datasets.sweeping import runs
from atompack_torch.errors import FieldError

if TYPE_CHECKING:
    from atompack_torch.batch.molecule_batch import MoleculeBatch
    from atompack_torch.datasets.base import MoleculeDataset

_BLOCK_ATOMS = 1 << 15  # of which features are computed at a time
_BLOCK_MOLECULES = 4096
_AT_ONCE = 16  # points that are chosen in one native call


def farthest_points(points: Tensor, n: int) -> Tensor:
    """Chooses points by farthest-point sampling.

    Args:
        points: (m, F) floating, finite, with at least one column.
        n: number of points to choose, at most m.

    Returns:
        (n,) int64: first the point that is nearest to the mean of all, then in each step the one
        that is farthest from all that were chosen.
    """
    if not n:
        return torch.zeros(0, dtype=torch.int64)
    centered = (points - points.mean(0)).float()
    choice = FarthestPoints(centered, int(centered.square().sum(1).argmin()))
    for known in range(0, n, _AT_ONCE):
        choice.choose(min(known + _AT_ONCE, n))  # an interrupt takes effect in between
    return torch.tensor(choice.chosen(), dtype=torch.int64)


def mean_features(dataset: MoleculeDataset, by: Any) -> Tensor:
    """Returns the mean features of the atoms of each molecule, scaled to unit variance.

    Args:
        dataset: the molecules, as stored.
        by: ``"features"`` for those of the dataset, or what computes some from a batch.

    Returns:
        (n, F) float32, zeros for molecules without atoms.

    Raises:
        FieldError: a molecule has no features, or some that are not finite.
        TypeError: ``by`` is neither.
    """
    means = [_mean_by_molecule(batch) for batch in _with_features(dataset, by)]
    points = torch.cat(means) if means else torch.zeros(0, 1)
    wrong = torch.nonzero(~points.isfinite().all(dim=1)).flatten()
    if len(wrong):
        raise FieldError(
            "select_diverse: expected finite features, got others "
            f"(molecule {int(wrong[0])}, field 'features')"
        )
    spread = points.std(0, correction=0) if len(points) else points
    return (points / torch.where(spread > 0, spread, 1)).float()


def _with_features(dataset: MoleculeDataset, by: Any) -> Iterator[MoleculeBatch]:
    if by == "features":
        for batch, _ in column_blocks(dataset, "features"):
            lacking = torch.nonzero(~batch.mask("features")).flatten()
            if len(lacking):
                number = int(batch.index[lacking[0]])
                raise FieldError(
                    "select_diverse: expected features of every molecule, got none "
                    f"(molecule {number}, field 'features')"
                )
            yield batch
        return
    if not hasattr(by, "compute"):
        raise TypeError(f"by: expected 'features' or a descriptor, got {by!r}")
    for part in runs(dataset.n_atoms.numpy(), _BLOCK_ATOMS, _BLOCK_MOLECULES):
        yield by.compute(dataset.batch(part))


def _mean_by_molecule(batch: MoleculeBatch) -> Tensor:
    features = batch["features"].double()
    owners = torch.repeat_interleave(torch.arange(len(batch)), batch.n_atoms)
    sums = features.new_zeros(len(batch), features.shape[1]).index_add_(0, owners, features)
    means: Tensor = sums / batch.n_atoms.clamp(min=1)[:, None]
    return means
