"""Labels that files hold as NaN, where their writers meant that there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from atompack_torch.cli._output import printable

if TYPE_CHECKING:
    from torch import Tensor

    from atompack_torch import AtpDataset

_MOST_SAMPLED = 10_000
_AT_ONCE = 256


class NanLabels(NamedTuple):
    """What a sample of the records shows.

    Attributes:
        n_sampled: records that were looked at.
        n_nan: label → in how many of them it is NaN throughout; labels without any are left out.
    """

    n_sampled: int
    n_nan: dict[str, int]

    def lines(self, n_molecules: int | None) -> list[str]:
        """For people to read."""
        of = f"{self.n_sampled:,} " + ("molecules" if self.n_sampled == n_molecules else "sampled")
        return [
            f"{printable(name)}: NaN throughout in {n:,} of {of}: "
            "AtpDataset(nan_is_missing=True) takes these as absent"
            for name, n in self.n_nan.items()
        ]


def nan_labels(paths: Sequence[str]) -> NanLabels:
    """Samples records from all over the files; damaged ones are left to ``verify``."""
    from atompack_torch import AtpDataset

    datasets = [AtpDataset(path) for path in paths]
    total = sum(map(len, datasets))
    step = max(1, -(-total // _MOST_SAMPLED))
    n_sampled, n_nan = 0, Counter[str]()
    for path, dataset in zip(paths, datasets, strict=True):
        judged = AtpDataset(path, nan_is_missing=True)
        numbers = list(range(0, len(dataset), step))
        for first in range(0, len(numbers), _AT_ONCE):
            for before, after in _masks(dataset, judged, numbers[first : first + _AT_ONCE]):
                n_sampled += len(before["positions"])
                for name, there in before.items():
                    n_nan[name] += int((there & ~after[name]).sum())
    return NanLabels(n_sampled, {name: n for name, n in n_nan.items() if n})


Masks = dict[str, "Tensor"]


def _masks(
    dataset: AtpDataset, judged: AtpDataset, numbers: list[int]
) -> Iterator[tuple[Masks, Masks]]:
    """Which molecules have each field, without and with NaN taken as missing."""
    from atompack_torch import AtompackError

    try:
        batches = [each.batch(numbers) for each in (dataset, judged)]
    except AtompackError:
        if len(numbers) > 1:
            for number in numbers:
                yield from _masks(dataset, judged, [number])
        return
    before, after = ({name: batch.mask(name) for name in batch.keys()} for batch in batches)
    yield before, after
