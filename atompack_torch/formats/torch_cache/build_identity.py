"""Identity of a cache build: what is computed from which molecules, and how it is stored."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Protocol

import numpy as np

from atompack_torch._core import CacheHeader
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.sweeping import OnProgress
from atompack_torch.errors import FieldError
from atompack_torch.options import check_choice, check_threads, is_url
from atompack_torch.remote.urls import shown_url

_CONFIG = ("ang_cutoff", "ang_order", "min_cutoff", "rad_cutoff", "rad_order", "species")


class Descriptor(Protocol):
    """Interface of descriptors, such as ``ChebyshevDescriptor``.

    Two descriptors with equal ``compat`` have the same features; ``compute`` adds ``features`` and,
    if requested, the derivative fields to a batch.
    """

    @property
    def compat(self) -> Mapping[str, object]:
        """Settings, by their names in the format's compatibility JSON."""

    def compute(self, batch: MoleculeBatch, derivatives: bool = False) -> MoleculeBatch:
        """Returns the batch with ``features``, and derivatives if requested."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Options of ``build_cache``, which explains them."""

    features: bool
    force_derivatives: bool
    dtype: str
    num_threads: int | None
    progress: bool | OnProgress
    resume: bool

    def __post_init__(self) -> None:
        if not (self.features or self.force_derivatives):
            raise FieldError(
                "build_cache: expected features, force_derivatives or both, got neither"
            )
        check_choice("dtype", self.dtype, ("float32", "float64"))
        check_threads(self.num_threads)


def header_of(descriptor: Descriptor, options: BuildOptions) -> CacheHeader:
    """Returns the settings that a file states.

    Args:
        descriptor: the descriptor.
        options: which sections are stored, and their dtype.

    Returns:
        The header, without the origin of the molecules.
    """
    compat: Mapping[str, Any] = descriptor.compat
    header = CacheHeader()
    header.features = options.features
    header.force_derivatives = options.force_derivatives
    header.storage_dtype = options.dtype
    header.n_radial, header.n_angular = compat["rad_order"] + 1, compat["ang_order"] + 1
    header.multi = compat["multi"]
    header.n_features = (header.n_radial + header.n_angular) * (2 if header.multi else 1)
    header.compat_json = canonical_json(compat)
    header.compat_sha256 = _sha256(header.compat_json)
    config = {
        **{key: compat[key] for key in _CONFIG},
        "device": "cpu",
        "dtype": options.dtype,
        "n_features": header.n_features,
    }
    config_json = canonical_json(config)
    header.set_manifest(compat["descriptor_class"], config_json, _sha256(config_json))
    return header


def canonical_json(value: Mapping[str, object]) -> str:
    """Encodes settings as JSON in the form of cache files: sorted keys, no spaces, ASCII."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def source_of(dataset: MoleculeDataset) -> tuple[str, str]:
    """Describes the origin of the molecules, for the file's table of entries."""
    path = dataset._path
    if isinstance(path, str) and is_url(path):
        return shown_url(path), "file"  # without secrets, for the file may be given away
    return (str(path) if isinstance(path, (str, os.PathLike)) else ""), "file"


def fingerprint_of(dataset: MoleculeDataset, descriptor: Descriptor, header: CacheHeader) -> str:
    """Returns a key of inputs and options.

    Args:
        dataset: the molecules.
        descriptor: computes the rows.
        header: settings of the file.

    Returns:
        A string, equal only if the work of an earlier build can be reused.
    """
    facts = {
        "compat": header.compat_json,
        "descriptor": [type(descriptor).__qualname__, str(getattr(descriptor, "dtype", None))],
        "features": header.features,
        "force_derivatives": header.force_derivatives,
        "dtype": header.storage_dtype,
        "source": dataset._identity(),
        "options": {
            name: _text_of(value)
            for name, value in dataset._options().items()
            if name not in ("access", "num_threads", "renamed")  # of reading only
        },
        "force_subset": dataset._forces and [*astuple(dataset._forces), dataset._epoch],
        "n_atoms": hashlib.sha256(np.asarray(dataset.n_atoms).tobytes()).hexdigest(),
        "selection": None
        if dataset._selection is None
        else hashlib.sha256(np.asarray(dataset._selection).tobytes()).hexdigest(),
    }
    return canonical_json(facts)


def _text_of(option: Any) -> str:
    """Returns a string that is equal in every process, unlike the repr of a function."""
    return f"{option.__module__}.{option.__qualname__}" if callable(option) else repr(option)
