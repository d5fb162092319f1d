"""URLs of remote objects and the options for their stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple
from urllib.parse import quote, unquote

from atompack_torch.options import SCHEMES, first_scheme, is_url, shown_url

FSSPEC = "fsspec"
"""Stands for the scheme of every other URL, which is left to fsspec."""

Credentials = Mapping[str, object]
"""Result of a callable for credentials: ``key``, ``secret``, ``token`` and ``expiry``."""

_HUB_KINDS = ("datasets", "models", "spaces")


def scheme_of(url: str) -> str:
    """Returns the scheme of a URL in lower case.

    Args:
        url: any string.

    Returns:
        One of ``SCHEMES``, or ``FSSPEC`` for any other.

    Raises:
        ValueError: the string has no scheme, or nothing after it.
    """
    if not is_url(url):
        listed = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise ValueError(
            f"{shown_url(url)}: expected a URL that begins with {listed} or a scheme of fsspec"
        )
    scheme = first_scheme(url)
    if scheme in SCHEMES and url.endswith("://"):
        raise ValueError(f"{url}: expected a bucket or a host after it, got none")
    return scheme if scheme in SCHEMES else FSSPEC


def join_url(folder: str, name: str) -> str:
    """Returns the URL of a file below a folder.

    Args:
        folder: the URL of the folder; a query, the revision of ``hf://`` and the archives that
            hold it stay behind the path.
        name: path from the folder, as its store knows it: not percent-encoded.

    Returns:
        The URL.
    """
    path, rest = _appendable(folder)
    slash = "" if path.endswith("/") else "/"
    return f"{path}{slash}{quote(name) if is_http(folder) else name}{rest}"


def parent_url(url: str) -> str:
    """Returns the URL of the folder of a file."""
    path, rest = _appendable(url)
    path = path.rpartition("/")[0]
    return f"{path}/{rest}" if path.endswith((":", ":/")) else f"{path}{rest}"


def sibling_url(url: str, name: str) -> str:
    """Returns the URL of another file in the same folder.

    Args:
        url: the URL of a file.
        name: name of the other one, percent-encoded where that of the first one is.

    Returns:
        The URL.
    """
    path, rest = _appendable(url)
    return f"{path.rpartition('/')[0]}/{name}{rest}"


def is_http(url: str) -> bool:
    """True for URLs of plain HTTP servers: percent-encoded, and without a listing of folders."""
    return scheme_of(url) in ("http", "https")


def _appendable(url: str) -> tuple[str, str]:
    """Splits a URL where names of files are appended."""
    scheme = scheme_of(url)
    if scheme == "hf":
        where = parse_hub_url(url)
        return where.with_path(where.path).rstrip("/"), ""
    if scheme == FSSPEC:
        links = url.split("::")
        first = next(i for i, link in enumerate(links) if "://" in link)
        return "::".join(links[: first + 1]), "".join(f"::{x}" for x in links[first + 1 :])
    if scheme in ("http", "https"):
        end = min((i for c in "?#" if (i := url.find(c)) >= 0), default=len(url))
        return url[:end], url[end:]
    return url, ""


def path_of(url: str) -> str:
    """Returns the part of a URL that names a file: without query, revision and archives."""
    scheme = scheme_of(url)
    if scheme == "hf":
        return parse_hub_url(url).path
    if scheme == FSSPEC:
        return next(link for link in shown_url(url).split("::") if "://" in link)
    return shown_url(url)


def is_root(url: str) -> bool:
    """True for the URL of a whole bucket, container or repository, which is a folder."""
    scheme = scheme_of(url)
    if scheme == "hf":
        return not parse_hub_url(url).path
    return scheme in ("s3", "gs", "az") and not url.partition("://")[2].partition("/")[2]


class HubUrl(NamedTuple):
    """The parts of ``hf://datasets/OWNER/NAME[@REVISION]/PATH``.

    Attributes:
        kind: ``datasets``, ``models`` or ``spaces``.
        repo: ``OWNER/NAME``.
        revision: branch, tag or commit; ``main`` if the URL names none.
        path: path in the repository; may be empty.
    """

    kind: str
    repo: str
    revision: str
    path: str

    def with_path(self, path: str) -> str:
        """Returns the URL of another path of the same revision."""
        revision = quote(self.revision, safe="")
        return f"hf://{self.kind}/{self.repo}@{revision}/{path}"


def parse_hub_url(url: str) -> HubUrl:
    """Splits a URL of the Hugging Face hub.

    Args:
        url: ``hf://datasets/OWNER/NAME/PATH``, with ``@REVISION`` after NAME or PATH.

    Returns:
        The parts.

    Raises:
        ValueError: the URL lacks the kind, owner or name.
    """
    kind, _, rest = url.partition("://")[2].partition("/")
    owner, _, rest = rest.partition("/")
    name, _, path = rest.partition("/")
    name, at, revision = name.partition("@")
    revision = unquote(revision)
    if not at:
        path, _, revision = path.partition("@")
    if kind not in _HUB_KINDS or not (owner and name):
        raise ValueError(f"{shown_url(url)}: expected hf://datasets/OWNER/NAME/PATH[@REVISION]")
    return HubUrl(kind, f"{owner}/{name}", revision or "main", path.strip("/"))


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Options of a remote store. They may hold secrets, which ``repr`` does not show.

    Attributes:
        endpoint_url: the address of an S3-compatible store, or of an Azure account.
        region: the region of the buckets; found out by itself on AWS.
        profile: a profile of the AWS configuration files.
        key: the access key; needs ``secret``.
        secret: the secret key.
        token: the session token of ``key``, or otherwise a bearer token.
        anonymous: True to send no credentials, whatever the environment has.
        headers: headers to be sent with each request, as pairs.
        credentials: returns a mapping with ``key``, ``secret``, ``token`` and ``expiry``; called
            again before they expire. ``expiry`` is a datetime with time zone, seconds since 1970
            or None.
    """

    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None
    key: str | None = None
    secret: str | None = None
    token: str | None = None
    anonymous: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    credentials: Callable[[], Credentials] | None = None

    def __post_init__(self) -> None:
        if (self.key is None) != (self.secret is None):
            raise ValueError("storage_options: expected key and secret together, got one of them")
        has_any = self.key or self.token or self.credentials or self.profile
        if self.anonymous and has_any:
            raise ValueError("storage_options: expected no credentials with anonymous=True")

    @classmethod
    def parse(cls, options: Mapping[str, object] | None) -> StorageOptions:
        """Checks the ``storage_options=`` of a user.

        Args:
            options: names and values of the attributes; ``headers`` may be a mapping.

        Returns:
            The options.

        Raises:
            ValueError: an option is unknown, or contradicts another.
            TypeError: a value has a different type; it is not repeated in the message.
        """
        given = dict(options or {})
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                expected = ", ".join([*known, "cache", "cache_bytes"])
                raise ValueError(f"storage_options: expected {expected}, got {name!r}")
        for name in ("endpoint_url", "region", "profile", "key", "secret", "token"):
            if not isinstance(given.get(name), str | None):
                raise TypeError(f"storage_options: expected a str for {name!r}")
        if not isinstance(given.get("anonymous", False), bool):
            raise TypeError("storage_options: expected a bool for 'anonymous'")
        if not callable(given.get("credentials", cls)) and given["credentials"] is not None:
            raise TypeError("storage_options: expected a callable for 'credentials'")
        given["headers"] = _pairs(given.get("headers"))
        return cls(**given)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            is_open = field.name in ("endpoint_url", "region", "profile", "anonymous")
            text = repr(shown_url(value) if field.name == "endpoint_url" else value)
            shown.append(f"{field.name}={text if is_open else '...'}")
        return f"StorageOptions({', '.join(shown)})"


def _pairs(headers: object) -> tuple[tuple[str, str], ...]:
    if headers is None:
        return ()
    try:
        pairs = tuple(
            (name, value)
            for name, value in (headers.items() if isinstance(headers, Mapping) else headers)  # type: ignore[attr-defined]
        )
    except (TypeError, ValueError):
        pairs = ((None, None),)
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise TypeError("storage_options: expected a mapping of str to str for 'headers'")
    return pairs


def native_url(url: str, options: StorageOptions, environment: Mapping[str, str]) -> str:
    """Returns the URL that the native client requests.

    Args:
        url: a URL with one of ``SCHEMES``.
        options: the options; ``endpoint_url`` replaces the address of the service.
        environment: the variables of the process.

    Returns:
        A URL that begins with s3://, gs://, https:// or http://.

    Raises:
        ValueError: the URL lacks a part, or the scheme is not supported.
    """
    scheme = scheme_of(url)
    if scheme == "hf":
        where = parse_hub_url(url)
        if not where.path:
            raise ValueError(f"{url}: expected hf://datasets/OWNER/NAME/PATH[@REVISION]")
        revision, path = quote(where.revision, safe=""), quote(where.path)
        prefix = where.repo if where.kind == "models" else f"{where.kind}/{where.repo}"
        return f"{hub_endpoint(options, environment)}/{prefix}/resolve/{revision}/{path}"
    if scheme == "az":
        return azure_address(url.partition("://")[2], options, environment)
    return url


def hub_endpoint(options: StorageOptions, environment: Mapping[str, str]) -> str:
    """Returns the address of the hub, without a slash at its end."""
    endpoint = options.endpoint_url or environment.get("HF_ENDPOINT")
    return (endpoint or "https://huggingface.co").rstrip("/")


def azure_address(path: str, options: StorageOptions, environment: Mapping[str, str]) -> str:
    """Returns the address of a container or blob.

    Args:
        path: ``CONTAINER`` or ``CONTAINER/BLOB``, not percent-encoded.
        options: ``endpoint_url`` names the account; a shared access signature becomes the query.
        environment: names the account otherwise.

    Returns:
        The address.

    Raises:
        ValueError: no account is named.
    """
    base = options.endpoint_url
    if base is None:
        account = environment.get("AZURE_STORAGE_ACCOUNT_NAME")
        if not account:
            raise ValueError(
                f"az://{path}: expected endpoint_url=https://ACCOUNT.blob.core.windows.net in "
                "storage_options, or AZURE_STORAGE_ACCOUNT_NAME in the environment"
            )
        base = f"https://{account}.blob.core.windows.net"
    made = f"{base.rstrip('/')}/{quote(path)}"
    signature = (options.token or "").lstrip("?")
    return f"{made}?{signature}" if is_shared_access_signature(options.token) else made


def is_shared_access_signature(token: str | None) -> bool:
    """Returns True if a token of Azure is a query (``sv=...&sig=...``), not a bearer token."""
    return token is not None and "sig=" in token
