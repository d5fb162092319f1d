"""Data sets on the Hugging Face hub: folders of ``.atp`` shards, one per split.

    train = apt.hub.open("some/dataset", "omat/train")

Needs huggingface_hub (``pip install atompack_torch[hub]``).
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from atompack_torch.datasets.atp import AtpDataset

_PATTERNS = ("*.atp", "**/*.atp", "manifest.json", "**/manifest.json")


def open(  # noqa: A001  (as in gzip.open)
    repo_id: str,
    name: str | None = None,
    revision: str | None = None,
    *,
    cache_dir: str | Path | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    **options: Any,
) -> AtpDataset:
    """Downloads files that are not in the local cache yet, and opens the data set.

    Without a network (``local_files_only=True`` or ``HF_HUB_OFFLINE=1``) only the local cache is
    used; shards that were never downloaded are then missing without an error.

    Args:
        repo_id: a data set repository.
        name: a folder in it, whose ``**/*.atp`` are the shards; or one file, ending in ``.atp``.
            None: the only file, or the only folder with files, of the repository.
        revision: branch, tag or commit; None: the main branch.
        cache_dir: cache folder of huggingface_hub; None: its default.
        token: access token of huggingface_hub, for repositories that need one.
        local_files_only: do not use the network.
        options: options of ``AtpDataset``.

    Raises:
        ImportError: huggingface_hub is not installed.
        ValueError: ``name`` points outside the repository, or it is None and several folders hold
            files.
        FileNotFoundError: there is nothing to open.
        CorruptFileError: a file violates the format.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ImportError("hub.open needs huggingface_hub: pip install huggingface_hub") from error
    inside = _checked(name)
    snapshot = snapshot_download(
        repo_id,
        repo_type="dataset",
        revision=revision,
        cache_dir=cache_dir,
        token=token,
        local_files_only=local_files_only,
        allow_patterns=_patterns(inside),
    )
    return AtpDataset(_place(Path(snapshot), inside, repo_id), **options)


def _checked(name: str | None) -> PurePosixPath | None:
    if name is None:
        return None
    inside = PurePosixPath(name.strip("/"))
    if ".." in inside.parts or not inside.parts:
        raise ValueError(f"name: expected a path in the repository, got {name!r}")
    return inside


def _patterns(inside: PurePosixPath | None) -> list[str]:
    if inside is None:
        return [*_PATTERNS]
    if inside.suffix == ".atp":
        return [_literal(inside)]
    return [f"{_literal(inside)}/{pattern}" for pattern in _PATTERNS]


def _literal(inside: PurePosixPath) -> str:
    """Escapes a path for fnmatch patterns, where a bracket in a folder's name is special."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(inside))


def _place(snapshot: Path, inside: PurePosixPath | None, repo_id: str) -> Path:
    """Returns the path to open: a file, or a folder of shards."""
    if inside is not None:
        place = snapshot / inside
        if not place.exists():
            raise FileNotFoundError(f"{repo_id}: no {str(inside)!r} in the snapshot {snapshot}")
        return place
    files = [file for file in snapshot.rglob("*.atp") if file.is_file()]
    folders = sorted({file.parent for file in files})
    if not files:
        raise FileNotFoundError(f"{repo_id}: no .atp file in the snapshot {snapshot}")
    if len(folders) > 1:
        names = ", ".join(repr(str(f.relative_to(snapshot))) for f in folders)
        raise ValueError(f"name: expected one of the folders with .atp files, got none: {names}")
    return files[0] if len(files) == 1 else folders[0]
