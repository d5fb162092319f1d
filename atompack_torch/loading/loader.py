"""Loader that makes batches ahead on native threads of the training process."""

from __future__ import annotations

import inspect
import os
import reprlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, NoReturn

import torch
from torch import Tensor
from torch.utils.data import SequentialSampler

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.batches import Batch, BatchDataset, n_ranks, warn_of_pass
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.loading.accelerate import enter_accelerate
from atompack_torch.loading.batch_iterator import BatchIterator, OwnOrder, chunks
from atompack_torch.loading.checks import (
    REPLACEMENTS,
    check_batch_sampler,
    check_dataset,
    check_item,
    check_sampler,
    check_size,
    check_unknown_options,
    iterate_batches,
)
from atompack_torch.loading.samplers.elastic import ElasticSampler
from atompack_torch.loading.samplers.position import (
    VERSION,
    check_form,
    differences_of,
    generator_of,
    order_of,
    refuse,
    settings_of,
)
from atompack_torch.loading.samplers.wrappers import is_skipping
from atompack_torch.loading.transfer import check_neighbors, with_neighbors
from atompack_torch.options import check_flags, checked_integer, epoch_number

_MAX_THREADS = 4  # by default, as a training step needs cores too


class Loader(Generic[Batch]):
    """Iterates over the batches of a dataset, which native threads make ahead.

        loader = Loader(AtpDataset("data.atp"), batch_size=64, shuffle=True)
        for epoch in range(10):
            for batch in loader:
                ...

    Unlike a ``DataLoader``, it has no worker processes: the kernels release the GIL, so threads of
    the training process make batches while Python trains, and no data crosses a process boundary.
    Batches arrive in the order of the sampler for any number of threads. An error in a thread is
    raised instead of its batch; iterating further continues with the next batch.

    Each pass is the next epoch, unless ``set_epoch`` was called. An epoch counts when its last
    batch was delivered: after a pass that was left early, as by ``next(iter(loader))``, the same
    epoch starts again. The order of a shuffled pass only depends on ``seed`` and epoch; a dataset
    whose molecules or labels change with the epoch enters it too.

    With ``missing="drop"``, batches in which no molecule has the labels are skipped, and counted in
    the warning about dropped molecules. On several ranks, which need equally many batches, one
    molecule that has them is drawn at random instead.

    Options of torch's ``DataLoader`` that do not exist here raise an error that names the
    replacement.

    Args:
        dataset: a dataset of this package.
        batch_size: number of items in a batch.
        batch_sampler: yields lists or int64 tensors of item numbers; replaces ``batch_size``,
            ``shuffle``, ``sampler`` and ``drop_last``.
        sampler: yields item numbers; replaces ``shuffle``. The loader follows if other code, such
            as Lightning, calls its ``set_epoch`` between two passes.
        shuffle: use a new random order in every epoch.
        seed: seed of that order.
        drop_last: drop the last batch if it is not full.
        num_threads: number of threads, each of which makes one batch at a time; None: all cores of
            this process but one, at most four. For uncompressed files one usually suffices, and is
            fastest on few cores.
        prefetch: number of batches to make ahead, at least one per thread.
        pin_memory: make batches in page-locked memory, which torch recycles (only with CUDA).
        device: device to move batches to. For a CUDA device, one more thread of the pass moves the
            next two batches there, on a stream of its own, before they are asked for. The current
            stream waits for a batch when it is delivered; the thread that iterates never waits
            for the device.
        neighbors: edges to add to the batches of a dataset that makes none: on a CUDA device by
            its kernels, on the thread and the stream of the copies (nvalchemi-toolkit-ops is
            needed, the extra ``cuda``), else by the threads, as ``neighbors=`` of the dataset
            does. Without triplets. On CUDA devices, pairs of an atom are sorted by j.
        **others: options of torch's ``DataLoader``, which raise an error.

    Raises:
        TypeError: the dataset is not one of this package (use torch's ``DataLoader``), or an
            option does not exist or has the wrong type.
        ValueError: an option is out of range, or options exclude each other.
    """

    # Read by accelerate: the last batch was delivered; items of it that repeat others (-1: none).
    end_of_dataloader = False
    remainder = -1

    def __init__(
        self,
        dataset: BatchDataset[Any, Batch],
        batch_size: int | None = None,
        *,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        sampler: Iterable[int] | None = None,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        num_threads: int | None = None,
        prefetch: int = 4,
        pin_memory: bool = False,
        device: torch.device | str | int | None = None,
        neighbors: NeighborList | None = None,
        **others: object,
    ) -> None:
        check_dataset(dataset)
        check_unknown_options(others, _OPTIONS)
        check_flags(shuffle=shuffle, drop_last=drop_last, pin_memory=pin_memory)
        if sampler is not None:
            check_sampler(sampler)
        if batch_sampler is not None:
            check_batch_sampler(batch_sampler)
        if batch_sampler is not None and (
            batch_size is not None or sampler is not None or shuffle or drop_last
        ):
            raise ValueError("batch_sampler: excludes batch_size, sampler, shuffle and drop_last")
        if sampler is not None and shuffle:
            raise ValueError("sampler: excludes shuffle")
        if batch_size is not None:
            batch_size = checked_integer("batch_size", batch_size, 1)
        if num_threads is not None:
            num_threads = checked_integer("num_threads", num_threads, 1)
        prefetch = checked_integer("prefetch", prefetch, 1)
        self.dataset = dataset
        self.batch_size = None if batch_sampler is not None else batch_size or 1
        self.shuffle, self.seed, self.drop_last = shuffle, checked_integer("seed", seed), drop_last
        self._has_own_order = sampler is None and batch_sampler is None
        if self._has_own_order:
            sampler = OwnOrder(dataset, self.seed) if shuffle else SequentialSampler(dataset)
        self.batch_sampler, self.sampler = batch_sampler, sampler
        check_size(self._chosen_sampler, dataset)
        cores = len(os.sched_getaffinity(0))
        self.num_threads = num_threads or min(max(cores - 1, 1), _MAX_THREADS)
        self.prefetch = max(prefetch, self.num_threads)
        self.device = None if device is None else torch.device(device)
        self.neighbors = neighbors
        self._batches_of = dataset
        if neighbors is not None:
            check_neighbors(dataset, neighbors)
            self._batches_of = with_neighbors(dataset, neighbors, on_device=self._is_cuda)
        if pin_memory and not torch.cuda.is_available():
            warnings.warn("pin_memory: no CUDA device, so memory is not pinned", stacklevel=2)
        self.pin_memory = pin_memory and torch.cuda.is_available()
        self._epoch = 0  # of the current pass, or of the next one
        self._n_delivered = 0  # batches of this epoch delivered so far
        self._n_used = 0  # requests of the current pass whose batches were delivered or skipped
        self._first = 0  # items of this epoch (batches of a batch sampler) used before that pass
        self._resumed = False  # the next pass resumes within the epoch
        self._sampler_state: Mapping[str, Any] | None = None  # for the next pass
        self._pass: object | None = None  # the one that counts, if it belongs to this epoch
        self._needs_generator, self._generator = generator_of(self._chosen_sampler)
        self._generator_state: Tensor | None = None  # at the start of this epoch
        self._drawn = dataset.current_epoch if isinstance(dataset, MoleculeDataset) else 0
        self._seen_epoch = getattr(self._chosen_sampler, "epoch", None)  # of the sampler
        self._has_warned = self._has_told_drops = False

    @property
    def _is_cuda(self) -> bool:
        return self.device is not None and self.device.type == "cuda"

    @property
    def _chosen_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @property
    def epoch(self) -> int:
        """Number of the current epoch, or of the next one between passes."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass, which starts from its beginning.

        A position that was loaded is kept if it belongs to this epoch.

        Args:
            epoch: number of the epoch, at least 0.

        Raises:
            TypeError: the number is not an integer.
            ValueError: the number is negative.
        """
        epoch = epoch_number(epoch)
        if self._resumed and epoch == self._epoch:
            return
        self._epoch = epoch
        self._resumed, self._sampler_state, self._generator_state = False, None, None
        self._restart()
        self._set_epoch_of_sampler()

    def _set_epoch_of_sampler(self) -> None:
        sampler = self._chosen_sampler
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(self._epoch)
            self._seen_epoch = getattr(sampler, "epoch", None)

    def _restart(self) -> None:
        """Goes to the start of the epoch."""
        self._n_delivered = self._n_used = self._first = 0
        self._pass = None

    def __len__(self) -> int:
        """Number of batches in a whole pass; a TypeError if the sampler has no length."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        n = len(self.sampler)  # type: ignore[arg-type]
        assert self.batch_size is not None
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """Starts a pass over the dataset, and ends the current one."""
        if not self._resumed:  # the previous pass may have been left early
            self._restart()
        self._follow_sampler()
        self._warn_of_ranks()
        indices = self._indices()
        self._resumed, self._n_used = False, 0
        self.end_of_dataloader = False
        enter_accelerate(self)
        begun = BatchIterator(self, indices)
        self._pass = begun.token
        return begun

    def _follow_sampler(self) -> None:
        """Adopts an epoch that other code, such as Lightning, has set on the sampler itself."""
        chosen = getattr(self._chosen_sampler, "epoch", None)
        if isinstance(chosen, int) and chosen != self._seen_epoch and chosen != self._epoch:
            self.set_epoch(chosen)

    def _warn_of_ranks(self) -> None:
        if not self._has_own_order or self._has_warned or (n := n_ranks()) == 1:
            return
        self._has_warned = True
        given, way_out = "no sampler", _SHARE_STORED
        if self.shuffle:
            given, way_out = "shuffle=True", _SHARE_SHUFFLED
        warnings.warn(
            f"{given}: each of the {n} ranks gets the whole dataset; to share it give "
            f"{way_out}, or another sampler of this package",
            stacklevel=3,
        )

    def _warn_of_drops(self, n: int) -> None:
        """Reports once, after the first whole pass, how many items ``missing="drop"`` dropped."""
        if not self._has_told_drops:
            self._has_told_drops = True
            warn_of_pass(n)

    def _count_request(self, counted: object, *, is_delivered: bool) -> None:
        """Counts a request of a pass, whose batch was delivered or skipped."""
        if self._pass is counted:
            self._n_used += 1
            self._n_delivered += is_delivered

    def _end_pass(self, ended: object) -> None:
        """Moves on to the next epoch once a pass has delivered its last batch."""
        if self._pass is ended:
            self.set_epoch(self._epoch + 1)

    def _indices(self) -> Iterator[Sequence[int] | Tensor]:
        """Iterates over the item numbers of each batch that is left in this epoch."""
        sampler, skip = self._chosen_sampler, self._first
        self._set_epoch_of_sampler()
        if self._sampler_state is not None:
            sampler.load_state_dict(self._sampler_state)
            self._sampler_state, skip = None, 0
            self._seen_epoch = getattr(sampler, "epoch", None)
        self._enter_epoch_of_data()
        if self._generator is not None:
            if self._generator_state is None:
                self._generator_state = self._generator.get_state()
            self._generator.set_state(self._generator_state)
        if self.batch_sampler is not None:
            return islice(iterate_batches(self.batch_sampler), skip, None)
        assert self.batch_size is not None
        if self._has_own_order:
            order = sampler if self.shuffle else None
            return chunks(order, len(self.dataset), self.batch_size, self.drop_last, skip)
        return self._chunks(islice(sampler, skip, None))

    def _enter_epoch_of_data(self) -> None:
        """Lets the dataset enter the epoch, if the sampler plans that epoch's molecules."""
        if not isinstance(self.dataset, MoleculeDataset):
            return
        sampler = self._chosen_sampler
        is_planned = isinstance(sampler, ElasticSampler) and not sampler._draws_change
        if is_planned and self.dataset.draws_change and self.batch_sampler is not None:
            drawn = self.dataset.epoch_for(self._epoch)
            if drawn != self._drawn and sampler._depends_on_sizes:
                raise ValueError(
                    f"batch_sampler: expected one made of this dataset, whose molecules change "
                    f"with the epoch, got one planned for epoch {self._drawn}: "
                    f"{type(sampler).__name__}(dataset, ...)"
                )
        self.dataset.follow_epoch(self._epoch)

    def _chunks(self, numbers: Iterator[int]) -> Iterator[list[int]]:
        assert self.batch_size is not None
        while chunk := list(islice(numbers, self.batch_size)):
            check_item(chunk[0], self.sampler)
            if len(chunk) == self.batch_size or not self.drop_last:
                yield chunk

    @property
    def _n_consumed(self) -> int:
        """Number of items of this epoch (batches of a batch sampler) that were used."""
        return self._first + self._n_used * (self.batch_size or 1)

    def _settings(self, epoch: int) -> dict[str, object]:
        """Returns what a state of this epoch is compared by."""
        sampler = self._chosen_sampler
        settings: dict[str, object] = {}
        if self._has_own_order:
            settings["order"] = f"shuffle={self.shuffle}"
            settings["seed"] = self.seed
        elif isinstance(sampler, ElasticSampler):
            settings["order"] = type(sampler).__name__
        else:
            settings["order"] = order_of(sampler)
            if self.batch_sampler is not None:  # then the position counts batches
                settings["batch_size"] = getattr(sampler, "batch_size", None)
        return settings | {"molecules": len(self.dataset)} | settings_of(self.dataset, epoch)

    def state_dict(self) -> dict[str, object]:
        """Returns the position of the loader, for checkpoints.

        It counts what was delivered, not what was made ahead. It holds for every batch size, except
        that of a batch sampler; samplers of this package add their own state, with which the pass
        can be resumed on a different number of ranks.

        Returns:
            ``"version"``, ``"epoch"``, ``"seed"``, ``"batches"`` (delivered in the epoch) and
            ``"consumed"`` (items that they were made of; batches with a batch sampler), all int;
            ``"planned"``: size and digest of the data and the kind of order, by which other data
            and orders are refused; ``"sampler"``: the state of a sampler of this package;
            ``"generator"``: that of the random generator of one of torch, at the epoch's start.

        Raises:
            ValueError: the pass cannot be resumed, as its sampler draws from torch's global random
                generator.
        """
        state: dict[str, object] = {
            "version": VERSION,
            "epoch": self._epoch,
            "seed": self.seed,
            "batches": self._n_delivered,
            "consumed": self._n_consumed,
            "planned": self._settings(self._epoch),
        }
        sampler = self._chosen_sampler
        if self._n_consumed:
            self._check_generator()
        if self._generator is not None:
            started = self._generator_state
            state["generator"] = self._generator.get_state() if started is None else started
        if self._sampler_state is not None:
            state["sampler"] = dict(self._sampler_state)
        elif _takes_consumed(sampler):
            if self._pass is None:
                self._set_epoch_of_sampler()
            used = 0 if self._pass is None else self._n_used * (self.batch_size or 1)
            state["sampler"] = sampler.state_dict(consumed=used)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a position: the next pass starts with the molecule after it.

        ``batch_size``, ``drop_last``, threads and ranks may be others than those of the state: the
        molecules that are left follow in the same order.

        Args:
            state: result of ``state_dict``.

        Raises:
            ValueError: the state belongs to other data, a different order or seed; the message has
                every difference. Or the sampler draws from torch's global random generator.
        """
        check_form(state, ("epoch", "seed", "batches", "consumed"))
        for key in ("epoch", "batches", "consumed"):
            checked_integer(f"state: {key}", state[key], 0)
        sampler = self._chosen_sampler
        found = differences_of(state["planned"], self._settings(state["epoch"]), self.dataset)
        if isinstance(sampler, ElasticSampler) and "sampler" in state:
            found += sampler._differences(state["sampler"])
        refuse(found)
        if isinstance(sampler, ElasticSampler):
            sampler._checked(state.get("sampler", {}))
        if state["consumed"]:
            self._check_generator()
        self._resumed = False
        self.set_epoch(state["epoch"])
        self._n_delivered, self._first = state["batches"], state["consumed"]
        self._resumed, self._sampler_state = True, state.get("sampler")
        self._generator_state = state.get("generator")

    def _check_generator(self) -> None:
        if self._needs_generator and self._generator is None:
            raise ValueError(
                f"state: {type(self._chosen_sampler).__name__} draws from torch's global random "
                "generator, so that its order cannot be resumed: give it "
                "generator=torch.Generator(), or use shuffle=True"
            )

    def __getattr__(self, name: str) -> NoReturn:
        if is_skipping():
            raise ValueError(
                "skip_first_batches: expected a DataLoader, got a Loader, which resumes by its own "
                "state: accelerator.register_for_checkpointing(loader), or load_state_dict; with "
                "transformers' Trainer also TrainingArguments(ignore_data_skip=True)"
            )
        hint = REPLACEMENTS.get(name)
        if hint is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(
            f"Loader has no {name!r}: {hint}. What prepares a loader for several ranks (Ray's "
            "prepare_data_loader, say) needs a DataLoader; a Loader needs no preparation: its "
            "samplers know the ranks",
        )

    def __repr__(self) -> str:
        names = ["batch_size", "shuffle", "seed", "drop_last"]
        if self.batch_sampler is not None:
            names = ["batch_sampler"]
        elif not self._has_own_order:
            names = ["batch_size", "sampler", "drop_last"]
        names += ["num_threads", "prefetch", "pin_memory", "device", "epoch"]
        if self.neighbors is not None:
            names.append("neighbors")
        options = ", ".join(f"{name}={_short(getattr(self, name))}" for name in names)
        return f"Loader({self.dataset!r}, {options})"


_SHARE_SHUFFLED = "sampler=DistributedMoleculeSampler(dataset, pad=True) instead of shuffle"
_SHARE_STORED = "sampler=DistributedMoleculeSampler(dataset, shuffle=False)"
_OPTIONS = [name for name in inspect.signature(Loader).parameters if name != "others"]


def _short(value: Any) -> str:
    """Returns an option as text, shortened if it is a list."""
    return reprlib.repr(value) if isinstance(value, (list, tuple)) else str(value)


def _takes_consumed(sampler: Any) -> bool:
    state_dict = getattr(sampler, "state_dict", None)
    return state_dict is not None and "consumed" in inspect.signature(state_dict).parameters
