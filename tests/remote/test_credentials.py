"""Where credentials come from."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from atompack_torch.remote.credentials import Resolved, credentials_provider
from atompack_torch.remote.urls import StorageOptions


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture
def without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **others: Any) -> Any:
        if name.startswith("botocore"):
            raise ModuleNotFoundError(name=name)
        return real(name, *args, **others)

    monkeypatch.setattr(builtins, "__import__", missing)


def resolve(url: str, **options: Any) -> Resolved | None:
    provider = credentials_provider(url, StorageOptions.parse(options))
    return provider() if provider else None


def test_options_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S")
    assert resolve("s3://b/k", key="A", secret="S", token="T") == ("A", "S", "T", "", None)
    assert resolve("gs://b/k", token="T") == ("", "", "", "T", None)
    assert resolve("https://h/k", token="T") == ("", "", "", "T", None)
    assert resolve("s3://b/k", anonymous=True) is None
    assert resolve("https://h/k") is None


def test_the_environment_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "A")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S")
    provider = credentials_provider("s3://b/k", StorageOptions())
    assert provider is not None
    assert provider() == ("A", "S", "", "", None)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "T")
    assert provider() == ("A", "S", "T", "", None)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(PermissionError, match="not set any more"):
        provider()


def test_a_callable_returns_a_mapping() -> None:
    def fixed(**given: Any) -> Callable[[], Mapping[str, object]]:
        return lambda: given

    expiry = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    found = resolve("s3://b/k", credentials=fixed(key="A", secret="S", token="T", expiry=expiry))
    assert found == ("A", "S", "T", "", expiry.timestamp())
    assert resolve("s3://b/k", credentials=fixed(token="T", expiry=5)) == ("", "", "", "T", 5)
    for wrong in (
        fixed(key="HIDDEN"),
        fixed(password="HIDDEN"),
        fixed(token=b"HIDDEN"),
        fixed(token="HIDDEN", expiry=datetime(2030, 1, 1)),
        fixed(token="HIDDEN", expiry="soon"),
        lambda: "HIDDEN",
    ):
        with pytest.raises((TypeError, ValueError), match=r"^credentials: expected") as caught:
            resolve("s3://b/k", credentials=wrong)
        assert "HIDDEN" not in str(caught.value)


@pytest.mark.usefixtures("without_botocore")
def test_without_botocore_the_extra_is_named() -> None:
    for options in ({}, {"profile": "p"}):
        with pytest.raises(PermissionError, match="pip install botocore"):
            resolve("s3://b/k", **options)


def test_buckets_of_google_need_something() -> None:
    with pytest.raises(PermissionError, match="gs://b/k: expected token, key and secret"):
        resolve("gs://b/k")


def test_tokens_of_hugging_face(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "T")
    assert resolve("hf://datasets/o/n/p") == ("", "", "", "T", None)


def test_signatures_of_azure_are_no_header() -> None:
    assert resolve("az://c/k", token="sv=1&sig=2") is None
    assert resolve("az://c/k", token="bearer") == ("", "", "", "bearer", None)
