"""Checks of the arguments of a ``Loader``; each error says what to use instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from torch import Tensor
from torch.utils.data import BatchSampler

from atompack_torch.datasets.batches import BatchDataset
from atompack_torch.loading.samplers import elastic
from atompack_torch.loading.samplers.distributed import IndexSampler
from atompack_torch.options import open_hint

# Options of torch's DataLoader that a Loader lacks, and their replacements.
REPLACEMENTS = {
    "num_workers": "give num_threads, the threads of this process that make batches",
    "collate_fn": "batches are made collated; give transform to the dataset to change them",
    "prefetch_factor": "give prefetch, the batches that are made ahead by all threads together",
    "pin_memory_device": "give device, where to move batches to",
    "generator": "give seed",
    "persistent_workers": "there are no worker processes",
    "worker_init_fn": "there are no worker processes",
    "multiprocessing_context": "there are no worker processes",
    "timeout": "there are no worker processes",
    "in_order": "batches always come in the order of the sampler",
    "num_replicas": "give batch_sampler, a sampler that deals molecules to the ranks",
    "rank": "give batch_sampler, a sampler that deals molecules to the ranks",
}


def check_dataset(dataset: Any) -> None:
    """Raises an error unless this is a dataset of this package.

    Args:
        dataset: argument of the loader.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(dataset, BatchDataset):
        return
    hint = open_hint(dataset) or "; torch.utils.data.DataLoader takes any"
    if isinstance(getattr(dataset, "dataset", None), BatchDataset):
        hint = "; instead of Subset(dataset, indices) give dataset.subset(indices)"
    elif isinstance(getattr(dataset, "datasets", None), list):
        hint = "; give one dataset of several files (AtpDataset takes a list), or a MixtureDataset"
    name = type(dataset).__name__
    raise TypeError(f"dataset: expected a dataset of this package, got {name}{hint}")


def check_unknown_options(options: dict[str, Any], known: Iterable[str]) -> None:
    """Raises an error if there are options that a Loader lacks.

    Args:
        options: unknown options.
        known: names of all options.

    Raises:
        TypeError: there is an unknown option.
    """
    for name in options:
        hint = REPLACEMENTS.get(name)
        if hint is None:
            close = get_close_matches(name, [*known], n=1)
            hint = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}"
        raise TypeError(f"Loader has no option {name!r}: {hint}")


def check_sampler(sampler: Any) -> None:
    """Raises an error unless this can be a sampler of single items.

    Args:
        sampler: argument of the loader.

    Raises:
        TypeError: it yields batches, or is not iterable.
    """
    if isinstance(sampler, (elastic.BatchSampler, BatchSampler)):
        raise _batches_error(sampler)
    _check_iterable("sampler", sampler)


def check_batch_sampler(sampler: Any) -> None:
    """Raises an error unless this can be a sampler of batches.

    Args:
        sampler: argument of the loader.

    Raises:
        TypeError: it yields single items, or is not iterable.
    """
    if isinstance(sampler, IndexSampler):
        raise _items_error(sampler)
    _check_iterable("batch_sampler", sampler)


def check_size(sampler: Any, dataset: BatchDataset[Any, Any]) -> None:
    """Raises an error if a sampler was made of a dataset that has other items.

    Args:
        sampler: sampler of the loader.
        dataset: dataset of the loader.

    Raises:
        ValueError: their numbers of items differ.
    """
    made_of = sampler._dataset if isinstance(sampler, elastic.ElasticSampler) else None
    if made_of is not None and len(made_of) != len(dataset):
        raise ValueError(
            f"sampler: expected one made of the dataset of the loader, with {len(dataset)} "
            f"{dataset.item_name}s, got one made of a dataset with {len(made_of)}: "
            f"{type(sampler).__name__}(dataset, ...)"
        )


def _check_iterable(name: str, sampler: Any) -> None:
    if isinstance(sampler, (str, bytes)) or not hasattr(sampler, "__iter__"):
        raise TypeError(f"{name}: expected an iterable, got {type(sampler).__name__}")


def check_item(item: Any, sampler: Any) -> None:
    """Raises an error unless a sampler has yielded a single item.

    Args:
        item: what the sampler has yielded.
        sampler: the sampler, for the error.

    Raises:
        TypeError: the item is a batch.
    """
    if isinstance(item, Sequence) or getattr(item, "ndim", 0) > 0:
        raise _batches_error(sampler)


def iterate_batches(sampler: Iterable[Any]) -> Iterator[Sequence[int] | Tensor]:
    """Iterates over the batches of a sampler, which have to be sequences.

    Args:
        sampler: a sampler of batches.

    Yields:
        The indices of the items in a batch.

    Raises:
        TypeError: the sampler yields single items.
    """
    for batch in sampler:
        if not hasattr(batch, "__len__") or getattr(batch, "ndim", 1) == 0:
            raise _items_error(sampler)
        yield batch


def _batches_error(sampler: Any) -> TypeError:
    return TypeError(
        f"sampler: expected item numbers, got batches of {type(sampler).__name__}; "
        "give it as batch_sampler, without batch_size"
    )


def _items_error(sampler: Any) -> TypeError:
    return TypeError(
        f"batch_sampler: expected lists of item numbers, got numbers of {type(sampler).__name__}; "
        "give it as sampler, with a batch_size"
    )
