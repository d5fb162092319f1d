"""Position in an epoch: the format of states, and the check before one is resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

VERSION = 1

_DIGESTS = ("data", "costs", "n_atoms", "sizes", "blocks")  # settings that may be unknown

_PHRASES = {
    "order": "expected the order of {expected}, got that of {got}",
    "weights": "expected the weights of this sampler, got others",
    "molecules": "expected {expected} {item}s, got {got}",
    "data": "expected the {item}s of this dataset in this order, got others",
    "seed": "expected seed {expected}, got {got}",
    "drawn": "expected the dataset at epoch {expected}, got that at epoch {got}",
}


def is_dataset(source: Any) -> bool:
    """Returns True for datasets of this package, which know their digest."""
    return hasattr(source, "item_name")


def has_epochs(source: Any) -> bool:
    """Returns True for datasets of molecules, which may change with the epoch."""
    return hasattr(source, "follow_epoch")


def settings_of(dataset: Any, epoch: int) -> dict[str, object]:
    """Returns the settings by which a state is recognized to be of a dataset.

    Args:
        dataset: the dataset, or anything else, such as a count.
        epoch: that of the state.

    Returns:
        The digest, and the epoch of a dataset that draws other molecules in each.
    """
    if not is_dataset(dataset):
        return {"data": None}
    found: dict[str, object] = {"data": dataset.digest()}
    if has_epochs(dataset) and dataset.draws_change:
        found["drawn"] = dataset.epoch_for(epoch)
    return found


def check_form(state: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    """Raises an error for states of other releases and for anything that is not a state.

    Args:
        state: result of ``state_dict``.
        keys: entries that it needs, apart from ``"planned"``.

    Raises:
        TypeError: it is not a mapping.
        ValueError: the state is of a different version, incomplete or damaged.
    """
    if not isinstance(state, Mapping):
        kind = type(state).__name__
        raise TypeError(f"state: expected the result of state_dict(), got {kind}")
    if state and "version" not in state:
        raise ValueError(
            "state: expected one with a version, got one of an earlier release, which cannot be "
            "resumed: start its epoch from the beginning with set_epoch"
        )
    if state.get("version") != VERSION:
        raise ValueError(f"state: expected version {VERSION}, got {state.get('version')!r}")
    for key in (*keys, "planned"):
        if key not in state:
            raise ValueError(f"state: expected the entry {key!r}, got {list(state)}")
    if not isinstance(state["planned"], Mapping):
        raise ValueError(f"state: expected a mapping as 'planned', got {state['planned']!r}")


def refuse(differences: list[str]) -> None:
    """Raises one error for all differences, if any.

    Args:
        differences: results of ``differences_of``.

    Raises:
        ValueError: there are differences.
    """
    if differences:
        raise ValueError(f"state: {'; '.join(dict.fromkeys(differences))}")


def differences_of(before: Mapping[str, Any], now: Mapping[str, Any], dataset: Any) -> list[str]:
    """Words every difference between the settings of a state and the present ones.

    Args:
        before: settings of the state.
        now: the present ones.
        dataset: the present data; a count, say, if it is not known.

    Returns:
        A phrase for each.
    """
    item = dataset.item_name if is_dataset(dataset) else "molecule"
    found = {}
    for key, expected in now.items():
        got = before.get(key)
        if got == expected or (key in _DIGESTS and None in (got, expected)):
            continue
        if key not in before and key not in ("order", "weights"):  # of a different kind of order
            continue
        phrase = _PHRASES.get(key, "expected {key}={expected!r}, got {got!r}")
        found[key] = phrase.format(key=key, item=item, expected=expected, got=got)
    n = before.get("molecules", 0)
    is_shorter = "molecules" in found and is_dataset(dataset) and n < len(dataset)
    if is_shorter and before.get("data") == dataset.digest(n):
        found = {key: phrase for key, phrase in found.items() if key not in _DIGESTS}
        found["data"] = (
            f"the data has grown since then: dataset.subset(range({n})) resumes the epoch"
        )
    return list(found.values())


def generator_of(sampler: Any) -> tuple[bool, torch.Generator | None]:
    """Finds the random generator of a sampler of torch, or of one that such a sampler wraps.

    Args:
        sampler: any sampler.

    Returns:
        (True if the order depends on a generator, the generator; None: torch's global one).
    """
    for each in (sampler, getattr(sampler, "sampler", None)):
        if isinstance(each, torch.utils.data.Sampler) and hasattr(each, "generator"):
            return True, each.generator
    return False, None


def order_of(sampler: Any) -> str:
    """Names the order of a sampler of other packages; a list is named by its content."""
    if isinstance(sampler, (list, tuple, range, np.ndarray, Tensor)):
        text = repr(sampler.tolist() if isinstance(sampler, (np.ndarray, Tensor)) else [*sampler])
        return f"a list with digest {hashlib.sha256(text.encode()).hexdigest()[:16]}"
    inner = getattr(sampler, "sampler", None)
    name = type(sampler).__name__
    return (
        f"{name} over {type(inner).__name__}"
        if isinstance(inner, torch.utils.data.Sampler)
        else name
    )
