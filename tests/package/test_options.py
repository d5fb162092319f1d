"""Checks of options and paths that all classes share."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.options import (
    WriterOptions,
    absolute_path,
    check_choice,
    check_threads,
    checked_integer,
    epoch_number,
    is_url,
    shown_path,
    threads_or_cores,
)


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


def test_choices() -> None:
    check_choice("x", "a", ("a", "b"))
    check_choice("x", None, ("a", "b"), optional=True)
    for value, optional, expected in (
        ("c", False, "a, b"),
        (None, False, "a, b"),
        ("c", True, "a, b or None"),
    ):
        message = f"^x: expected one of {expected}, got {value!r}$"
        with pytest.raises(ValueError, match=message):
            check_choice("x", value, ("a", "b"), optional=optional)


def test_integers() -> None:
    assert checked_integer("n", np.uint8(3), 3) == 3
    assert type(checked_integer("n", np.uint8(3))) is int
    for value in (True, 1.0, "1", None, np.float64(1)):
        with pytest.raises(TypeError, match=r"^n: expected an int, got "):
            checked_integer("n", value)
    with pytest.raises(ValueError, match=r"^n: expected at least 1, got 0$"):
        checked_integer("n", 0, 1)


def test_epochs() -> None:
    assert epoch_number(np.int64(0)) == 0
    with pytest.raises(TypeError, match=r"^epoch: expected an int, got 1.5$"):
        epoch_number(1.5)
    with pytest.raises(ValueError, match=r"^epoch: expected at least 0, got -1$"):
        epoch_number(-1)


def test_threads() -> None:
    for number in (None, 1, np.int64(2)):
        check_threads(number)  # type: ignore[arg-type]
    assert threads_or_cores(3) == 3
    assert threads_or_cores(None) >= 1


def test_options_are_frozen() -> None:
    options = WriterOptions(mode="x", codec=None, level=3, num_threads=None)
    assert options.n_threads == 0
    changes: dict[str, Any] = {"num_threads": 4}
    assert dataclasses.replace(options, **changes).n_threads == 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.level = 5  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"^num_threads: "):
        dataclasses.replace(options, num_threads=0)
