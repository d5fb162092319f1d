"""Compares batches, orders, signatures, messages and pickles with the stored ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from golden import forms, mistakes, reading, signatures, stored_objects
from golden.description import GOLDEN, attempt, difference
from golden.make_golden import read_stored

CASES = [(kind, fixture) for kind, (_, all_of) in reading.KINDS.items() for fixture in all_of]

stored = cache(read_stored)


@pytest.mark.parametrize("kind", reading.KINDS)
def test_every_fixture_is_stored(kind: str) -> None:
    assert [*stored(kind)] == reading.KINDS[kind][1]


@pytest.mark.parametrize(("kind", "fixture"), CASES, ids=[f"{k}-{f}" for k, f in CASES])
def test_fixture(kind: str, fixture: str) -> None:
    found = difference(stored(kind)[fixture], reading.read(kind, fixture))
    assert not found, f"\n{fixture}\n{found}"


@pytest.mark.parametrize("fixture", forms.BATCHES)
def test_forms(fixture: str) -> None:
    found = difference(stored("forms")[fixture], forms.read_forms(fixture))
    assert not found, f"\n{fixture}\n{found}"


@pytest.mark.parametrize("fixture", forms.FILES)
def test_commands(fixture: str) -> None:
    found = difference(stored("commands")[fixture], forms.read_commands(fixture))
    assert not found, f"\n{fixture}\n{found}"


def test_signatures() -> None:
    want = (GOLDEN / "signatures.txt").read_text().splitlines()
    found = difference({"public names": want}, {"public names": signatures.public_signatures()})
    assert not found, f"\n{found}"


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, mistakes.Mistakes]:
    folder = tmp_path_factory.mktemp("mistakes")
    return folder, mistakes.mistakes(folder)


def test_every_mistake_is_stored(calls: tuple[Path, mistakes.Mistakes]) -> None:
    assert [*stored("mistakes")] == [*calls[1]]
    assert not [n for n, found in stored("mistakes").items() if found[n][-1].startswith("sha256")]


@pytest.mark.parametrize("name", stored("mistakes"))
def test_mistake(calls: tuple[Path, mistakes.Mistakes], name: str) -> None:
    found = difference(stored("mistakes")[name], {name: attempt(calls[1][name], calls[0])})
    assert not found, f"\n{found}"


@pytest.mark.parametrize("name", stored_objects.names())
def test_object(name: str) -> None:
    found = difference(stored("objects")[name], stored_objects.read_object(name))
    assert not found, f"\n{name}\n{found}"


def test_orders() -> None:
    found = difference(stored("orders")["orders"], stored_objects.read_orders())
    assert not found, f"\n{found}"
