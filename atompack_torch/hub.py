"""Datasets on the Hugging Face hub: folders of ``.atp`` shards, one per split, or single files.

    train = apt.hub.open("some/dataset", "omat/train")
    url = apt.hub.upload("made/train", "me/mine", "train")

Needs huggingface_hub (``pip install huggingface_hub``).
"""

from __future__ import annotations

import errno
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from atompack_torch import formats
from atompack_torch.errors import CorruptFileError
from atompack_torch.formats.dispatch import info, verify
from atompack_torch.formats.dispatch import open as open_path
from atompack_torch.options import files_in, has_suffix, is_hidden
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.listing import relative_names
from atompack_torch.remote.urls import HubUrl

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_shards.dataset import ShardDataset
    from atompack_torch.formats.atlas_store.dataset import AtlasDataset
    from atompack_torch.formats.atp.dataset import AtpDataset
    from atompack_torch.formats.torch_cache.dataset import TorchCacheDataset

_P = TypeVar("_P", bound=PurePath)


def open(  # noqa: A001  (as in gzip.open)
    repo_id: str,
    name: str | None = None,
    revision: str | None = None,
    *,
    cache_dir: str | Path | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    stream: bool = False,
    **options: Any,
) -> AtpDataset | TorchCacheDataset | ShardDataset | AtlasDataset:
    """Downloads files that are not in the local cache yet, and opens the dataset.

    Without a network (``local_files_only=True`` or ``HF_HUB_OFFLINE=1``) only the local cache is
    used; shards that were never downloaded are then missing without an error.

    Args:
        repo_id: a dataset repository.
        name: a folder in it, whose ``**/*.atp`` are the shards; or one file, of any format that
            ``apt.open`` opens. None: the only file, or the only folder with files, of the
            repository.
        revision: branch, tag or commit; None: the main branch.
        cache_dir: cache folder of huggingface_hub; None: its default.
        token: access token of huggingface_hub, for repositories that need one.
        local_files_only: do not use the network.
        stream: read only what batches need, by ranges, and download nothing. ``refresh()`` looks up
            the revision again; until then the commit is read that it named at first.
            huggingface_hub is not needed for public data. ``storage_options`` with ``cache`` and
            ``cache_bytes`` is an option of the class.
        **options: options of the class: ``AtpDataset`` for ``.atp`` files.

    Returns:
        The dataset, as from ``apt.open``.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: ``name`` points outside the repository, or it is None and several folders hold
            files; or ``stream`` is combined with an option of the download.
        FileNotFoundError: there is nothing to open.
        CorruptFileError: a file violates the format.
    """
    if stream:
        if cache_dir is not None or local_files_only:
            raise ValueError("stream: expected no cache_dir and no local_files_only with it")
        return _open_remote(repo_id, _checked(name), revision, token, options)
    place = download(
        repo_id,
        name,
        revision,
        cache_dir=cache_dir,
        token=token,
        local_files_only=local_files_only,
    )
    return open_path(place, **options)  # type: ignore[no-any-return]


def download(
    repo_id: str,
    name: str | None = None,
    revision: str | None = None,
    *,
    repo_type: str = "dataset",
    cache_dir: str | Path | None = None,
    local_dir: str | Path | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    force_download: bool = False,
) -> Path:
    """Downloads the files of a dataset that are not in the local cache yet.

    Args:
        repo_id: a repository, OWNER/NAME.
        name: a folder in it, whose ``**/*.atp`` and ``manifest.json`` are downloaded; or one file.
            None: the only file, or the only folder with files, of the repository.
        revision: branch, tag or commit; None: the main branch.
        repo_type: "dataset", "model" or "space".
        cache_dir: cache folder of huggingface_hub; None: its default.
        local_dir: a folder that gets the files under their names in the repository, instead of the
            cache.
        token: access token of huggingface_hub, for repositories that need one.
        local_files_only: do not use the network, as with ``HF_HUB_OFFLINE=1``.
        force_download: download again what was already downloaded.

    Returns:
        The downloaded file or folder, for ``apt.open``.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: ``name`` points outside the repository, or it is None and several folders hold
            files.
        FileNotFoundError: the repository has no such file or folder, or no shards in it.
    """
    inside = _checked(name)
    snapshot = _huggingface_hub("download").snapshot_download(
        repo_id,
        repo_type=repo_type,
        revision=revision,
        cache_dir=cache_dir,
        local_dir=local_dir,
        token=token,
        local_files_only=local_files_only,
        force_download=force_download,
        allow_patterns=_patterns(inside),
    )
    return _place(Path(snapshot), inside, repo_id)


def upload(
    path: str | Path,
    repo_id: str,
    name: str | None = None,
    revision: str | None = None,
    *,
    repo_type: str = "dataset",
    token: str | bool | None = None,
    message: str | None = None,
    create: bool = True,
    private: bool | None = None,
    replace: bool = False,
) -> str:
    """Uploads a dataset in one commit: nobody sees a part of it.

    All records and rows are verified before anything is sent, so that damage is not published; what
    readers tolerate is a warning. The rows of a feature cache are not recomputed. atompack's own
    ``hub.open`` reads what this uploads. Xet is used where huggingface_hub has it;
    ``HF_HUB_DISABLE_XET=1`` turns it off.

    Args:
        path: a folder of ``.atp`` shards, of which ``**/*.atp`` and ``manifest.json`` are sent; or
            one ``.atp`` file or feature cache.
        repo_id: a repository, OWNER/NAME.
        name: for a folder, the folder in the repository, None for its root. For a file, its name
            there, or the folder for it if it has no suffix of a format; None: its own name.
        revision: branch to commit to; None: the main branch.
        repo_type: "dataset", "model" or "space".
        token: access token of huggingface_hub; None: the one of its login.
        message: message of the commit.
        create: create the repository if it does not exist.
        private: whether a repository that is created is private; None: as its owner's settings say.
        replace: also remove, in the same commit, shards of the folder that ``path`` does not have.
            Without it they stay, and belong to the dataset that the folder then holds.

    Returns:
        The ``hf://`` address of what was uploaded, at that commit.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: ``name`` points outside the repository, the file has a foreign format, there is
            no molecule, or ``replace`` with a single file.
        FileNotFoundError: there is no such file, or no shard in the folder.
        CorruptFileError: a file violates the format.
    """
    source, inside = Path(path).expanduser(), _checked(name)
    if repo_type not in ("dataset", "model", "space"):
        raise ValueError(f"repo_type: expected 'dataset', 'model' or 'space', got {repo_type!r}")
    repository = HubUrl(f"{repo_type}s", _checked_repository(repo_id), revision or "main", "")
    _check_source(source, replace)
    api = _huggingface_hub("upload").HfApi(token=token)
    if create:
        api.create_repo(repo_id, repo_type=repo_type, private=private, exist_ok=True)
    same = {
        "repo_id": repo_id,
        "repo_type": repo_type,
        "revision": revision,
        "commit_message": message or f"Upload {source.name}",
    }
    if source.is_dir():
        place = str(inside or "")
        patterns = _patterns(None)
        done = api.upload_folder(
            folder_path=source,
            path_in_repo=place,
            allow_patterns=patterns,
            delete_patterns=patterns if replace else None,
            **same,
        )
    else:
        if inside is None or not _is_file(inside):
            inside = (inside or PurePosixPath()) / source.name
        place = str(inside)
        done = api.upload_file(
            path_or_fileobj=source,
            path_in_repo=place,
            **same,
        )
    return repository._replace(revision=done.oid).with_path(place)


def _check_source(source: Path, replace: bool) -> None:
    """Raises an error if there is no dataset to upload."""
    if not source.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
    if source.is_dir():
        if not files_in(source, ".atp"):
            raise FileNotFoundError(f"{source}: expected .atp shards in the folder, got none")
    elif source.suffix.lower() not in (suffixes := _uploaded_suffixes()):
        raise ValueError(f"{source.name}: expected a file that ends with {' or '.join(suffixes)}")
    elif replace:
        raise ValueError("replace: expected a folder with it; a file replaces its namesake anyway")
    from atompack_torch.formats.torch_cache.verification import verify_cache

    is_cache = source.is_file() and source.suffix.lower() != ".atp"
    if is_cache:
        info(source)  # raises an error if it has a different format
    found: Any = (
        verify_cache(source, recompute=False, max_faults=1)
        if is_cache
        else verify(source, max_faults=1)
    )
    if not found.ok:
        raise CorruptFileError(f"{found.faults[0]} (atompack-torch verify lists all faults)")
    if is_cache:
        return
    if found.n_molecules == 0 and found.warnings:  # the only commit is damaged
        raise CorruptFileError(found.warnings[0])
    if found.n_molecules == 0:
        raise ValueError(f"{source}: expected molecules to upload, got none")
    for warning in found.warnings:
        warnings.warn(warning, stacklevel=3)


def _uploaded_suffixes() -> list[str]:
    return [s for known in formats.FORMATS if known.is_uploaded for s in known.suffixes]


def _huggingface_hub(what: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            f"hub.{what} needs huggingface_hub: pip install huggingface_hub"
        ) from error
    return huggingface_hub


def _open_remote(
    repo_id: str,
    inside: PurePosixPath | None,
    revision: str | None,
    token: str | bool | None,
    options: dict[str, Any],
) -> AtpDataset | TorchCacheDataset | ShardDataset | AtlasDataset:
    storage = dict(options.pop("storage_options", None) or {})
    if isinstance(token, str):
        storage["token"] = token
    elif token is False:
        storage["anonymous"] = True
    remote = RemoteFiles.checked(storage)
    repository = HubUrl("datasets", _checked_repository(repo_id), revision or "main", "")
    place = str(inside) if inside is not None else _only_place(remote, repository)
    url = repository.with_path(place)
    return open_path(url, storage_options=remote, **options)  # type: ignore[no-any-return]


def _checked_repository(repo_id: str) -> str:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo_id):
        raise ValueError(f"repo_id: expected OWNER/NAME, got {repo_id!r}")
    return repo_id


def _only_place(remote: RemoteFiles, repository: HubUrl) -> str:
    """Returns the only file, or the only folder with files, of a repository."""
    names = relative_names(remote, repository.with_path(""))
    suffixes = tuple(_suffixes())
    files = [PurePosixPath(n) for n in names if has_suffix(n, suffixes) and not is_hidden(n)]
    if not files:
        raise FileNotFoundError(f"{repository.repo}: no {' or '.join(_suffixes())} file in it")
    return str(_one_of(files, PurePosixPath(".")))


def _checked(name: str | None) -> PurePosixPath | None:
    if name is None:
        return None
    inside = PurePosixPath(name.strip("/"))
    if ".." in inside.parts or not inside.parts:
        raise ValueError(f"name: expected a path in the repository, got {name!r}")
    return inside


def _patterns(inside: PurePosixPath | None) -> list[str]:
    if inside is not None and _is_file(inside):
        return [_literal(inside)]
    folder = "" if inside is None else f"{_literal(inside)}/"
    names = [name for known in formats.FORMATS for name in known.hub_files]
    return [folder + pattern for name in names for pattern in (name, f"**/{name}")]


def _is_file(inside: PurePosixPath) -> bool:
    """True if the suffix is that of a file that can be opened."""
    known = formats.by_suffix(inside)
    return known is not None and bool(known.entry)


def _suffixes() -> list[str]:
    """Returns the suffixes of the files that make up datasets of the hub."""
    return [s for known in formats.FORMATS if known.hub_files for s in known.suffixes]


def _literal(inside: PurePosixPath) -> str:
    """Escapes a path for fnmatch patterns, where a bracket in a folder's name is special."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(inside))


def _place(snapshot: Path, inside: PurePosixPath | None, repo_id: str) -> Path:
    """Returns the path to open: a file, or a folder of shards."""
    place = snapshot if inside is None else snapshot / inside
    if not place.exists():
        raise FileNotFoundError(f"{repo_id}: no {str(inside)!r} in the snapshot {snapshot}")
    if place.is_file():
        return place
    suffixes = _suffixes()
    kinds = " or ".join(suffixes)
    files = list(map(Path, files_in(place, *suffixes)))
    if not files:
        raise FileNotFoundError(f"{repo_id}: no {kinds} file in the snapshot {place}")
    if inside is not None:
        return place
    return _one_of(files, snapshot)


def _one_of(files: Sequence[_P], root: _P) -> _P:
    """Returns the only file, or the only folder of several."""
    folders = sorted({file.parent for file in files})
    if len(folders) > 1:
        kinds = " or ".join(_suffixes())
        names = ", ".join(repr(str(f.relative_to(root))) for f in folders)
        raise ValueError(f"name: expected one of the folders with {kinds} files, got none: {names}")
    return files[0] if len(files) == 1 else folders[0]
