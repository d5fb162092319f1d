"""URLs of remote objects and the options for their stores."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from urllib.parse import quote

SCHEMES = ("s3", "gs", "az", "https", "http", "hf")

Credentials = Mapping[str, object]
"""Result of a callable for credentials: ``key``, ``secret``, ``token`` and ``expiry``."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def scheme_of(url: str) -> str:
    """Returns the scheme of a URL in lower case.

    Args:
        url: any string.

    Returns:
        One of ``SCHEMES``.

    Raises:
        ValueError: the string has no scheme, or one that is not supported.
    """
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if scheme not in SCHEMES:
        raise ValueError(f"{shown_url(url)}: expected a URL that begins with {_listed()}")
    return scheme


def _listed() -> str:
    *most, last = (f"{scheme}://" for scheme in SCHEMES)
    return f"{', '.join(most)} or {last}"


def shown_url(url: str) -> str:
    """Returns a URL without user info, query and fragment, for messages and names of files."""
    found = _SCHEME.match(url)
    start = found.end() if found else 0
    host, slash, path = url[start:].partition("/")
    if not found or found[1].lower() not in ("s3", "gs"):  # their keys may contain ? and #
        host = re.split(r"[?#]", host)[0]
        path = re.split(r"[?#]", path)[0]
    return url[:start] + host.rpartition("@")[2] + slash + path


@dataclass(frozen=True, repr=False)
class StorageOptions:
    """Options of a remote store. They may hold secrets, which ``repr`` does not show.

    Attributes:
        endpoint_url: the address of an S3-compatible store, or of an Azure account.
        region: the region of the buckets; found out by itself on AWS.
        profile: a profile of the AWS configuration files.
        key: the access key; needs ``secret``.
        secret: the secret key.
        token: the session token of ``key``, or else a bearer token.
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
    def parse(cls, options: StorageOptions | Mapping[str, object] | None) -> StorageOptions:
        """Checks the ``storage_options=`` of a user.

        Args:
            options: names and values of the attributes; ``headers`` may be a mapping.

        Returns:
            The options.

        Raises:
            ValueError: an option is unknown, or contradicts another one.
            TypeError: a value has another type; it is not repeated in the message.
        """
        if isinstance(options, StorageOptions):
            return options
        given = dict(options or {})
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise ValueError(f"storage_options: expected {', '.join(known)}, got {name!r}")
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
        return _hugging_face(url, options.endpoint_url or environment.get("HF_ENDPOINT"))
    if scheme == "az":
        return _azure(url, options, environment)
    return url


def _hugging_face(url: str, endpoint: str | None) -> str:
    """Resolves ``hf://datasets/OWNER/NAME/PATH``, with ``@REVISION`` after NAME or PATH."""
    kind, _, rest = url.partition("://")[2].partition("/")
    owner, _, rest = rest.partition("/")
    name, _, path = rest.partition("/")
    name, at, revision = name.partition("@")
    if not at:
        path, _, revision = path.partition("@")
    if kind not in ("datasets", "models", "spaces") or not (owner and name and path):
        raise ValueError(f"{url}: expected hf://datasets/OWNER/NAME/PATH[@REVISION]")
    prefix = "" if kind == "models" else f"{kind}/"
    base = (endpoint or "https://huggingface.co").rstrip("/")
    revision = quote(revision or "main", safe="")
    return f"{base}/{prefix}{owner}/{name}/resolve/{revision}/{quote(path)}"


def _azure(url: str, options: StorageOptions, environment: Mapping[str, str]) -> str:
    base = options.endpoint_url
    if base is None:
        account = environment.get("AZURE_STORAGE_ACCOUNT_NAME")
        if not account:
            raise ValueError(
                f"{shown_url(url)}: expected endpoint_url=https://ACCOUNT.blob.core.windows.net in "
                "storage_options, or AZURE_STORAGE_ACCOUNT_NAME in the environment"
            )
        base = f"https://{account}.blob.core.windows.net"
    made = f"{base.rstrip('/')}/{quote(url.partition('://')[2])}"
    return f"{made}?{options.token}" if is_shared_access_signature(options.token) else made


def is_shared_access_signature(token: str | None) -> bool:
    """Returns True if a token of Azure is a query (``sv=...&sig=...``), not a bearer token."""
    return token is not None and "sig=" in token
