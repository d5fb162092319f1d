"""Local copy of a store or an array file in an object store, for writing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from atompack_torch.remote.objects import ObjectState, RemoteObjects
from atompack_torch.remote.staging import N_TRANSFERS, TemporaryFolder, transferring
from atompack_torch.remote.uploads import each

_LAYER = re.compile(r"(.*)\.(\d+)\.af")
_Identity = tuple[int, int, int]


class _Known(NamedTuple):
    """A file that is the same here and there.

    Attributes:
        state: the state of the object.
        identity: inode, size and time of the local file.
    """

    state: ObjectState
    identity: _Identity


class Changes(NamedTuple):
    """Differences between the local files and the objects, as names relative to the folder.

    Attributes:
        layers: layers to be added.
        bases: bases of array files to be added or replaced.
        statistics: statistics to be added or replaced.
        metadata: metadata files to be added or replaced.
        removed: objects to be removed, layers in ascending order.
    """

    layers: list[str]
    bases: list[str]
    statistics: list[str]
    metadata: list[str]
    removed: list[str]

    @property
    def is_compaction(self) -> bool:
        """True if layers were merged into their bases."""
        return any(layer_of(name) for name in self.removed)


def layer_of(name: str) -> tuple[str, int] | None:
    """Returns path without suffix and number of a layer; None for other files.

    Args:
        name: a file name.

    Returns:
        ``("array/data", 3)`` for ``array/data.3.af``.
    """
    found = _LAYER.fullmatch(name)
    return (found[1], int(found[2])) if found else None


def stem_of(name: str) -> str:
    """Returns the path without suffix of the array file that a file belongs to."""
    layer = layer_of(name)
    return layer[0] if layer else name.rpartition(".")[0]


class RemoteCopy:
    """Local files, and the states of the objects that they were or will be.

    Args:
        objects: the object store.
        url: the URL of the folder.
        name: name of the local folder.

    Attributes:
        objects: the object store.
        url: the URL of the folder, without the last slash.
        folder: the temporary folder.
        path: the local folder in it.
    """

    def __init__(self, objects: RemoteObjects, url: str, name: str) -> None:
        self.objects = objects
        self.url = url.rstrip("/")
        self.folder = TemporaryFolder()
        self.path = self.folder.path / name
        self._known: dict[str, _Known] = {}

    def url_of(self, name: str) -> str:
        """Returns the URL of a file."""
        return f"{self.url}/{name}"

    def fetch(self, found: Mapping[str, ObjectState]) -> None:
        """Downloads objects in the given states, and removes what was downloaded before.

        Args:
            found: name to state.

        Raises:
            OSError: an object was replaced (``ESTALE``) or removed meanwhile, or the store refuses
                or gives no answer.
        """
        for name in [name for name in self._known if name not in found]:
            (self.path / name).unlink()
            del self._known[name]
        missing = {
            name: state
            for name, state in found.items()
            if name not in self._known or self._known[name].state.etag != state.etag
        }
        total = sum(state.size for state in missing.values())
        with transferring(f"downloading {self.path.name}", total) as report:

            def fetch(name: str) -> None:
                path = self.path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                self.objects.fetch(self.url_of(name), path, missing[name], report)
                self._known[name] = _Known(missing[name], _identity(path))

            each(fetch, list(missing), N_TRANSFERS)

    def changes(self) -> Changes:
        """Compares the local files with the objects."""
        names = {
            path.relative_to(self.path).as_posix(): _identity(path)
            for path in self.path.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }
        changed = sorted(
            name
            for name, identity in names.items()
            if name not in self._known or self._known[name].identity != identity
        )
        others = [name for name in changed if not name.endswith((".af", ".stats"))]
        removed = [name for name in self._known if name not in names]
        return Changes(
            [name for name in changed if layer_of(name)],
            [name for name in changed if name.endswith(".af") and not layer_of(name)],
            [name for name in changed if name.endswith(".stats")],
            others,
            sorted(removed, key=lambda name: layer_of(name) or (name, 0)),
        )

    def state(self, name: str) -> ObjectState | None:
        """Returns the state in which an object is expected; None if there should be none."""
        known = self._known.get(name)
        return known.state if known else None

    def store(self, name: str, report: Callable[[int], object] | None = None) -> None:
        """Uploads a file; does nothing if that was done.

        Args:
            name: its name.
            report: called with the number of bytes sent since the last call.

        Raises:
            FileExistsError, OSError: as for ``RemoteObjects.put``.
        """
        path = self.path / name
        identity = _identity(path)
        known = self._known.get(name)
        if known is not None and known.identity == identity:
            return
        expected = self.state(name)
        state = self.objects.put(self.url_of(name), path, expected=expected, report=report)
        self._known[name] = _Known(state, identity)

    def note(self, name: str, state: ObjectState) -> None:
        """Notes that an object stands for a file, although their bytes may differ."""
        self._known[name] = _Known(state, _identity(self.path / name))

    def remove(self, name: str) -> None:
        """Deletes an object; does nothing if that was done.

        Args:
            name: its name.

        Raises:
            OSError: another writer has replaced it, the store refuses, or gives no answer.
        """
        known = self._known.get(name)
        if known is not None:
            self.objects.delete(self.url_of(name), known.state)
            del self._known[name]

    def size_of(self, names: Sequence[str]) -> int:
        """Returns the total size of local files in bytes."""
        return sum((self.path / name).stat().st_size for name in names)


def _identity(path: Path) -> _Identity:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns
