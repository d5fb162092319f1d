"""Damaged and odd stores: the right answer or a named error, in bounded time and memory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes.client import ScriptServer

import atompack_torch as apt

# Where we differ from the original on purpose.
NOT_LISTED_FILES = ("json_array_file_missing", "json_dataset_not_in_file")


@pytest.fixture(scope="module")
def rejects(fixtures: Path) -> Path:
    return fixtures.parent / "atlas" / "reject"


def verdicts(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "verdicts.json").read_text())
    return loaded


def read_everything(path: Path) -> Any:
    """All there is of dataset ``d`` and its array ``v``; the values as lists."""
    store = apt.AtlasStore(path)
    attributes = store.attrs("d")
    store.schema("v", "d")
    store.stats("v")
    store.select("v", min=0)
    value = store.read("d", "v")
    for layout in ("stacked", "jagged", "list"):
        scan = store.scan("v", ["d", "d"], layout=layout)  # type: ignore[arg-type]
        assert scan.mask.tolist() == [True, True]
    return value.tolist() if isinstance(value, torch.Tensor) else value, attributes


def test_there_are_cases(rejects: Path) -> None:
    assert len(verdicts(rejects)) == 106
    assert {path.name for path in rejects.iterdir() if path.is_dir()} == set(verdicts(rejects))


CASES = ("read", "reject", "either")


@pytest.mark.parametrize("case", CASES)
def test_verdicts(rejects: Path, case: str) -> None:
    chosen = {k: v for k, v in verdicts(rejects).items() if v["expect"] == case}
    assert len(chosen) > 10
    for name, verdict in chosen.items():
        assert_verdict(rejects / name, case, verdict["atlas_0_10_0"])


def assert_verdict(path: Path, case: str, original: dict[str, Any]) -> None:
    if case == "reject" or (case == "either" and not is_readable(path)):
        with pytest.raises(apt.AtompackError, match=f"^{path}"):
            read_everything(path)
        return
    values, attributes = read_everything(path)
    # The original takes "data.+1.af" for a layer; the format asks for digits.
    if path.name != "sidecar_plus":
        assert values == original["values"]
    assert attributes == original["attributes"]


def is_readable(path: Path) -> bool:
    try:
        read_everything(path)
    except apt.AtompackError:
        return False
    return True


@pytest.mark.parametrize("name", NOT_LISTED_FILES)
def test_what_only_the_metadata_lists(rejects: Path, name: str) -> None:
    """The original invents zeros, or a file; the arrays next to it can be read."""
    store = apt.AtlasStore(rejects / name)
    assert store.read("d", "v").tolist() == [10, 11, 12, 13]
    (dataset, array), *others = [
        (d, a) for d in store.datasets for a in store.arrays_of(d) if (d, a) != ("d", "v")
    ]
    assert not others
    with pytest.raises((apt.CorruptFileError, FileNotFoundError), match=str(rejects / name)):
        store.read(dataset, array)
    assert {path.name for path in (rejects / name).iterdir()} == {"atlas.json", "v"}


BOUNDED = """
import resource, sys
import atompack_torch as apt

used = 1024 * int(next(l for l in open("/proc/self/status") if l.startswith("VmSize")).split()[1])
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
for path in sys.argv[1:]:
    try:
        store = apt.AtlasStore(path)
        store.attrs("d"), store.schema("v"), store.stats("v")
        store.scan("v", num_threads=1)
        print("read")
    except (apt.AtompackError, FileNotFoundError) as error:
        print("refused")
"""


def test_no_case_takes_much_memory(rejects: Path, scripts: ScriptServer) -> None:
    """Some claim 2^60 bytes; a MemoryError would end the script."""
    paths = [rejects / name for name in verdicts(rejects)]
    done = scripts.run(BOUNDED, *paths)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 106


@pytest.fixture
def copied(fixtures: Path, tmp_path: Path) -> Path:
    """A small store that can be damaged."""
    path = tmp_path / "store"
    shutil.copytree(fixtures.parent / "atlas" / "tiny_json", path, copy_function=shutil.copyfile)
    for folder in (path, *path.iterdir()):
        folder.chmod(0o755)
    return path


def everything(path: Path) -> Any:
    """Values of all arrays of the small store."""
    store = apt.AtlasStore(path)
    read = {a: store.read(d, a) for d in store.datasets for a in store.arrays_of(d)}
    values = {a: v.tolist() if isinstance(v, torch.Tensor) else v for a, v in read.items()}
    return values, [store.attrs(d) for d in store.datasets]


def test_metadata_cut_anywhere(copied: Path) -> None:
    whole = (copied / "atlas.json").read_bytes()
    for size in range(len(whole)):
        (copied / "atlas.json").write_bytes(whole[:size])
        with pytest.raises(apt.CorruptFileError, match=r"atlas\.json"):
            apt.AtlasStore(copied)


@pytest.mark.parametrize(
    "file", ["atlas.json", "t/data.1.af", "t/data.af", "t/data.stats", "station name/data.1.af"]
)
def test_flipped_bits(copied: Path, file: str) -> None:
    """Without checksums values may differ; nothing else may happen than that or a named error."""
    whole = (copied / file).read_bytes()
    rng = np.random.default_rng(3)
    n_read = n_refused = 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(rng.integers(1, 3)):
            damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        (copied / file).write_bytes(damaged)
        try:
            everything(copied)
            store = apt.AtlasStore(copied)
            assert all(isinstance(store.stats(array), dict) for array in store.arrays)
            n_read += 1
        except (apt.AtompackError, FileNotFoundError):
            n_refused += 1
    assert n_read > 0
    assert n_refused > 0 or file.endswith("stats")


def rename_array(path: Path, name: str) -> None:
    """Gives array t another name in the metadata, and there alone."""
    metadata = json.loads((path / "atlas.json").read_text())
    arrays = metadata["datasets"]["jan"]["arrays"]
    arrays[name] = arrays.pop("t")
    (path / "atlas.json").write_text(json.dumps(metadata))


@pytest.mark.parametrize("name", ["../t", "a/b", "..", ".", "", "/etc", "nul\0name", "x" * 5000])
def test_names_that_are_no_folders(copied: Path, name: str) -> None:
    """Nothing outside the store is opened."""
    rename_array(copied, name)
    shutil.copytree(copied / "t", copied.parent / "t")
    with pytest.raises((apt.CorruptFileError, OSError)) as raised:
        apt.AtlasStore(copied).read("jan", name)
    assert str(copied) in str(raised.value)


def test_files_of_another_kind(copied: Path) -> None:
    """Folders and pipes where files should be; unknown files are ignored."""
    (copied / "t" / "data.x.af").write_bytes(b"junk")
    (copied / "notes.txt").write_text("hello")
    assert everything(copied)
    (copied / "t" / "data.stats").unlink()
    (copied / "t" / "data.stats").mkdir()
    assert everything(copied)
    (copied / "t" / "data.2.af").mkdir()
    with pytest.raises((apt.CorruptFileError, OSError), match=r"data\.2\.af"):
        everything(copied)
