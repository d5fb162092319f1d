"""Fixtures of all tests here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, serving
from object_server import ObjectServer, object_server

from atompack_torch.remote import client


@pytest.fixture(autouse=True)
def few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is in this process, and has a thread and a descriptor for each connection."""
    monkeypatch.setattr(client, "_MAX_CONNECTIONS", 24)


@pytest.fixture
def server(folder: Path) -> Iterator[FileServer]:
    """Serves the ``folder`` of a module."""
    with serving(folder) as made:
        yield made


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectServer]:
    """A store in memory; temporary files go to ``tmp_path``."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with object_server() as made:
        yield made
