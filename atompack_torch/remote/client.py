"""Sole importer of the native client for remote stores."""

from __future__ import annotations

import os
import resource

from atompack_torch._native import not_built
from atompack_torch.remote.credentials import credentials_provider
from atompack_torch.remote.urls import StorageOptions, native_url, scheme_of

try:
    from atompack_torch._remote import (
        PagedStore,
        PythonRequest,
        PythonStore,
        RemoteObject,
        RemoteResponse,
        RemoteStore,
        RequestQueue,
    )
except ImportError as error:  # libcurl may be missing here, too
    reason = not_built("_remote") if isinstance(error, ModuleNotFoundError) else error
    raise ImportError(f"remote paths need libcurl: {reason}") from None

__all__ = [
    "PagedStore",
    "PythonRequest",
    "PythonStore",
    "RemoteObject",
    "RemoteResponse",
    "RemoteStore",
    "RequestQueue",
    "open_client",
    "open_store",
]

_MAX_CONNECTIONS = 640
_AZURE_VERSION = ("x-ms-version", "2021-12-02")


def open_store(url: str, options: StorageOptions) -> tuple[RemoteStore, str]:
    """Makes the client for the store of a URL, and finds the URL by which it knows the object."""
    return open_client(url, options), native_url(url, options, os.environ)


def open_client(url: str, options: StorageOptions) -> RemoteStore:
    """Makes the client for the store of a URL. Nothing is requested yet.

    Args:
        url: a URL whose scheme, options and environment decide about address and credentials.
        options: the options of the store.

    Returns:
        The client.

    Raises:
        ValueError: the URL is not supported, or lacks a part.
        PermissionError: the store needs credentials and there are none.
    """
    scheme = scheme_of(url)
    endpoint, region = options.endpoint_url, options.region
    if scheme == "s3":
        names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        endpoint = endpoint or next(filter(None, map(os.environ.get, names)), None)
        region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    headers = list(options.headers)
    if scheme == "az" and all(name.lower() != _AZURE_VERSION[0] for name, _ in headers):
        headers.append(_AZURE_VERSION)
    return RemoteStore(
        endpoint=(endpoint or "") if scheme in ("s3", "gs") else "",
        region=region or "",
        credentials=credentials_provider(url, options),
        headers=headers,
        ca_file=os.environ.get("AWS_CA_BUNDLE") or _certifi(),
        max_in_flight=_connections(),
    )


def _connections() -> int:
    """Number of connections, each of which takes one of the files that a process may open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MAX_CONNECTIONS if limit < 0 else max(1, min(_MAX_CONNECTIONS, limit // 2))


def _certifi() -> str | None:
    try:
        import certifi
    except ModuleNotFoundError:
        return None
    return certifi.where()
