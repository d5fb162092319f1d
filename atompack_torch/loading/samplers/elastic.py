"""Base of the samplers: a place in the epoch that is valid for any number of ranks."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypedDict, TypeVar

import numpy as np
import torch.distributed
from torch.utils.data import Sampler

from atompack_torch.loading.samplers._draws import DrawnShare, draws_of
from atompack_torch.loading.samplers.position import (
    VERSION,
    check_form,
    differences_of,
    has_epochs,
    is_dataset,
    refuse,
    settings_of,
)
from atompack_torch.loading.samplers.sizes import digest, no_other_molecules, numbers
from atompack_torch.loading.samplers.wrappers import (
    epoch_of_trainer,
    find_dealer,
    is_overfitting,
    refuse_dispatching,
)
from atompack_torch.options import check_flags, checked_integer, epoch_number
from atompack_torch.random_order import Integers

Item = TypeVar("Item")

# Progress of all ranks together in the sequence of an epoch; "position" counts its items.
Place = dict[str, int]


class Share(Protocol[Item]):
    """Items of one rank in one pass."""

    def chunks(self) -> Iterator[list[Item]]:
        """Yields the items in order, many at a time."""

    def place_after(self, n_items: int) -> Place:
        """Returns the place after a number of items of this pass on every rank."""

    def end(self) -> Place:
        """Returns the place at the end of the epoch."""


class RankOptions(TypedDict, total=False):
    """Options of all samplers, for type checkers."""

    shuffle: bool
    seed: int
    num_replicas: int | None
    rank: int | None
    weights: Any
    balance: str | None


class DropOptions(RankOptions, total=False):
    """Options of samplers that may drop something."""

    drop_last: bool


class SamplerOptions(DropOptions, total=False):
    """Options of samplers that may repeat something, too."""

    pad: bool


class ElasticSampler(Sampler[Item]):
    """Base of samplers that can be resumed on a different number of ranks.

    The items of an epoch form one sequence that only depends on seed and epoch. Rank r of W gets
    the items at r, r + W, r + 2 W, ... after the place where the pass began. The number of items
    used on one rank therefore determines those used on all ranks, and any number of ranks can
    continue from there.

    A pass that yielded its last item is followed by the next epoch, until ``set_epoch`` is called
    for the first time: from then on, each pass repeats the epoch that was set last, as with torch's
    ``DistributedSampler``. A pass that was left early is repeated from its start; the workers of a
    ``DataLoader`` ask for items ahead, so that a pass counts when its last item was asked for. The
    dataset that a sampler is made of enters the epoch with it.

    If a framework deals the items of a sampler to the ranks itself (accelerate, or a wrapper
    similar to torch's ``DistributedSampler``), the sampler yields the items of all ranks.
    """

    _repr_options: tuple[str, ...] = ()  # options of the subclass, for repr
    _digest: str | None = None  # of the sizes that were planned, once it is known

    def __init__(
        self,
        source: Any,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        num_replicas: int | None = None,
        rank: int | None = None,
        pad: bool = False,
        weights: Any = None,
        balance: str | None = None,
    ) -> None:
        """Checks the options.

        Args:
            source: a dataset, a count or an array; only a dataset is kept.
            shuffle: use a random order in every epoch; otherwise the stored order.
            seed: seed of these orders.
            drop_last: drop what cannot be divided among the ranks.
            num_replicas: number of ranks; None: that of torch.distributed when a pass begins, else
                1.
            rank: rank of this process; None: as for ``num_replicas``.
            pad: repeat molecules or batches from the start of the epoch until all ranks have the
                same number.
            weights: a number of at least 0 for each molecule, or the name of a column of them: an
                epoch consists of as many draws as there are molecules, with replacement, in which
                the chances of a molecule are proportional to its weight. None: each molecule once.
            balance: name of a field with one string or number per molecule, or ``"formula"``: draw
                so that all of its values are equally frequent.

        Raises:
            TypeError: an option has the wrong type.
            ValueError: an option is out of range, ``pad`` and ``drop_last`` are combined, or there
                are not as many weights as molecules.
            FieldError: a molecule lacks the value of ``balance`` or ``weights``.
        """
        if num_replicas is not None:
            num_replicas = checked_integer("num_replicas", num_replicas, 1)
        rank = None if rank is None else checked_integer("rank", rank)
        if rank is not None and (rank < 0 or (num_replicas is not None and rank >= num_replicas)):
            last = "" if num_replicas is None else f" and below {num_replicas}"
            raise ValueError(f"rank: expected at least 0{last}, got {rank}")
        check_flags(shuffle=shuffle, drop_last=drop_last, pad=pad)
        if drop_last and pad:
            raise ValueError("drop_last and pad exclude one another")
        self.shuffle = bool(shuffle)
        self.seed = checked_integer("seed", seed)
        self.drop_last = drop_last
        self.num_replicas = num_replicas
        self.rank = rank
        self.pad = pad
        self._dataset: Any = source if is_dataset(source) else None
        self._n_items = None if self._dataset is None else len(self._dataset)
        # Epoch of the dataset that the plan is made for.
        self._drawn = source.current_epoch if has_epochs(source) else 0
        self._draws = draws_of(source, weights, balance)
        self._drawn_molecules: tuple[tuple[int, int], Integers] | None = None  # seed and epoch
        if self._draws is not None and self._draws_change:
            raise no_other_molecules("weights")
        self._epoch = 0
        self._is_chosen = False  # by set_epoch
        self._loaded: dict[str, Any] | None = (
            None  # where the next pass begins, if not at the start
        )
        self._pass: Pass[Item] | None = None  # the last one that began

    @abstractmethod
    def _start(self) -> Place:
        """Returns the place at which an epoch begins."""

    @abstractmethod
    def _share(
        self, seed: int, epoch: int, start: Place, ranks: range, n_ranks: int
    ) -> Share[Item]:
        """Returns the items of some ranks, from ``start`` to the end of the epoch."""

    @abstractmethod
    def _plan_settings(self) -> dict[str, object]:
        """Returns everything that the sequence depends on except seed and epoch."""

    def _digest_of(self, *sizes: np.ndarray[Any, Any]) -> str | None:
        """Returns the digest of the sizes that were planned; None if they change."""
        if self._digest is None and not self._draws_change:
            self._digest = digest(np.concatenate(sizes))
        return self._digest

    def _settings(self, epoch: int) -> dict[str, object]:
        """Returns what a state of this epoch is compared by."""
        planned = self._plan_settings()
        if self._draws is not None:
            planned["weights"] = self._draws.digest
        return {"order": type(self).__name__, **planned, **settings_of(self._dataset, epoch)}

    @property
    def _draws_change(self) -> bool:
        """True if the dataset has different molecules in each epoch."""
        return has_epochs(self._dataset) and bool(self._dataset.draws_change)

    @property
    def _depends_on_sizes(self) -> bool:
        """True if other molecules need another plan."""
        return True

    def _plan_for(self, seed: int, epoch: int) -> None:
        """Plans the molecules that the dataset has in an epoch, without entering it."""
        if self._draws is not None:
            if self._drawn_molecules is None or self._drawn_molecules[0] != (seed, epoch):
                drawn = self._draws.of_epoch(seed, epoch)
                self._plan_drawn(drawn)
                self._drawn_molecules = (seed, epoch), drawn
            return
        if not self._draws_change:
            return
        drawn = self._dataset.epoch_for(epoch)
        if drawn != self._drawn:
            self._replan(numbers("n_atoms", self._dataset.counts_in(drawn)))
            self._drawn = drawn

    def _replan(self, n_atoms: np.ndarray[Any, Any]) -> None:
        """Plans molecules with these numbers of atoms; for samplers that depend on them."""

    def _plan_drawn(self, drawn: Integers) -> None:
        """Plans the molecules of an epoch that are drawn; for samplers that depend on them."""

    @property
    def epoch(self) -> int:
        """Number of the epoch of the next pass."""
        if self._loaded is None:
            return self._epoch
        return int(self._loaded["epoch"]) + self._is_past(self._loaded)

    def _is_past(self, state: Mapping[str, Any]) -> bool:
        """Returns True if the next epoch follows a state by itself, as its own is at its end."""
        return bool(state.get("ended")) and not self._is_chosen

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass.

        A place that was loaded is kept if it belongs to this epoch.

        Args:
            epoch: number of the epoch, at least 0.

        Raises:
            TypeError: the number is not an integer.
            ValueError: the number is negative.
        """
        refuse_dispatching()
        self._epoch, self._is_chosen = epoch_number(epoch), True
        if self._loaded is not None and self._loaded["epoch"] != epoch:
            self._loaded = None
        if self._pass is not None and self._pass.epoch != epoch:
            self._pass = None

    def ranks(self) -> tuple[int, int]:
        """Returns (rank, number of ranks): as given, else of torch.distributed, else (0, 1).

        Returns:
            Both numbers.

        Raises:
            ValueError: only one of them is known, or they contradict each other.
        """
        rank, n_ranks = self.rank, self.num_replicas
        if rank is None or n_ranks is None:
            distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
            if distributed:
                rank = torch.distributed.get_rank() if rank is None else rank
                n_ranks = torch.distributed.get_world_size() if n_ranks is None else n_ranks
            elif rank is None and n_ranks in (None, 1):
                rank, n_ranks = 0, 1
        if rank is None or n_ranks is None or rank >= n_ranks:
            raise ValueError(
                "rank and num_replicas: expected both or a torch.distributed that knows them, "
                f"got rank {rank} of {n_ranks}"
            )
        return rank, n_ranks

    def _ranks_of_pass(self) -> tuple[range, int]:
        """Returns (ranks whose items a pass yields, number of ranks).

        A pass yields the items of all ranks if a wrapper deals them.
        """
        wrapper = find_dealer(ElasticSampler)
        if wrapper is None:
            rank, n_ranks = self.ranks()
            return range(rank, rank + 1), n_ranks
        if self.num_replicas not in (None, 1) or self.rank not in (None, 0):
            raise ValueError(
                f"{wrapper.name} deals to the ranks itself: expected neither rank nor "
                f"num_replicas, got rank {self.rank} of {self.num_replicas}"
            )
        return self._all_ranks(wrapper.n_ranks)

    def _all_ranks(self, n_ranks: int) -> tuple[range, int]:
        """Returns (ranks, their number) for a wrapper that deals to ``n_ranks`` itself."""
        return range(n_ranks), n_ranks

    def __iter__(self) -> Pass[Item]:
        """Returns one pass of this rank, which begins with the request for its first item."""
        return Pass(self)

    def __repr__(self) -> str:
        shared = ("shuffle", "seed", "epoch", "drop_last", "pad", "num_replicas", "rank")
        options = [f"{name}={getattr(self, name)!r}" for name in (*self._repr_options, *shared)]
        return f"{type(self).__name__}({', '.join([self._extent(), *options])})"

    def _extent(self) -> str:
        """Describes the number of items, for repr."""
        return f"{self._plan_settings()['molecules']} molecules"

    def _check_dataset(self) -> None:
        """Raises an error if a refresh has changed the number of items of the dataset."""
        if self._n_items is not None and self._n_items != len(self._dataset):
            raise ValueError(
                f"sampler: expected the {self._n_items} {self._dataset.item_name}s that it was "
                f"made of, got {len(self._dataset)} after refresh(): make a new sampler"
            )

    def _begin(self, begun: Pass[Item], resumed: dict[str, Any] | None) -> Share[Item]:
        self._check_dataset()
        if resumed is None and self._loaded is not None:
            epoch, resumed, self._loaded = self.epoch, self._loaded, None
            self.seed, self._epoch = resumed["seed"], epoch
        elif resumed is None and not (self._is_chosen or is_overfitting()):
            self._epoch = epoch_of_trainer(self._epoch)
        self._pass = begun
        begun.seed = self.seed if resumed is None else resumed["seed"]
        begun.epoch = self._epoch if resumed is None else resumed["epoch"] + self._is_past(resumed)
        start = self._start()
        if resumed is not None and not self._is_past(resumed):
            start = {key: resumed[key] for key in start}
        if has_epochs(self._dataset):
            self._dataset.follow_epoch(begun.epoch)
        self._plan_for(begun.seed, begun.epoch)
        share = self._share(begun.seed, begun.epoch, start, *self._ranks_of_pass())
        return (
            share if self._drawn_molecules is None else DrawnShare(share, self._drawn_molecules[1])
        )

    def _end(self, ended: Pass[Item]) -> None:
        """Goes to the next epoch after a whole pass."""
        if self._pass is ended and not (self._is_chosen or is_overfitting()):
            self._epoch = ended.epoch + 1

    def state_dict(self, consumed: int | None = None) -> dict[str, object]:
        """Returns the place in the epoch, which is valid for any rank and number of ranks.

        Args:
            consumed: number of items of this pass that this rank has used; None: all that were
                yielded. A ``DataLoader`` with workers runs ahead of training: count the items, or
                use a ``StatefulDataLoader``, which does.

        Returns:
            A dict of numbers and strings.

        Raises:
            ValueError: the pass has yielded fewer items.
        """
        if self._loaded is None and self._pass is not None:
            return self._pass.state_dict(consumed)
        if consumed:
            raise ValueError(f"consumed: expected 0 before the pass began, got {consumed}")
        if self._loaded is not None:
            return dict(self._loaded)
        return self._state(self.seed, self._epoch, self._start())

    def _state(self, seed: int, epoch: int, place: Place) -> dict[str, object]:
        return {
            "version": VERSION,
            "seed": seed,
            "epoch": epoch,
            **place,
            "planned": self._settings(epoch),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from a place: the next pass has the epoch and seed of the state.

        ``drop_last``, ``pad`` and the ranks may differ from those of the original sampler. The
        state of an epoch's end is followed by the next epoch, unless ``set_epoch`` was called.

        Args:
            state: result of ``state_dict``.

        Raises:
            ValueError: the state is invalid, or belongs to other data or options; the message has
                every difference.
        """
        self._loaded, self._pass = self._checked(state), None

    def _checked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a state with valid numbers."""
        check_form(state, ("seed", "epoch", *self._start()))
        refuse(self._differences(state))
        loaded = {"seed": checked_integer("state: seed", state["seed"])}
        for key in ("epoch", *self._start()):
            loaded[key] = checked_integer(f"state: {key}", state[key], 0)
        return {**state, **loaded, "planned": dict(state["planned"])}

    def _differences(self, state: Mapping[str, Any]) -> list[str]:
        """Describes how this sampler and a state differ; an error for what is not a state."""
        check_form(state, ("epoch",))
        settings, planned = self._settings(state["epoch"]), state["planned"]
        if "weights" in planned:
            settings.setdefault("weights", None)
        return differences_of(planned, settings, self._dataset)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pass": None}  # a copy starts its own passes


class EpochSetter:
    """Forwards ``set_epoch`` to a batch sampler.

    Frameworks set the epoch of a loader only through ``loader.sampler`` and
    ``loader.batch_sampler.sampler``.
    """

    def __init__(self, sampler: ElasticSampler[Any]) -> None:
        self._sampler = sampler

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass, unless Lightning overfits a few batches."""
        if not is_overfitting():
            self._sampler.set_epoch(epoch)


class BatchSampler(ElasticSampler[list[int]]):
    """Base of samplers of batches, which are lists of molecule numbers."""

    @property
    def sampler(self) -> EpochSetter:
        """The object on which Lightning and accelerate call ``set_epoch`` for this sampler."""
        return EpochSetter(self)

    def _n_batches(self) -> int:
        """Returns the number of batches that are planned for an epoch of all ranks."""
        raise NotImplementedError

    def __len__(self) -> int:
        """Number of batches of this rank in a whole pass of this epoch."""
        ranks, n_ranks = self._ranks_of_pass()
        self._plan_for(self.seed, self.epoch)
        n_batches = self._n_batches()
        n_steps = n_batches // n_ranks if self.drop_last else -(-n_batches // n_ranks)
        return n_steps * len(ranks)


class Pass(Iterator[Item]):
    """One pass of one rank over an epoch.

    Its state is separate from that of the sampler, so that a ``StatefulDataLoader`` can restore the
    current pass and then start further ones from the beginning.
    """

    seed: int
    epoch: int

    def __init__(self, sampler: ElasticSampler[Item]) -> None:
        self._sampler = sampler
        self._resumed: dict[str, Any] | None = None
        self._share: Share[Item] | None = None
        self._n_dealt = 0
        self._chunk: Iterator[Item] = iter(())
        self._ended = False
        self._items = self._run()

    def __iter__(self) -> Iterator[Item]:
        return self._items  # a generator over lists: loops in C (zip, islice) pass this class by

    def __next__(self) -> Item:
        return next(self._items)

    def _run(self) -> Iterator[Item]:
        dataset = self._sampler._dataset
        self._share = self._sampler._begin(self, self._resumed)
        for chunk in self._share.chunks():
            self._n_dealt += len(chunk)
            self._chunk = iter(chunk)
            if has_epochs(dataset) and dataset.epoch_for(0) != dataset.epoch_for(1):
                for item in self._chunk:
                    dataset.follow_epoch(self.epoch)  # another pass may have entered its own
                    yield item
            else:
                yield from self._chunk
        self._ended = True
        self._sampler._end(self)

    def state_dict(self, consumed: int | None = None) -> dict[str, object]:
        """Returns the place in the epoch; see the sampler."""
        if self._share is None:
            if self._resumed is None or consumed:
                return self._sampler.state_dict(consumed)
            return dict(self._resumed)
        n_yielded = self._n_dealt - operator.length_hint(self._chunk)
        used = n_yielded if consumed is None else operator.index(consumed)
        if used < 0 or (used > n_yielded and not self._ended):
            raise ValueError(f"consumed: expected 0 to {n_yielded}, got {used}")
        at_end = self._ended and (consumed is None or used > n_yielded)
        place = self._share.end() if at_end else self._share.place_after(used)
        state = self._sampler._state(self.seed, self.epoch, place)
        return {**state, "ended": True} if at_end else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Sets the position of this pass only, before it begins."""
        if self._share is not None:
            raise ValueError("state: this pass began already")
        sampler = self._sampler
        self._resumed, sampler._loaded = sampler._checked(state), None
        if not sampler._is_chosen:
            sampler.seed = self._resumed["seed"]
            sampler._epoch = self._resumed["epoch"] + sampler._is_past(self._resumed)
