"""Commands with URLs, and the use of a block cache."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch import cli

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


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = cli.main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    shown = capsys.readouterr()
    assert TOKEN not in shown.out + shown.err
    return status, shown.out, shown.err


@pytest.mark.parametrize("command", ["info", "head", "stats", "verify", "bench"])
def test_a_url_is_taken_like_a_path(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    url = f"{server.url}/a.atp"
    more = ["--quick"] if command == "bench" else []
    access = [f"--storage-option=token={TOKEN}", "--block-cache", str(tmp_path / "cache")]
    status, out, _ = run(capsys, command, f"{url}?sig={TOKEN}", "--json", *more, *access)
    assert status == 0
    found = json.loads(out)
    if command == "bench":
        assert found[0]["path"] == url
    elif command == "info":
        assert found["files"][0]["path"] == url
        assert found["n_molecules"] == 300
    else:
        _, expected, _ = run(capsys, command, str(tmp_path / "a.atp"), "--json")
        local = json.loads(expected.replace(str(tmp_path / "a.atp"), url))
        assert found == local
    status, out, _ = run(capsys, command, url, *more, *access)
    assert status == 0
    if command in ("info", "bench"):
        assert url in out
    status, out, err = run(capsys, command, url, *more)
    assert status == 1
    assert url in err


def test_wrong_options_are_usage_errors(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{server.url}/a.atp"
    for arguments, message in (
        ([url, "--storage-option", TOKEN], "expected NAME=VALUE"),
        ([url, "--storage-option", f"tokens={TOKEN}"], "got 'tokens'"),
        ([url, "--block-cache-bytes", "0"], "--block-cache-bytes: expected a number from 1"),
        ([str(tmp_path / "a.atp"), "--block-cache", "x"], "--block-cache: expected a URL"),
    ):
        status, _, err = run(capsys, "info", *arguments)
        assert status == 2
        assert message in err
        status, out, _ = run(capsys, "info", "--json", *arguments)
        assert json.loads(out)["error"]["status"] == 2


def test_headers_are_options(server: FileServer, capsys: pytest.CaptureFixture[str]) -> None:
    option = f"headers.Authorization=Bearer {TOKEN}"
    status, _, _ = run(capsys, "head", f"{server.url}/a.atp", "--storage-option", option)
    assert status == 0


def test_help_advises_against_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "info", "--help")
    assert status == 0
    assert "leave secrets in the environment" in " ".join(out.split())


def test_use_of_a_block_cache(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    dataset = apt.AtpDataset(
        f"{server.url}/a.atp", storage_options={"token": TOKEN, "cache": cache}
    )
    dataset[:]  # and is still open
    status, out, _ = run(capsys, "cache", "--stats", str(cache), "--json")
    assert status == 0
    found: dict[str, Any] = json.loads(out)
    n_pages = -(-(tmp_path / "a.atp").stat().st_size // 4096)
    assert 0.5 * n_pages <= found["pages"] <= n_pages
    assert (found["objects"], found["files"]) == (1, 1)
    assert found["bytes"] >= found["pages"] * 4096
    assert found["path"] == str(cache)
    status, out, _ = run(capsys, "cache", "--stats", str(cache))
    assert f"{found['pages']:,} blocks" in out
    assert "1 objects" in out
    status, _, err = run(capsys, "cache", "--stats", str(tmp_path / "none"))
    assert status == 1
    assert str(tmp_path / "none") in err
    assert run(capsys, "cache")[0] == 2
    assert run(capsys, "cache", "--stats", str(cache), "info", "x.h5")[0] == 2


def test_statistics_of_a_cache_need_no_torch(tmp_path: Path) -> None:
    script = (
        "import sys; from atompack_torch import cli; "
        f"assert cli.main(['cache', '--stats', {str(tmp_path)!r}]) == 0; "
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "0 blocks" in done.stdout
