"""Sources and targets of conversions that are URLs, by way of local files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from atompack_torch.formats.converter import Mode
from atompack_torch.options import has_suffix, is_hidden, is_url, shown_url
from atompack_torch.remote.local_copies import transferring
from atompack_torch.remote.objects import RemoteObjects, each
from atompack_torch.remote.staging import (
    N_TRANSFERS,
    Options,
    StagedFile,
    StagedFolder,
    TemporaryFolder,
    local_name,
    naming,
)

_Path = str | os.PathLike[str]


class RemoteEnds:
    """Context of one conversion: makes local files of URLs, uploads the targets at the end.

    Nothing is uploaded if the block raises. Local files are removed, except for a target that could
    not be uploaded.

    Args:
        storage_options: options of the store of URLs.
        progress: show the progress of long transfers on terminals.
    """

    def __init__(self, storage_options: Options, *, progress: bool) -> None:
        self._options = storage_options
        self._progress = progress
        self._stack = ExitStack()
        self._targets: list[StagedFile | StagedFolder] = []
        self._urls: list[str] = []

    def target(self, dst: _Path, mode: Mode, *, has_shards: bool) -> tuple[_Path, Mode]:
        """Returns the local file or folder for a target, and the mode in which to open it.

        Args:
            dst: the path or URL of the target.
            mode: mode of the conversion.
            has_shards: True if the target is a folder of shards.

        Returns:
            Path and mode; those given for a path.

        Raises:
            FileExistsError: ``mode="x"`` and the object exists.
            OSError: the store cannot be reached, or refuses.
        """
        if not (isinstance(dst, str) and is_url(dst)):
            return dst, mode
        self._urls.append(dst)
        target: StagedFile | StagedFolder
        if has_shards:
            if mode != "x":
                raise ValueError(f"mode: {shown_url(dst)}: shards are not replaced or appended to")
            target = StagedFolder(dst, "meta.json", self._options, progress=self._progress)
        else:
            target = StagedFile(
                dst,
                mode,
                self._options,
                instead="mode='w' replaces it",
                progress=self._progress,
            )
        self._targets.append(target)
        path = str(target.path)
        self._stack.enter_context(naming(dst, path))
        is_new = has_shards or (isinstance(target, StagedFile) and target.is_new)
        return path, "x" if is_new else mode

    def source(self, path: _Path, format: str | None) -> _Path:  # noqa: A002
        """Returns the local file or folder for a source.

        Args:
            path: the path or URL of the source.
            format: name of its format; None: it is detected.

        Returns:
            The path; that given for a path, or for a URL of ``.atp`` files.

        Raises:
            FileNotFoundError: there is no such object.
            ValueError: the URL is that of a target.
            OSError: the store cannot be reached, or refuses.
        """
        if not (isinstance(path, str) and is_url(path)):
            return path
        if path in self._urls:
            raise ValueError(f"{shown_url(path)}: is a source itself")
        if has_suffix(shown_url(path), ".atp"):
            return path
        objects = RemoteObjects(path, self._options)
        url = path.rstrip("/")
        names = objects.find(path)
        if format in (None, "atp") and any(
            has_suffix(name, ".atp") and not is_hidden(name) for name in names
        ):
            return path
        folder = TemporaryFolder()
        self._stack.callback(folder.remove)
        place = folder.path / local_name(url)
        total = sum(state.size for state in names.values())
        label = f"downloading {place.name}"
        with transferring(label, total, enabled=self._progress) as report:

            def fetch(name: str) -> None:
                copy = place / name if name else place
                if ".." in Path(name).parts:
                    raise ValueError(f"{shown_url(url)}: expected no .. in the name {name!r}")
                copy.parent.mkdir(parents=True, exist_ok=True)
                objects.fetch(f"{url}/{name}" if name else path, copy, names[name], report)

            each(fetch, [name for name in names if not name.endswith("/")], N_TRANSFERS)
        self._stack.enter_context(naming(path, str(place)))
        return str(place)

    def __enter__(self) -> RemoteEnds:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        with self._stack:
            if error is not None:
                for target in self._targets:
                    target.discard()
                raise error
            for target in self._targets:
                target.publish()
