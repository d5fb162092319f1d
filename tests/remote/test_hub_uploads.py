"""``hub.upload`` and ``hub.download`` with a hub on loopback, next to those of atompack-db."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_service import REPO, TOKEN, HubService, serving_hub
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError
from molecule_files import write
from processes.client import ScriptServer
from reading import same

import atompack_torch as apt

SHARDS = ["0.atp", "1.atp", "more/2.atp"]
FEATURES = Path(__file__).parents[1] / "fixtures/torch_cache/v2_both_f64_two.h5"
Script = Callable[..., str]
OURS, ORIGINAL = "import atompack_torch.hub as hub", "import atompack.hub as hub"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubService]:
    with serving_hub() as running:
        for place in ("HF_ENDPOINT", "HF_TOKEN"):
            monkeypatch.setenv(place, running.url if place == "HF_ENDPOINT" else TOKEN)
        monkeypatch.setattr(constants, "ENDPOINT", running.url)
        template = running.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i, name in enumerate(SHARDS):
        write(tmp_path / "made" / name, seed=i, count=40 + i)
    (tmp_path / "made/manifest.json").write_text('{"shards": 3}')
    (tmp_path / "made/notes.txt").write_text("not a part of the dataset")
    (tmp_path / "made/.3.atp.new").write_bytes(b"half")
    return tmp_path / "made"


def contents(folder: Path, prefix: str = "") -> dict[str, bytes]:
    names = [*SHARDS, "manifest.json"]
    return {prefix + name: (folder / name).read_bytes() for name in names}


@pytest.fixture
def script(service: HubService, scripts: ScriptServer) -> Script:
    """Runs code in a separate process, as a user's script; returns what it printed."""

    def run(code: str, home: Path, **others: str) -> str:
        environment = {
            "HF_ENDPOINT": service.url,
            "HF_TOKEN": TOKEN,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            **others,
        }
        done = scripts.run(f"import os\nos.environ.update({environment!r})\n{code}")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.mark.parametrize("how", ["one request", "parts"])
def test_round_trip(
    service: HubService, folder: Path, tmp_path: Path, script: Script, how: str
) -> None:
    service.part_bytes = 5000 if how == "parts" else 0
    lines = (
        f"{OURS}",
        f"print(hub.upload({str(folder)!r}, {REPO!r}, 'train'))",
        f"print(hub.download({REPO!r}, 'train'))",
    )
    url, place = script("\n".join(lines), tmp_path / "home").splitlines()
    assert service.files == contents(folder, "train/")
    assert len(service.messages) == 1
    assert url == f"hf://datasets/{REPO}@{service.branches['main']}/train"
    assert {name: Path(place, name).read_bytes() for name in contents(folder)} == contents(folder)
    local = apt.AtpDataset(folder)
    assert same(apt.open(place)[:], local[:])
    assert same(apt.open(url)[:], local[:])
    assert bool(service.parts) == (how == "parts")


@pytest.mark.parametrize(("writes", "reads"), [(OURS, ORIGINAL), (ORIGINAL, OURS)])
def test_beside_the_original(
    service: HubService, folder: Path, tmp_path: Path, script: Script, writes: str, reads: str
) -> None:
    script(
        f"{writes}\nhub.upload({str(folder)!r}, {REPO!r}, 'train')\n"
        f"hub.upload({str(folder / '0.atp')!r}, {REPO!r}, 'one.atp')\n"
        f"hub.upload({str(folder / '0.atp')!r}, {REPO!r}, 'one')",
        tmp_path / "home",
    )
    expected = contents(folder, "train/")
    expected["one.atp"] = expected["one/0.atp"] = expected["train/0.atp"]
    assert service.files == expected
    local = apt.AtpDataset(folder)
    show = (
        f"{reads}\n"
        f"print(hub.download({REPO!r}, 'train'), hub.download({REPO!r}, 'one.atp'))\n"
        f"print(len(hub.open({REPO!r}, 'train')), len(hub.open({REPO!r}, 'one')))"
    )
    places, counts = script(show, tmp_path / "other").splitlines()
    train, one = map(Path, places.split())
    assert {name: (train / name).read_bytes() for name in contents(folder)} == contents(folder)
    assert one.read_bytes() == expected["one.atp"]
    assert counts == f"{len(local)} {len(apt.AtpDataset(folder / '0.atp'))}"


@pytest.mark.parametrize(
    ("name", "found"),
    [(None, "one.atp"), ("sets/a", "sets/a/one.atp"), ("sets/b.atp", "sets/b.atp")],
)
def test_one_file(service: HubService, tmp_path: Path, name: str | None, found: str) -> None:
    path = write(tmp_path / "one.atp", count=5)
    url = apt.hub.upload(path, REPO, name, message="Five molecules", token=TOKEN)
    assert service.files == {found: path.read_bytes()}
    assert service.messages == ["Five molecules"]
    assert url.endswith(f"/{found}")
    assert len(apt.open(url)) == 5


def test_feature_caches(service: HubService, tmp_path: Path) -> None:
    path = tmp_path / "features.h5"
    structures = tmp_path / "some.atp"
    with apt.AtpWriter(structures) as writer:
        writer.write_arrays(
            positions=np.eye(3)[None].repeat(5, 0) * 2, atomic_numbers=[[8, 1, 1]] * 5
        )
    descriptor = apt.ChebyshevDescriptor(["H", "O"], 3, 4.0, 2, 3.0)
    apt.build_cache(apt.AtpDataset(structures), descriptor, path, progress=False)
    url = apt.hub.upload(path, REPO)
    assert list(service.files) == ["features.h5"]
    place = apt.hub.download(REPO, "features.h5", cache_dir=tmp_path / "cache")
    assert place.read_bytes() == path.read_bytes()
    assert len(apt.open(url)) == 5


def test_shards_of_before(service: HubService, folder: Path, tmp_path: Path) -> None:
    old = {"train/8.atp": b"old", "train/a/9.atp": b"old", "other/7.atp": b"kept"}
    service.commit({**old, "train/readme.md": b"kept"})
    apt.hub.upload(folder, REPO, "train")
    assert service.files == {**old, "train/readme.md": b"kept", **contents(folder, "train/")}
    apt.hub.upload(folder, REPO, "train", replace=True)
    kept = {"other/7.atp": b"kept", "train/readme.md": b"kept"}
    assert service.files == {**kept, **contents(folder, "train/")}
    with pytest.raises(ValueError, match="replace: expected a folder"):
        apt.hub.upload(folder / "0.atp", REPO, "train", replace=True)


def test_a_branch(service: HubService, folder: Path, tmp_path: Path) -> None:
    service.commit({})
    service.branches["next"] = service.branches["main"]
    apt.hub.upload(folder / "more", REPO, revision="next", create=False)
    assert service.files == {}
    place = apt.hub.download(REPO, revision="next", local_dir=tmp_path / "here")
    assert place == tmp_path / "here/2.atp"
    assert same(apt.AtpDataset(place)[:], apt.AtpDataset(folder / "more")[:])


@pytest.mark.parametrize("refused", ["PUT /lfs/*", "POST */batch", "POST */commit/*"])
def test_an_upload_that_fails_changes_nothing(
    service: HubService, folder: Path, refused: str
) -> None:
    before = service.commit({"train/0.atp": b"old"})
    service.refuses = refused
    with pytest.raises((HfHubHTTPError, RuntimeError)) as error:
        apt.hub.upload(folder, REPO, "train")
    assert TOKEN not in str(error.value)
    assert service.branches["main"] == before
    service.refuses = ""
    apt.hub.upload(folder, REPO, "train")
    assert service.files == contents(folder, "train/")


def test_nothing_is_sent_of_what_does_not_open(
    service: HubService, folder: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    (damaged / "a").mkdir(parents=True)
    content = bytearray((folder / "0.atp").read_bytes())
    content[9000:9100] = b"\xff" * 100
    (damaged / "a/0.atp").write_bytes(content)
    (tmp_path / "short.atp").write_bytes((folder / "0.atp").read_bytes()[:-7])
    (tmp_path / "text.atp").write_text("no shard")
    rows = bytearray(FEATURES.read_bytes())
    address = rows.index(b"GCOL", len(rows) // 2)
    rows[address : address + 4] = b"LOST"
    (tmp_path / "rows.h5").write_bytes(rows)
    (tmp_path / "empty").mkdir()
    cases: list[tuple[Path, type[Exception], str]] = [
        (damaged, apt.CorruptFileError, "0.atp"),
        (damaged / "a/0.atp", apt.CorruptFileError, "0.atp"),
        (tmp_path / "short.atp", apt.CorruptFileError, "short.atp"),
        (tmp_path / "rows.h5", apt.CorruptFileError, "rows.h5"),
        (tmp_path / "text.atp", apt.UnsupportedFormatError, "text.atp"),
        (tmp_path / "empty", FileNotFoundError, "expected .atp shards"),
        (tmp_path / "nothing", FileNotFoundError, "nothing"),
        (folder / "notes.txt", ValueError, "ends with .atp or .h5"),
    ]
    for path, kind, message in cases:
        with pytest.raises(kind, match=message):
            apt.hub.upload(path, REPO)
    options: list[tuple[dict[str, Any], str]] = [
        ({"name": "../x"}, "name: expected a path in the repository"),
        ({"repo_type": "bucket"}, "repo_type: expected"),
    ]
    for given, message in options:
        with pytest.raises(ValueError, match=message):
            apt.hub.upload(folder, REPO, **given)
    with pytest.raises(ValueError, match="expected OWNER/NAME"):
        apt.hub.upload(folder, "name")
    assert not service.asked


def test_without_a_network(
    service: HubService, folder: Path, tmp_path: Path, script: Script
) -> None:
    apt.hub.upload(folder, REPO, "train")
    cache = tmp_path / "cache"
    with pytest.raises(FileNotFoundError):
        apt.hub.download(REPO, "train", cache_dir=cache, local_files_only=True)
    place = apt.hub.download(REPO, "train", cache_dir=cache)
    n_asked = len(service.asked)
    assert apt.hub.download(REPO, "train", cache_dir=cache, local_files_only=True) == place
    assert len(service.asked) == n_asked
    code = f"{OURS}\nprint(hub.download({REPO!r}, 'train', cache_dir={str(cache)!r}))"
    assert script(code, tmp_path / "home", HF_HUB_OFFLINE="1") == str(place)
    assert len(service.asked) == n_asked
