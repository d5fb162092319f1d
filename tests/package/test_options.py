"""Paths and URLs, as all classes tell them apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import atompack_torch as apt
from atompack_torch.options import absolute_path, is_url, shown_path


@pytest.mark.parametrize(
    "path",
    ["s3://b/k", "hf://datasets/a/b@main", "https://h/x", "a+b-c.d://x", "simplecache::s3://b/k"],
)
def test_urls(path: str) -> None:
    assert is_url(path)
    assert shown_path(path) == path
    assert type(shown_path(path)) is str
    with pytest.raises(apt.UnsupportedFormatError, match="got a URL"):
        absolute_path(path)


@pytest.mark.parametrize(
    "path", ["a.atp", "/s3://b", "./s3://b", "s3:/b", "C://b", "://b", "1a://b", "", "a b://c"]
)
def test_paths_that_are_no_urls(path: str) -> None:
    assert not is_url(path)
    assert shown_path(path) == Path(path)
    assert absolute_path(path) == str(Path(path).absolute())


def test_a_path_object_is_local() -> None:
    """It has lost one of the slashes."""
    assert shown_path(Path("s3://b/k")) == Path("s3:/b/k")


def test_lists_of_paths() -> None:
    shown = shown_path(["a.atp", Path("b.atp"), "s3://b/k"])
    assert shown == (Path("a.atp"), Path("b.atp"), "s3://b/k")
