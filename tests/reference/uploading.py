"""Uploads to stores that speak S3, by the client alone."""

from __future__ import annotations

from pathlib import Path

from atompack_torch.options import shown_url
from atompack_torch.remote.client import RemoteStore
from atompack_torch.remote.objects import Upload, dialect_of, send_file


def upload_of(store: RemoteStore, url: str, overwrite: bool) -> Upload:
    dialect = dialect_of(url)
    condition = [] if overwrite else dialect.absent()
    return Upload(store, url, shown_url(url), dialect, condition, is_new=not overwrite)


def upload_bytes(store: RemoteStore, url: str, data: bytes, *, overwrite: bool = True) -> str:
    return upload_of(store, url, overwrite).send(data)


def upload_file(
    store: RemoteStore,
    url: str,
    path: str | Path,
    *,
    overwrite: bool = True,
    part_bytes: int = 64 << 20,
) -> str:
    return send_file(upload_of(store, url, overwrite), path, part_bytes=part_bytes)
