"""URLs, options, and what is shown of them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from atompack_torch.options import shown_url
from atompack_torch.remote.urls import StorageOptions, join_url, native_url, scheme_of

SECRETS = {"key": "ACCESSKEY", "secret": "SECRETKEY", "token": "TOKEN"}


def test_schemes() -> None:
    assert scheme_of("S3://b/k") == "s3"
    assert scheme_of("s3://b/k::x") == "s3"
    for url in ("ftp://h/x", "memory://x", "simplecache::s3://b/k", "zip://x::s3://b/k"):
        assert scheme_of(url) == "fsspec"
    with pytest.raises(ValueError, match=r"^a/b: expected a URL that begins with s3://,"):
        scheme_of("a/b")
    with pytest.raises(ValueError, match=r"^s3://: expected a bucket or a host"):
        scheme_of("s3://")


def test_messages_show_no_secrets() -> None:
    assert shown_url("https://user:pw@h.org/a?sig=1#f") == "https://h.org/a"
    assert shown_url("https://h.org?sig=1/2") == "https://h.org/2"
    assert shown_url("s3://b/a?b#c@d") == "s3://b/a?b#c@d"
    assert shown_url("plain/path@x") == "plain/path@x"
    assert shown_url("zip://a::ftp://user:pw@h/x.zip?k") == "zip://a::ftp://h/x.zip"


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("s3://b/d", "s3://b/d/a b"),
        ("https://h/d?sig=1", "https://h/d/a%20b?sig=1"),
        ("hf://datasets/o/n/d@r", "hf://datasets/o/n@r/d/a b"),
        ("hf://datasets/o/n", "hf://datasets/o/n@main/a b"),
        ("memory://", "memory://a b"),
        ("zip://d::s3://b/k.zip", "zip://d/a b::s3://b/k.zip"),
        ("simplecache::ftp://h/d", "simplecache::ftp://h/d/a b"),
    ],
)
def test_names_are_appended_to_folders(folder: str, expected: str) -> None:
    assert join_url(folder, "a b") == expected


def test_repr_shows_no_secrets() -> None:
    options = StorageOptions.parse(
        {
            **SECRETS,
            "region": "eu-west-1",
            "endpoint_url": "https://u:PASSWORD@h.org",
            "headers": {"X-Key": "HEADER"},
        }
    )
    shown = repr(options) + str(options) + f"{options}"
    for secret in (*SECRETS.values(), "HEADER", "PASSWORD"):
        assert secret not in shown
    assert "eu-west-1" in shown
    assert "https://h.org" in shown


def test_options_travel_in_pickles() -> None:
    options = StorageOptions.parse({**SECRETS, "headers": {"a": "b"}})
    assert pickle.loads(pickle.dumps(options)) == options
    assert StorageOptions.parse(None) == StorageOptions()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"password": "HIDDEN"}, ValueError, "got 'password'"),
        ({"key": "HIDDEN"}, ValueError, "expected key and secret together"),
        ({"anonymous": True, "token": "HIDDEN"}, ValueError, "anonymous=True"),
        ({"anonymous": "HIDDEN"}, TypeError, "expected a bool for 'anonymous'"),
        ({"token": b"HIDDEN"}, TypeError, "expected a str for 'token'"),
        ({"credentials": "HIDDEN"}, TypeError, "expected a callable for 'credentials'"),
        ({"headers": "HIDDEN"}, TypeError, "expected a mapping of str to str for 'headers'"),
        ({"headers": {"a": 1}}, TypeError, "expected a mapping of str to str for 'headers'"),
    ],
)
def test_wrong_options_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^storage_options: .*{message}") as caught:
        StorageOptions.parse(options)
    assert "HIDDEN" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://b/k k", "s3://b/k k"),
        ("https://h/x?y", "https://h/x?y"),
        ("hf://datasets/o/n/a b.atp", "https://huggingface.co/datasets/o/n/resolve/main/a%20b.atp"),
        ("hf://datasets/o/n/a@r/1", "https://huggingface.co/datasets/o/n/resolve/r%2F1/a"),
        ("hf://datasets/o/n@v2/d/a", "https://huggingface.co/datasets/o/n/resolve/v2/d/a"),
        ("hf://models/o/n/a", "https://huggingface.co/o/n/resolve/main/a"),
        ("az://c/a b", "https://acc.blob.core.windows.net/c/a%20b"),
    ],
)
def test_native_urls(url: str, expected: str) -> None:
    environment = {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}
    assert native_url(url, StorageOptions(), environment) == expected


def test_signatures_of_azure_are_queries() -> None:
    options = StorageOptions(endpoint_url="https://h.net/", token="sv=1&sig=2")
    assert native_url("az://c/a", options, {}) == "https://h.net/c/a?sv=1&sig=2"
    assert native_url(
        "az://c/a", StorageOptions(token="t"), {"AZURE_STORAGE_ACCOUNT_NAME": "x"}
    ) == ("https://x.blob.core.windows.net/c/a")


@pytest.mark.parametrize("url", ["hf://datasets/o/n", "hf://other/o/n/p", "az://c/a", "hf://"])
def test_incomplete_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        native_url(url, StorageOptions(), {})
