"""`hub push` and `hub pull`: their options reach the functions of `hub`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import atompack_torch as apt
from atompack_torch import hub
from atompack_torch.cli import main


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """What the functions, which are tested with servers elsewhere, were called with."""
    made: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def upload(*args: Any, **kwargs: Any) -> str:
        made.append((args, kwargs))
        return "hf://datasets/me/x@abc/train"

    def download(*args: Any, **kwargs: Any) -> Path:
        made.append((args, kwargs))
        return Path("/cache/train")

    monkeypatch.setattr(hub, "upload", upload)
    monkeypatch.setattr(hub, "download", download)
    return made


def test_push(
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "push", "train/", "me/x", "train", "--replace", "--private"]) == 0
    assert capsys.readouterr().out == "hf://datasets/me/x@abc/train\n"
    args, kwargs = calls.pop()
    assert args == ("train/", "me/x", "train", None)
    assert kwargs == {
        "repo_type": "dataset",
        "message": None,
        "create": True,
        "private": True,
        "replace": True,
    }
    more = ["--message", "m", "--no-create", "--revision", "v2", "--json"]
    assert main(["hub", "push", "x.atp", "me/x", *more]) == 0
    assert json.loads(capsys.readouterr().out) == {"url": "hf://datasets/me/x@abc/train"}
    args, kwargs = calls.pop()
    assert args == ("x.atp", "me/x", None, "v2")
    assert (kwargs["message"], kwargs["create"], kwargs["private"]) == ("m", False, None)


def test_pull(
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "pull", "me/x", "train", "--to", "data", "--offline", "--force"]) == 0
    assert capsys.readouterr().out == "/cache/train\n"
    args, kwargs = calls.pop()
    assert args == ("me/x", "train", None)
    assert kwargs == {
        "repo_type": "dataset",
        "local_dir": "data",
        "local_files_only": True,
        "force_download": True,
    }


def test_what_hub_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a network: these errors come before anything is sent."""
    with apt.AtpWriter(tmp_path / "empty.atp"):
        pass
    assert main(["hub", "push", str(tmp_path / "none"), "me/x"]) == 1
    assert main(["hub", "push", str(tmp_path / "empty.atp"), "me/x"]) == 2
    assert "expected molecules to upload" in capsys.readouterr().err
    assert main(["hub", "push", str(tmp_path / "empty.atp"), "no repository"]) == 2
    assert "expected OWNER/NAME" in capsys.readouterr().err
    assert main(["hub", "pull", "me/x", "../train"]) == 2
    with pytest.raises(SystemExit) as stop:
        main(["hub"])
    assert stop.value.code == 2
