"""Memory is taken for what files hold, not for what they claim."""

from __future__ import annotations

import inspect
import json
import pickle
import struct
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from processes.client import ScriptServer
from torch.utils.data import DataLoader

import atompack_torch as apt

pytestmark = pytest.mark.timeout(120)

MIB = 1 << 20
BLOCK = 128 * 1024


def zstd_frame(*parts: bytes | tuple[int, int]) -> bytes:
    """Raw bytes and runs of (byte, how many), in one frame that does not declare its size."""
    blocks = []
    for part in parts:
        if isinstance(part, bytes):
            blocks.append((0, len(part), part))
            continue
        byte, n = part
        blocks += [(1, min(BLOCK, n - i), bytes([byte])) for i in range(0, n, BLOCK)]
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 7 << 3)  # a window of 128 KiB
    for i, (kind, size, held) in enumerate(blocks):
        is_last = i + 1 == len(blocks)
        frame += (size << 3 | kind << 1 | is_last).to_bytes(3, "little") + held
    return frame


def lz4_run(n: int) -> bytes:
    """A block of ``n`` spaces: one literal, then a match that continues and on."""
    extra = n - 1 - 5 - 4 - 15
    match = b"\x1f \x01\x00" + b"\xff" * (extra // 255) + bytes([extra % 255])
    return match + b"\x50     "


def sparse_store(path: Path, n: int = 10**9, dtype: str = "float64") -> Path:
    with apt.AtlasStore(path, "x") as store:
        store.create_dataset("d")
        store.define_array("d", "v", dtype, (n,), chunk_shape=(1000,))
        store.write("d", "v", ["x"] * 4 if dtype == "string" else [1, 2, 3, 4], start=[0])
    return path


def sparse_file(path: Path, n: int = 10**9, dtype: str = "float64") -> Path:
    with apt.ArrayFile(path, "x") as file:
        file.define("v", dtype, (n,), chunk_shape=(1000,))
        file.write("v", ["x"] * 4 if dtype == "string" else [1, 2, 3, 4], start=[0])
    return path


def peak_growth(scripts: ScriptServer, script: str, *arguments: object) -> int:
    """Bytes by which the resident set of a process grew at most, in a script after its imports."""
    head = """
        import re, sys
        from pathlib import Path
        import numpy as np, torch
        import atompack_torch as apt
        def peak():
            status = Path("/proc/self/status").read_text()
            return int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024
        torch.zeros(4).sum()
        Path("/proc/self/clear_refs").write_text("5")  # the peak is that of the memory held now
        before = peak()
    """
    text = textwrap.dedent(head) + textwrap.dedent(script) + "\nprint(peak() - before)\n"
    run = scripts.run(text, *map(str, arguments))
    assert run.returncode == 0, run.stderr
    return int(run.stdout.splitlines()[-1])


REFUSED = r"unwritten cells: expected at most 268435456 .*max_unstored_bytes="


@pytest.mark.parametrize("dtype", ["float64", "string"])
def test_unstored_elements_are_limited(tmp_path: Path, dtype: str) -> None:
    store = apt.AtlasStore(sparse_store(tmp_path / "s", dtype=dtype))
    file = apt.ArrayFile(sparse_file(tmp_path / "a.af", dtype=dtype))
    with pytest.raises(apt.FieldError, match=f"^{tmp_path}/s/.*{REFUSED}"):
        store.read("d", "v")
    with pytest.raises(apt.FieldError, match=f"^{tmp_path}/s/.*{REFUSED}"):
        store.scan("v")
    with pytest.raises(apt.FieldError, match=f"^{tmp_path}/a.af.*{REFUSED}"):
        file.read("v")
    with pytest.raises(apt.FieldError, match=REFUSED):
        next(iter(DataLoader(apt.AtlasDataset(store, ["v"], layout="list"), batch_size=1)))
    part = store.read("d", "v", start=[3], shape=[2])
    assert file.read("v", start=[3], shape=[2]) == part if dtype == "string" else part[0] == 4
    assert len(store.scan("v", start=[10**9 - 1]).values[0]) == 1


def test_writers_limit_their_reads_too(tmp_path: Path) -> None:
    sparse_store(tmp_path / "s")
    sparse_file(tmp_path / "a.af")
    with (
        apt.AtlasStore(tmp_path / "s", "a") as store,
        apt.ArrayFile(tmp_path / "a.af", "a") as file,
    ):
        for _ in range(2):  # committed, then pending too
            with pytest.raises(apt.FieldError, match=f"^{tmp_path}/s.*{REFUSED}"):
                store.read("d", "v")
            with pytest.raises(apt.FieldError, match=f"^{tmp_path}/a.af.*{REFUSED}"):
                file.read("v")
            assert store.read("d", "v", [3], [2]).tolist() == [4, 0]
            assert file.read("v", [3], [2]).tolist() == [4, 0]
            store.write("d", "v", [5], start=[9])
            file.write("v", [5], start=[9])
        assert store.read("d", "v", [8], [2]).tolist() == [0, 5]
        store.create_dataset("e")
        store.define_array("e", "v", "int8", (2**20, 2**20), chunk_shape=(1, 2**20))
        with pytest.raises(apt.FieldError, match=REFUSED):
            store.read("e", "v")


def test_the_limit_is_an_option(tmp_path: Path) -> None:
    n = 40 * MIB
    store_path = sparse_store(tmp_path / "s", n)
    file_path = sparse_file(tmp_path / "a.af", n)
    bytes_needed = 8 * n
    for limit in (None, bytes_needed - 8000 - 1):
        with pytest.raises(apt.FieldError, match="max_unstored_bytes="):
            apt.AtlasStore(store_path, max_unstored_bytes=limit).read("d", "v")
        with pytest.raises(apt.FieldError, match="max_unstored_bytes="):
            apt.ArrayFile(file_path, max_unstored_bytes=limit).read("v")
        with (
            apt.ArrayFile(file_path, "a", max_unstored_bytes=limit) as file,
            pytest.raises(apt.FieldError, match="max_unstored_bytes="),
        ):
            file.read("v")
    for values in (
        apt.AtlasStore(store_path, max_unstored_bytes=bytes_needed).read("d", "v"),
        apt.ArrayFile(file_path, max_unstored_bytes=bytes_needed).read("v"),
    ):
        assert values.shape == (n,)
        assert values[:6].tolist() == [1, 2, 3, 4, 0, 0]
    none = apt.AtlasStore(store_path, max_unstored_bytes=0)
    with pytest.raises(apt.FieldError, match="at most 0 bytes"):
        none.read("d", "v", [5000], [2])
    assert none.read("d", "v", [0], [1000])[:5].tolist() == [1, 2, 3, 4, 0]


def test_what_is_stored_is_not_limited(tmp_path: Path) -> None:
    values = np.zeros(40 * MIB, np.int64)
    values[::MIB] = np.arange(40)
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "v", "int64", values.shape, chunk_shape=(MIB,))
        store.write("d", "v", values)
    stored = sum(file.stat().st_size for file in (tmp_path / "s").rglob("*.af"))
    assert stored * 64 < values.nbytes
    store = apt.AtlasStore(tmp_path / "s", max_unstored_bytes=0)
    np.testing.assert_array_equal(store.read("d", "v").numpy(), values)


def test_a_large_file_justifies_more(tmp_path: Path) -> None:
    """64 bytes for each that is stored, without an option."""
    rng = np.random.default_rng(0)
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        for name, n in (("full", MIB), ("sparse", 64 * MIB)):
            store.create_dataset(name)
            store.define_array(name, "v", "int64", (n,), chunk_shape=(1000,))
        store.write("full", "v", rng.integers(0, 2**60, MIB))
    assert apt.AtlasStore(tmp_path / "s").read("sparse", "v").sum() == 0
    with pytest.raises(apt.FieldError, match="max_unstored_bytes="):
        apt.AtlasStore(tmp_path / "s", max_unstored_bytes=256 * MIB).read("sparse", "v")


def test_the_limit_goes_with_a_store(tmp_path: Path) -> None:
    store = apt.AtlasStore(sparse_store(tmp_path / "s", 1000), max_unstored_bytes=0)
    with apt.AtlasStore(tmp_path / "s", "a") as more:
        more.create_dataset("e")
        more.define_array("e", "v", "float64", (1000,))
    store.refresh()
    dataset = apt.AtlasDataset(store, ["v"])
    for each in (dataset, pickle.loads(pickle.dumps(dataset))):
        assert each[0]["v"].shape[-1] == 1000
        with pytest.raises(apt.FieldError, match="max_unstored_bytes="):
            each[1]


def test_rows_that_are_asked_for_again_are_no_claim(tmp_path: Path) -> None:
    values = np.arange(MIB)
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "v", "int64", values.shape)
        store.write("d", "v", values)
    store = apt.AtlasStore(tmp_path / "s", max_unstored_bytes=MIB)
    assert store.scan("v", ["d"] * 3).values.shape == (3, MIB)


@pytest.mark.parametrize("form", ["json.zst", "msgpack.zst", "json.lz4", "msgpack.lz4", "json"])
def test_metadata_is_limited(tmp_path: Path, form: str) -> None:
    with apt.AtlasStore(tmp_path / "s", "x", metadata=form) as store:
        store.create_dataset("d")
        store.set_attr("d", "k", "x" * MIB)
    for mode in ("r", "a"):
        with pytest.raises(apt.CorruptFileError, match="max_metadata_bytes=1048576"):
            apt.AtlasStore(tmp_path / "s", mode, max_metadata_bytes=MIB)  # type: ignore[arg-type]
        store = apt.AtlasStore(tmp_path / "s", mode, max_metadata_bytes=2 * MIB)  # type: ignore[arg-type]
        assert store.attrs("d") == {"k": "x" * MIB}
        if mode == "a":
            store.set_attr("d", "l", "y" * MIB)
            with pytest.raises(apt.FieldError, match="max_metadata_bytes=2097152"):
                store.flush()
            store.set_attr("d", "l", 0)
            store.flush()
            store.discard()
    default = inspect.signature(apt.AtlasStore).parameters["max_metadata_bytes"].default
    assert default == 256 * MIB


def test_footers_are_limited(tmp_path: Path) -> None:
    with apt.ArrayFile(tmp_path / "a.af", "x") as file:
        for i in range(100):
            file.define(f"name {i}", "int8", ())
    apt.ArrayFile(tmp_path / "a.af", max_metadata_bytes=100_000)
    for mode in ("r", "a"):
        with pytest.raises(apt.CorruptFileError, match=r"footers: .*max_metadata_bytes=1000"):
            apt.ArrayFile(tmp_path / "a.af", mode, max_metadata_bytes=1000)  # type: ignore[arg-type]


def test_a_bomb_is_opened_in_steps(tmp_path: Path, scripts: ScriptServer) -> None:
    """131 kB that expand to 4 GiB of spaces."""
    store = tmp_path / "s"
    store.mkdir()
    bomb = zstd_frame(b"{", (32, 2**32), b"}")
    assert len(bomb) < 262_000
    (store / "atlas.json.zst").write_bytes(bomb)
    script = """
        try:
            apt.AtlasStore(sys.argv[1])
        except apt.CorruptFileError as error:
            assert "max_metadata_bytes=268435456" in str(error), error
        else:
            raise AssertionError("opened")
    """
    assert peak_growth(scripts, script, store) < 300 * MIB  # 256 of the content


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (2**31, "max_metadata_bytes=268435456"),
        (2 * 10**8, "lz4 prefix: expected 100000000, got 20"),
    ],
)
def test_an_lz4_prefix_is_a_claim(
    tmp_path: Path, scripts: ScriptServer, claim: int, message: str
) -> None:
    store = tmp_path / "s"
    store.mkdir()
    (store / "atlas.json.lz4").write_bytes(struct.pack("<I", claim) + lz4_run(100_000_000))
    script = """
        try:
            apt.AtlasStore(sys.argv[1])
        except apt.CorruptFileError as error:
            assert sys.argv[2] in str(error), error
        else:
            raise AssertionError("opened")
    """
    assert peak_growth(scripts, script, store, message) < 50 * MIB


def test_reads_of_small_files_take_little(tmp_path: Path, scripts: ScriptServer) -> None:
    sparse_store(tmp_path / "s")
    sparse_file(tmp_path / "a.af")
    sparse_file(tmp_path / "t.af", dtype="string")
    script = """
        folder = sys.argv[1]
        readers = [
            lambda: apt.AtlasStore(folder + "/s").read("d", "v"),
            lambda: apt.AtlasStore(folder + "/s").scan("v"),
            lambda: apt.AtlasStore(folder + "/s", "a").read("d", "v"),
            lambda: apt.ArrayFile(folder + "/a.af").read("v"),
            lambda: apt.ArrayFile(folder + "/a.af", "a").read("v"),
            lambda: apt.ArrayFile(folder + "/t.af").read("v"),
            lambda: apt.ArrayFile(folder + "/t.af", "a").read("v"),
        ]
        for read in readers:
            try:
                read()
            except apt.FieldError as error:
                assert "max_unstored_bytes=" in str(error), error
            else:
                raise AssertionError("read")
        apt.ArrayFile(folder + "/a.af", "a").compact()
        apt.AtlasStore(folder + "/s", "a").compact()
        from atompack_torch.cli import main
        assert main(["verify", folder + "/s", folder + "/a.af", folder + "/t.af"]) == 0
    """
    assert peak_growth(scripts, script, tmp_path) < 100 * MIB


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("max_metadata_bytes", -1, ValueError),
        ("max_metadata_bytes", 1.5, TypeError),
        ("max_metadata_bytes", None, TypeError),
        ("max_unstored_bytes", -1, ValueError),
        ("max_unstored_bytes", "1", TypeError),
        ("max_unstored_bytes", True, TypeError),
    ],
)
def test_values_of_the_options(
    tmp_path: Path, option: str, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=option):
        apt.AtlasStore(tmp_path / "s", "x", **{option: value})  # type: ignore[arg-type]
    with pytest.raises(error, match=option):
        apt.ArrayFile(tmp_path / "a.af", "x", **{option: value})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("claimed", [10**12, 9, 11, 2**62])
def test_examples_of_shards_are_counted_when_they_are_opened(tmp_path: Path, claimed: int) -> None:
    with apt.ShardWriter(tmp_path / "s", 20, 5) as writer:
        for i in range(10):
            writer.write({"x": torch.tensor(i)})
    (meta,) = (tmp_path / "s").glob("*/meta.json")
    stored = json.loads(meta.read_text())
    assert stored["stored_examples"] == 10
    if claimed in (9, 11):
        claimed = {9: 5, 11: 11}[claimed]  # other numbers of blocks
    meta.write_text(json.dumps(stored | {"stored_examples": claimed}))
    with pytest.raises(apt.CorruptFileError, match=rf"^{tmp_path}/s/.*index: expected"):
        apt.ShardDataset(tmp_path / "s")
