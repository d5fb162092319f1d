"""Commands with URLs, and the use of a block cache."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from reference.commands import Command, python

import atompack_torch as apt

sys.path.append(str(Path(__file__).parents[1] / "remote"))
from file_server import FileServer, serving

TOKEN = "SECRET-TOKEN"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    rng = np.random.default_rng(0)
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write_arrays(
            positions=rng.normal(size=(300, 20, 3)),
            atomic_numbers=rng.integers(1, 80, (300, 20)),
            energy=rng.normal(size=300),
        )
    with serving(tmp_path) as made:
        made.token = TOKEN
        yield made


@pytest.fixture(autouse=True)
def no_token_is_shown(run: Command) -> Iterator[None]:
    yield
    assert TOKEN not in run.printed


@pytest.mark.parametrize("command", ["info", "head", "stats", "verify", "bench"])
def test_a_url_is_taken_like_a_path(
    server: FileServer, tmp_path: Path, run: Command, command: str
) -> None:
    url = f"{server.url}/a.atp"
    more = ["--quick"] if command == "bench" else []
    access = [f"--storage-option=token={TOKEN}", "--block-cache", str(tmp_path / "cache")]
    found = run(command, f"{url}?sig={TOKEN}", "--json", *more, *access).document
    if command == "bench":
        assert found[0]["path"] == url
    elif command == "info":
        assert found["files"][0]["path"] == url
        assert found["n_molecules"] == 300
    else:
        expected = run(command, tmp_path / "a.atp", "--json").out
        local = json.loads(expected.replace(str(tmp_path / "a.atp"), url))
        assert found == local
    out = run(command, url, *more, *access).out
    if command in ("info", "bench"):
        assert url in out
    assert url in run(command, url, *more, status=1).err


def test_wrong_options_are_usage_errors(server: FileServer, tmp_path: Path, run: Command) -> None:
    url = f"{server.url}/a.atp"
    for arguments, message in (
        ([url, "--storage-option", TOKEN], "expected NAME=VALUE"),
        ([url, "--storage-option", f"tokens={TOKEN}"], "got 'tokens'"),
        ([url, "--block-cache-bytes", "0"], "--block-cache-bytes: expected a number from 1"),
        ([str(tmp_path / "a.atp"), "--block-cache", "x"], "--block-cache: expected a URL"),
    ):
        assert message in run("info", *arguments, status=2).err
        assert run("info", "--json", *arguments, status=2).document["error"]["status"] == 2


def test_headers_are_options(server: FileServer, run: Command) -> None:
    option = f"headers.Authorization=Bearer {TOKEN}"
    run("head", f"{server.url}/a.atp", "--storage-option", option)


def test_help_advises_against_secrets(run: Command) -> None:
    assert "leave secrets in the environment" in " ".join(run("info", "--help").out.split())


def test_use_of_a_block_cache(server: FileServer, tmp_path: Path, run: Command) -> None:
    cache = tmp_path / "cache"
    dataset = apt.AtpDataset(
        f"{server.url}/a.atp", storage_options={"token": TOKEN, "cache": cache}
    )
    dataset[:]  # and is still open
    found = run("cache", "--stats", cache, "--json").document
    n_pages = -(-(tmp_path / "a.atp").stat().st_size // 4096)
    assert 0.5 * n_pages <= found["pages"] <= n_pages
    assert (found["objects"], found["files"]) == (1, 1)
    assert found["bytes"] >= found["pages"] * 4096
    assert found["path"] == str(cache)
    out = run("cache", "--stats", cache).out
    assert f"{found['pages']:,} blocks" in out
    assert "1 object," in out
    assert str(tmp_path / "none") in run("cache", "--stats", tmp_path / "none", status=1).err
    run("cache", status=2)
    run("cache", "--stats", cache, "info", "x.h5", status=2)


def test_statistics_of_a_cache_need_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys; from atompack_torch import cli; "
        f"assert cli.main(['cache', '--stats', {str(tmp_path)!r}]) == 0; "
        "assert 'torch' not in sys.modules"
    )
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    assert "0 blocks" in done.stdout
