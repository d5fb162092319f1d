"""hub.open() on a local cache of huggingface_hub, laid out here; no network is asked."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import huggingface_hub
import pytest
from processes.client import ScriptServer

import atompack_torch as apt

REPO = "someone/some-data"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "f" * 40


class Cache:
    """The folder in which huggingface_hub keeps what it downloaded."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = root / f"datasets--{REPO.replace('/', '--')}"

    def add(self, name: str, content: bytes, commit: str = COMMIT) -> None:
        """One file of a snapshot: a link to a blob that is named by its content."""
        blob = self.repo / "blobs" / f"{hash(content) & (1 << 64) - 1:040x}"
        link = self.repo / "snapshots" / commit / name
        blob.parent.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        link.symlink_to(os.path.relpath(blob, link.parent))

    def ref(self, name: str, commit: str) -> None:
        """A branch or tag."""
        path = self.repo / "refs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit)


@pytest.fixture
def cache(tmp_path: Path, fixtures: Path) -> Cache:
    """A repository of two splits, with what else lies in such repositories."""
    cache = Cache(tmp_path / "hub")
    cache.ref("main", COMMIT)
    cache.add("README.md", b"# Data")
    for file in sorted((fixtures / "shards").rglob("*.atp")):
        cache.add(f"all/train/{file.relative_to(fixtures / 'shards')}", file.read_bytes())
    cache.add("all/train/manifest.json", b"{}")
    cache.add("all/val/one.atp", (fixtures / "gen3.atp").read_bytes())
    return cache


def opened(cache: Cache, *arguments: str | None, **options: object) -> apt.AtpDataset:
    """Opened from the cache alone."""
    return apt.hub.open(REPO, *arguments, cache_dir=cache.root, local_files_only=True, **options)


def test_folder_of_shards(cache: Cache, fixtures: Path) -> None:
    dataset = opened(cache, "all/train")
    expected = json.loads((fixtures / "shards.json").read_text())
    assert len(dataset) == expected["length"]
    same = apt.AtpDataset(fixtures / "shards")
    assert dataset.n_atoms.equal(same.n_atoms)
    for name in ("all/train/", "/all/train", "all"):
        assert len(opened(cache, name)) == len(same) + (7 if name == "all" else 0)


def test_one_file(cache: Cache, fixtures: Path) -> None:
    dataset = opened(cache, "all/val/one.atp")
    assert dataset[:].positions.equal(apt.AtpDataset(fixtures / "gen3.atp")[:].positions)


def test_options_are_those_of_the_dataset(cache: Cache) -> None:
    batch = opened(cache, "all/val", fields=["energy"])[:2]
    assert "forces" not in batch.keys()
    assert "energy" in batch.keys()


def test_without_a_name(tmp_path: Path, fixtures: Path, cache: Cache) -> None:
    with pytest.raises(ValueError, match="'all/train', 'all/train/sub', 'all/val'"):
        opened(cache)
    single = Cache(tmp_path / "single")
    single.ref("main", COMMIT)
    single.add("data/a.atp", (fixtures / "gen3.atp").read_bytes())
    assert len(opened(single)) == 7
    single.add("data/b.atp", (fixtures / "minimal.atp").read_bytes())
    assert len(opened(single)) == 8
    empty = Cache(tmp_path / "empty")
    empty.ref("main", COMMIT)
    empty.add("README.md", b"# Nothing")
    with pytest.raises(FileNotFoundError, match=r"no \.atp file"):
        opened(empty)


def test_revision(cache: Cache, fixtures: Path) -> None:
    cache.ref("v2", OTHER_COMMIT)
    cache.add("all/val/one.atp", (fixtures / "minimal.atp").read_bytes(), OTHER_COMMIT)
    assert len(opened(cache, "all/val")) == 7
    assert len(opened(cache, "all/val", "v2")) == 1
    assert len(opened(cache, "all/val", OTHER_COMMIT)) == 1


@pytest.mark.parametrize("name", ["../all", "all/../../x", "", "/"])
def test_names_outside_the_repository(cache: Cache, name: str) -> None:
    with pytest.raises(ValueError, match="name: expected a path in the repository"):
        opened(cache, name)


def test_what_is_not_there(cache: Cache, tmp_path: Path) -> None:
    for name in ("all/test", "all/val/two.atp"):
        with pytest.raises(FileNotFoundError, match="someone/some-data: no 'all/"):
            opened(cache, name)
    with pytest.raises(FileNotFoundError):
        opened(Cache(tmp_path / "nothing"), "all")


def test_only_what_is_needed_is_asked_for(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patterns of the original: shards and manifests, nothing else."""
    asked: list[list[str]] = []
    original = huggingface_hub.snapshot_download

    def download(*arguments: object, **options: object) -> str:
        asked.append(options["allow_patterns"])  # type: ignore[arg-type]
        assert options["repo_type"] == "dataset"
        return original(*arguments, **options)  # type: ignore[arg-type, return-value]

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    opened(cache, "all/train")
    opened(cache, "all/val/one.atp")
    with pytest.raises(ValueError, match="expected one of the folders"):
        opened(cache)
    with pytest.raises(FileNotFoundError):
        opened(cache, "odd[0]*")
    every = ["*.atp", "**/*.atp", "manifest.json", "**/manifest.json"]
    assert asked == [
        [f"all/train/{pattern}" for pattern in every],
        ["all/val/one.atp"],
        every,
        [f"odd[[]0][*]/{pattern}" for pattern in every],
    ]


def test_offline_by_the_environment(cache: Cache, scripts: ScriptServer) -> None:
    script = (
        "import os, sys, atompack_torch as apt\n"
        "os.environ['HF_HUB_OFFLINE'] = '1'\n"
        f"print(len(apt.hub.open({REPO!r}, 'all/val', cache_dir=sys.argv[1])))\n"
    )
    done = scripts.run(script, cache.root)
    assert done.stdout == "7\n", done.stderr


def test_not_installed(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub"):
        opened(cache, "all/val")
