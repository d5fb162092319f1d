"""Repositories of the Hugging Face hub, read without downloading."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from molecule_files import write
from reading import same
from stand_ins import Bytes, Hub, running
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch import hub

FIRST, SECOND = "1" * 40, "2" * 40
NAMES = ["train/0.atp", "train/1 +.atp", "train/2.atp", "one@two.atp"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for c, commit in enumerate((FIRST, SECOND)):
        for i, name in enumerate(NAMES):
            write(tmp_path / commit / name, seed=10 * c + i, count=60 + c)
    return tmp_path


@pytest.fixture
def service(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    trees = {
        commit: {name: (folder / commit / name).read_bytes() for name in NAMES}
        for commit in (FIRST, SECOND)
    }
    objects = {f"{commit}/{name}": data for commit in trees for name, data in trees[commit].items()}
    with running(Bytes(objects)) as store:
        commits = {"main": FIRST, "refs/pr/1": SECOND}
        made = Hub(commits=commits, trees=trees, store=store)
        with running(made):
            monkeypatch.setenv("HF_ENDPOINT", made.url)
            monkeypatch.setenv("HF_TOKEN", made.token)
            yield made


def test_a_folder_is_read_by_ranges(service: Hub, folder: Path) -> None:
    local = apt.AtpDataset(folder / FIRST / "train")
    remote = hub.open("owner/name", "train", stream=True)
    assert same(remote[:], local[:])
    assert service.store is not None
    assert all("range" in asked.headers for asked in service.store.asked)
    # The token stays with the hub: Bytes refuses requests that have one.
    assert not [asked for asked in service.store.asked if "authorization" in asked.headers]
    pages = [asked for asked in service.asked if "/tree/" in asked.path]
    assert any("cursor" in asked.query for asked in pages)
    assert same(apt.AtpDataset("hf://datasets/owner/name/train")[:], local[:])


def test_a_file_and_a_revision(service: Hub, folder: Path) -> None:
    local = apt.AtpDataset(folder / SECOND / "train/2.atp")
    found = [
        hub.open("owner/name", "train/2.atp", "refs/pr/1", stream=True),
        hub.open("owner/name", "train/2.atp", SECOND, stream=True),
        apt.AtpDataset("hf://datasets/owner/name/train/2.atp@refs/pr/1"),
        apt.open("hf://datasets/owner/name@refs%2Fpr%2F1/train/2.atp"),
    ]
    for remote in found:
        assert same(remote[:], local[:])
    odd = hub.open("owner/name", "one@two.atp", stream=True)
    assert same(odd[:], apt.AtpDataset(folder / FIRST / "one@two.atp")[:])


def test_the_commit_is_pinned_until_refresh(service: Hub, folder: Path) -> None:
    first, second = (apt.AtpDataset(folder / commit / "train") for commit in (FIRST, SECOND))
    remote = hub.open("owner/name", "train", stream=True)
    service.commits["main"] = SECOND
    copy = pickle.loads(pickle.dumps(remote))
    assert same(copy[:], first[:])
    loader = DataLoader(
        remote, 40, num_workers=2, collate_fn=apt.collate_identity, timeout=200, shuffle=False
    )
    energies = torch.cat([batch["energy"] for batch in loader])
    assert torch.equal(energies, first[:]["energy"])
    assert remote.refresh()
    assert same(remote[:], second[:])
    assert not remote.refresh()


def test_a_refresh_that_fails_changes_nothing(service: Hub, folder: Path) -> None:
    remote = hub.open("owner/name", "train", stream=True)
    remote.batch([0])
    service.commits["main"] = "none"
    with pytest.raises(apt.CorruptFileError, match="expected a commit"):
        remote.refresh()
    del service.commits["main"]
    with pytest.raises(FileNotFoundError):
        remote.refresh()
    remote.close()
    assert same(remote[:], apt.AtpDataset(folder / FIRST / "train")[:])


def test_the_only_folder_is_found(service: Hub) -> None:
    with pytest.raises(ValueError, match=r"expected one of the folders with \.atp files"):
        hub.open("owner/name", stream=True)
    del service.trees[FIRST]["one@two.atp"]
    assert len(hub.open("owner/name", stream=True)) == 180
    service.trees[FIRST] = {"readme.md": b"text"}
    with pytest.raises(FileNotFoundError, match=r"owner/name: no \.atp file in it"):
        hub.open("owner/name", stream=True)


def test_errors_name_the_url_and_no_token(service: Hub) -> None:
    for name, options in (
        ("nothing", {}),
        ("nothing.atp", {}),
        ("train", {"revision": "no-such-branch"}),
    ):
        with pytest.raises(FileNotFoundError, match="owner/name") as error:
            hub.open("owner/name", name, stream=True, **options)  # type: ignore[arg-type]
        assert service.token not in str(error.value)
    with pytest.raises(PermissionError) as refused:
        hub.open("owner/name", "train", token="WRONG-TOKEN", stream=True)
    assert "WRONG-TOKEN" not in str(refused.value)
    with pytest.raises(PermissionError):
        hub.open("owner/name", "train", token=False, stream=True)


def test_the_token_goes_to_no_other_page(service: Hub) -> None:
    service.foreign_page = True
    with pytest.raises(apt.CorruptFileError, match="expected its next page on the hub"):
        hub.open("owner/name", "train", stream=True)


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="stream: expected no cache_dir"):
        hub.open("owner/name", "x", stream=True, cache_dir=tmp_path)
    with pytest.raises(ValueError, match="repo_id: expected OWNER/NAME"):
        hub.open("name", "x", stream=True)


def test_block_caches_serve_the_next_commit(service: Hub, tmp_path: Path) -> None:
    """Files that a commit leaves alone are not read again."""
    data = write(tmp_path / "large.atp", 3000).read_bytes()
    assert service.store is not None
    for commit in (FIRST, SECOND):
        service.trees[commit]["large.atp"] = service.store.objects[f"{commit}/large.atp"] = data
    cache = tmp_path / "cache"
    beyond: list[int] = []
    for commit in (FIRST, SECOND):
        n_before = len(service.store.asked)
        found = hub.open(
            "owner/name", "large.atp", commit, stream=True, storage_options={"cache": cache}
        )
        assert len(found[:]) == 3000
        ranges = [asked.headers["range"] for asked in service.store.asked[n_before:]]
        beyond.append(sum(not text.startswith("bytes=0-") for text in ranges))
    assert beyond[0] > 0
    assert beyond[1] == 0
