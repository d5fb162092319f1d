"""Credentials for remote stores: options, environment, and botocore for the rest of AWS's chain."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial

from atompack_torch.options import shown_url
from atompack_torch.remote.urls import (
    Credentials,
    StorageOptions,
    is_shared_access_signature,
    scheme_of,
)

Resolved = tuple[str, str, str, str, float | None]
"""Access key, secret key, session token, bearer token, expiry in seconds since 1970."""


def credentials_provider(url: str, options: StorageOptions) -> Callable[[], Resolved] | None:
    """Finds the source of the credentials for a URL.

    Args:
        url: the URL; its scheme decides where credentials may come from.
        options: what the user has given, which comes before the environment.

    Returns:
        A function that returns the credentials, to be called again before they expire; None for
        anonymous access.

    Raises:
        PermissionError: an object store needs credentials and there are none.
    """
    scheme = scheme_of(url)
    if options.anonymous:
        return None
    if options.credentials is not None:
        return partial(_called, options.credentials)
    if options.key is not None and options.secret is not None:
        return _fixed(options.key, options.secret, options.token or "")
    if options.token is not None:
        is_query = scheme == "az" and is_shared_access_signature(options.token)
        return None if is_query else _fixed(bearer=options.token)
    if scheme == "s3":
        if options.profile is None and _from_environment() is not None:
            return _from_environment_again
        return _botocore_chain(url, options.profile)
    if scheme == "hf":
        token = _hugging_face_token()
        return _fixed(bearer=token) if token else None
    if scheme == "gs":
        raise PermissionError(
            f"{shown_url(url)}: expected token, key and secret, credentials or anonymous=True in "
            "storage_options"
        )
    return None


def _fixed(
    key: str = "", secret: str = "", token: str = "", bearer: str = ""
) -> Callable[[], Resolved]:
    """Returns a function for credentials that stay the same; its repr does not show them."""
    return lambda: (key, secret, token, bearer, None)


def _called(function: Callable[[], Credentials]) -> Resolved:
    """Returns the credentials that the callable of a user gives."""
    try:
        given = function()
    except StopIteration as error:  # would end a loop over batches
        raise RuntimeError("credentials raised StopIteration") from error
    if not isinstance(given, Mapping):
        raise TypeError("credentials: expected a mapping with key, secret, token and expiry")
    if set(given) - {"key", "secret", "token", "expiry"}:
        raise ValueError("credentials: expected the keys key, secret, token and expiry")
    key, secret, token = (_text(given, name) for name in ("key", "secret", "token"))
    if bool(key) != bool(secret):
        raise ValueError("credentials: expected key and secret together, got one of them")
    expiry = _seconds(given.get("expiry"))
    return (key, secret, token, "", expiry) if key else ("", "", "", token, expiry)


def _text(given: Credentials, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str | None):
        raise TypeError(f"credentials: expected a str for {name!r}")
    return value or ""


def _seconds(expiry: object) -> float | None:
    if isinstance(expiry, datetime):
        if expiry.tzinfo is None:
            raise ValueError("credentials: expected an expiry with a time zone")
        return expiry.timestamp()
    if isinstance(expiry, int | float | None):
        return expiry
    raise TypeError("credentials: expected a datetime or a number for 'expiry'")


def _from_environment() -> Resolved | None:
    key = os.environ.get("AWS_ACCESS_KEY_ID")
    secret = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        return None
    return (key, secret, os.environ.get("AWS_SESSION_TOKEN", ""), "", None)


def _from_environment_again() -> Resolved:
    found = _from_environment()
    if found is None:
        raise PermissionError("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set any more")
    return found


def _botocore_chain(url: str, profile: str | None) -> Callable[[], Resolved]:
    try:
        from botocore.session import Session
    except ModuleNotFoundError:
        raise PermissionError(
            f"{shown_url(url)}: no credentials in storage_options or in AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY; use anonymous=True for public data; profiles, containers, "
            "instances and web identities need botocore: pip install botocore"
        ) from None

    def resolve() -> Resolved:
        # Made again: botocore refreshes temporary credentials by itself, but does not say when.
        found = Session(profile=profile).get_credentials()
        if found is None:
            raise PermissionError(
                f"{shown_url(url)}: no credentials found in storage_options, the environment, "
                "profiles or instance metadata; use anonymous=True for public data"
            )
        expiry = getattr(found, "_expiry_time", None)
        frozen = found.get_frozen_credentials()
        return (
            frozen.access_key,
            frozen.secret_key,
            frozen.token or "",
            "",
            expiry.timestamp() if isinstance(expiry, datetime) else None,
        )

    return resolve


def _hugging_face_token() -> str | None:
    token = os.environ.get("HF_TOKEN")
    if token:
        return token
    try:
        from huggingface_hub import get_token
    except ModuleNotFoundError:
        return None
    return get_token()
