"""Datasets of shards that are written here: what is read in them, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes.client import ScriptServer
from reference.shards import Reader, assert_same

import atompack_torch as apt

EXAMPLES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    -(2**63),
    2**63,
    -(10**40),
    1.5,
    float("nan"),
    float("-inf"),
    "",
    "é \ud800 \N{GRINNING FACE}",
    "x" * 300,
    b"",
    bytes(range(256)) * 2,
    [],
    [1, [2, [3]]],
    (),
    (1, "a", (None,)),
    {},
    {"a": 1, 2: "b", None: 3, (1, "x"): 4, b"k": 5, 1.5: 6, True: 7},
    {"again": {"again": {"again": 1}}},
]
ARRAYS = [
    np.arange(6, dtype=dtype).reshape(2, 3) for dtype in [*"bBhHiIlLefdgFD", ">i4", ">f8", ">c8"]
] + [
    np.array([True, False]),
    np.array(3.5),
    np.zeros((0, 3), np.float32),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    np.arange(20)[::-2],
    np.arange(20)[::3],
    np.broadcast_to(np.arange(3), (2, 3)),
    np.array(["a", "béd"]),
    np.array([b"a", b"bcd"]),
    np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    np.array([1, 2], dtype="m8[25us]"),
    np.array([(1, 2.5, "x")], dtype=[("a", "<i2"), ("b", "<f8"), ("é", "U3")]),
    np.zeros(2, dtype=[("in", [("x", "i4"), ("y", "f4")]), ("z", "i8")]),
    np.zeros(2, dtype=np.dtype({"names": ["a"], "formats": ["i2"], "offsets": [4], "itemsize": 9})),
    np.array([b"\0\1", b"\2"], dtype="V2"),
    np.array([1, "a", None, [2, (3,)], {"k": 4}], dtype=object),
    np.array([[None, 1], [2, "b"]], dtype=object),
]
SCALARS = [
    np.float32(1.5),
    np.float64(2.5),
    np.int64(-3),
    np.uint8(4),
    np.bool_(True),
    np.str_("text"),
    np.bytes_(b"bytes"),
    np.datetime64("2021-02-03T04:05"),
    np.complex64(1 + 2j),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0],
]
TENSORS = [
    torch.arange(6).reshape(2, 3).to(dtype)
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
] + [
    torch.tensor(1.5),
    torch.zeros(0, 3),
    torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    torch.arange(100.0)[10:20:3],
    torch.zeros(1).expand(3, 4),
    torch.ones(2, requires_grad=True),
    torch.tensor([1 + 2j]).conj(),
]


def write(
    root: Path, examples: Any, shard_size: int = 1000, block_size: int = 5, **kw: Any
) -> Path:
    with apt.ShardWriter(root, shard_size, block_size, **kw) as writer:
        for example in examples:
            writer.write(example)
    return root


def _native(value: Any) -> Any:
    """Arrays are written in this machine's byte order; a copy would lose the padding of records."""
    if not isinstance(value, np.ndarray) or value.dtype.isnative or value.dtype.names:
        return value
    return value.astype(value.dtype.newbyteorder("="))


@pytest.mark.parametrize("strategy", [0, 1, 2, 3])
def test_values(tmp_path: Path, strategy: Any) -> None:
    examples = EXAMPLES + ARRAYS + SCALARS
    root = write(tmp_path / "set", examples, strategy=strategy)
    assert_same(list(Reader(root)), [_native(example) for example in examples])
    dataset = apt.ShardDataset(root)
    assert_same([dataset[i] for i in range(len(dataset))], examples)
    assert all(a.flags.writeable for a in Reader(root) if isinstance(a, np.ndarray))


def test_tensors(tmp_path: Path) -> None:
    root = write(tmp_path / "set", [{"t": tensor, "again": tensor} for tensor in TENSORS])
    want = [{"t": tensor, "again": tensor} for tensor in TENSORS]
    assert_same(list(Reader(root)), want)
    dataset = apt.ShardDataset(root)
    assert_same([dataset[i] for i in range(len(dataset))], want)


def test_tensors_as_arrays(tmp_path: Path) -> None:
    tensors = [t for t in TENSORS if t.dtype is not torch.bfloat16]
    root = write(tmp_path / "set", tensors, tensors="numpy")
    want = [tensor.detach().resolve_conj().numpy() for tensor in tensors]
    assert_same(list(Reader(root)), want)
    writer = apt.ShardWriter(tmp_path / "other", 1, 1, tensors="numpy")
    with pytest.raises(TypeError, match=r"example: expected elements that NumPy has, got BF"):
        writer.write(torch.zeros(1, dtype=torch.bfloat16))


def test_memmap(tmp_path: Path) -> None:
    np.arange(10.0).tofile(tmp_path / "numbers")
    mapped = np.memmap(tmp_path / "numbers", np.float64, "r")
    (got,) = Reader(write(tmp_path / "set", [mapped]))
    assert_same(got, np.arange(10.0))


def test_names_of_both_numpys(tmp_path: Path) -> None:
    """NumPy 1 knows numpy.core alone, NumPy 2 knows both; its _frombuffer NumPy 1 has not."""
    root = write(tmp_path / "set", ARRAYS + SCALARS, strategy=0)
    raw = (root / "0" / "data.bin").read_bytes()
    assert b"numpy.core.multiarray" in raw
    assert b"numpy._core" not in raw
    assert b"_frombuffer" not in raw


def test_molecules(tmp_path: Path) -> None:
    molecules = [
        apt.Molecule(
            torch.rand(n, 3),
            torch.ones(n, dtype=torch.int64),
            energy=float(n),
            forces=torch.rand(n, 3),
            pbc=[True, False, True],
            name=f"{n}",
            atom_properties={"spins": torch.rand(n)},
            properties={"n_atoms": 7, "tag": "x"},
        )
        for n in range(1, 9)
    ]
    dataset = apt.ShardDataset(write(tmp_path / "set", molecules))
    want = apt.MoleculeBatch.from_molecules(molecules)
    assert_same(dataset.batch(range(8)), want)


def test_what_changes_later_is_not_written(tmp_path: Path) -> None:
    array = np.zeros(3)
    with apt.ShardWriter(tmp_path / "set", 10, 10) as writer:
        for i in range(3):
            array[:] = i
            writer.write({"a": array})
    assert [e["a"].tolist() for e in Reader(tmp_path / "set")] == [[0.0] * 3, [1.0] * 3, [2.0] * 3]


class _Int(int):
    pass


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({1, 2}, r"example: expected None, bool, .*, got set"),
        ({"a": [0, 1, 2, {3}]}, r"example\['a'\]\[3\]: expected .*, got set"),
        ({"a": {2: (1j,)}}, r"example\['a'\]\[2\]\[0\]: .*, got complex"),
        ([_Int(3)], r"example\[0\]: .*, got .*_Int"),
        ({frozenset(): 1}, r"example\[frozenset\(\)\]: .*, got frozenset"),
        (bytearray(b"x"), "got bytearray"),
        (np.ma.masked_array([1]), "got MaskedArray"),
        (np.array([{"a": {1}}], dtype=object), r"example\[0\]\['a'\]: .*, got set"),
        (np.zeros(2, dtype=[("a", "f4", (2,))]), "expected elements of plain data"),
        (np.array(["a"], dtype=np.dtypes.StringDType()), "expected elements of plain data"),
        (torch.nn.Parameter(torch.zeros(1)), "got Parameter"),
        (torch.zeros(2).to_sparse(), "expected a dense tensor on the CPU"),
        (torch.zeros(2, device="meta"), "expected a dense tensor on the CPU, got one of meta"),
        (torch.zeros(2, dtype=torch.uint16), "expected elements that torch reads back, got UInt16"),
        (_cycle(), "expected values at most 64 deep"),
        (lambda: None, "got function"),
    ],
)
def test_refusals(tmp_path: Path, example: Any, message: str) -> None:
    with apt.ShardWriter(tmp_path / "set", 10, 2) as writer:
        writer.write({"key": 1, "a": np.zeros(3)})
        with pytest.raises(TypeError, match=message):
            writer.write(example)
        with pytest.raises(TypeError, match=r"^example\['x'\]"):
            writer.write({"new": np.ones(2), "x": example})
        writer.write({"new": 2, "a": np.ones(3)})
        assert len(writer) == 2
    assert_same(
        list(Reader(tmp_path / "set")), [{"key": 1, "a": np.zeros(3)}, {"new": 2, "a": np.ones(3)}]
    )


def test_as_deep_as_is_read(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(64):
        deep = [deep]
    assert_same(apt.ShardDataset(write(tmp_path / "set", [deep]))[0], deep)


@pytest.mark.parametrize(
    "name",
    [
        "s0_mixed",
        "s1_atoms",
        "s2_atoms",
        "s2_fallback",
        "s2_late_short",
        "s3_atoms",
        "s3_seven",
        "shards_10",
        "shards_12",
        "shard_size_zero",
        "empty_s0",
        "empty_s2",
        "index_255",
        "index_256",
    ],
)
def test_shards_are_those_of_the_original(fixtures: Path, name: str, tmp_path: Path) -> None:
    """The same folders, strategies and sizes; for bare blocks the kind of index differs only with
    the size of the pickles."""
    original = Reader(fixtures.parent / "atlas_shards" / "data" / name)
    meta = original.shards[0].meta
    asked = {"empty_s2": 2, "s2_fallback": 2, "shard_size_zero": 2}
    root = write(
        tmp_path / "set",
        list(original),
        len(original.shards[0]) or (100 if name.startswith("empty") else 0),
        meta["block_size"],
        strategy=asked.get(name, original.meta["compression_strategy"]),
        level=meta["compression_level"],
        dictionary=meta["compression_dict_size"],
    )
    ours = Reader(root)
    assert ours.meta == original.meta
    assert [s.name for s in ours.shards] == [s.name for s in original.shards]
    assert [s.meta for s in ours.shards] == [s.meta for s in original.shards]
    for shard in ours.shards:
        index = shard.index
        assert index[0] == 0
        assert len(index) == -(-len(shard) // meta["block_size"]) + 1
        assert index.dtype == np.min_scalar_type(int(index[-1]))
        assert (root / shard.name / "data.bin").exists() == (len(shard) > 0)
    assert_same(list(ours), list(original))


def test_metadata_files_are_those_of_the_original(fixtures: Path, tmp_path: Path) -> None:
    original = fixtures.parent / "atlas_shards" / "data" / "s2_fallback"
    examples = list(Reader(original))
    root = write(tmp_path / "set", examples, 24, 4)
    for name in ("meta.json", "0/meta.json", "1/meta.json"):
        assert json.loads((root / name).read_text()) == json.loads((original / name).read_text())
        assert (root / name).read_bytes() == (original / name).read_bytes()
    header = (root / "0/index.npy").read_bytes()[:128]
    assert header == (original / "0/index.npy").read_bytes()[:128]


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    root = write(tmp_path / "set", [1, 2])
    with pytest.raises(FileExistsError):
        apt.ShardWriter(root, 1, 1)
    first = apt.ShardWriter(tmp_path / "other", 1, 1)
    with pytest.raises(apt.WriterLockedError, match="another writer"):
        apt.ShardWriter(tmp_path / "other", 1, 1)
    first.close()
    first.close()
    assert list(Reader(root)) == [1, 2]
    assert len(Reader(tmp_path / "other")) == 0
    with pytest.raises(FileNotFoundError):
        apt.ShardWriter(tmp_path / "nowhere" / "set", 1, 1)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"shard_size": -1}, ValueError),
        ({"shard_size": 1.5}, TypeError),
        ({"block_size": 0}, ValueError),
        ({"strategy": 4}, ValueError),
        ({"level": 23}, ValueError),
        ({"tensors": "array"}, ValueError),
        ({"dictionary": 1.5}, ValueError),
        ({"num_threads": 0}, ValueError),
    ],
)
def test_options(tmp_path: Path, wrong: dict[str, Any], error: type[Exception]) -> None:
    options: dict[str, Any] = {"shard_size": 10, "block_size": 2} | wrong
    make: Callable[..., Any] = apt.ShardWriter
    with pytest.raises(error, match=f"{next(iter(wrong))}: expected"):
        make(tmp_path / "set", **options)
    assert list(tmp_path.iterdir()) == []


FORK = """
import os, signal, sys
import atompack_torch as apt

root = sys.argv[1]
writer = apt.ShardWriter(root, 10, 2)
for i in range(5):
    writer.write(i)
child = os.fork()
if child == 0:
    signal.alarm(20)
    refused = 0
    for use in (lambda: writer.write(5), writer.close):
        try:
            use()
        except apt.WriterLockedError as error:
            refused += "fork" in str(error)
    os._exit(0 if refused == 2 else 3)
status = os.waitpid(child, 0)[1]
assert status == 0, status
writer.write(5)
writer.close()
print([int(i) for i in apt.ShardDataset(root)])
"""


def test_a_fork_cannot_write(scripts: ScriptServer, tmp_path: Path) -> None:
    done = scripts.run(FORK, tmp_path / "set")
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 1, 2, 3, 4, 5]"), done.stderr


def shard_bytes(root: Path, **options: Any) -> dict[str, bytes]:
    """Content of the files of a small dataset."""
    with apt.ShardWriter(root, 10, 2, **options) as writer:
        for i in range(40):
            writer.write({"x": np.full(30, i)})
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_codec_is_another_name_of_strategies(tmp_path: Path) -> None:
    plain = shard_bytes(tmp_path / "0", strategy=0)
    default = shard_bytes(tmp_path / "2")
    assert plain != default
    assert shard_bytes(tmp_path / "none", codec="none") == plain
    assert shard_bytes(tmp_path / "none 0", codec="none", strategy=0) == plain
    assert shard_bytes(tmp_path / "zstd", codec="zstd") == default
    for codec, strategy, expected in (
        ("zstd", 0, "none"),
        ("none", 1, "zstd"),
        ("none", 3, "zstd"),
    ):
        message = f"^codec: expected {expected} for strategy {strategy}, got '{codec}'$"
        with pytest.raises(ValueError, match=message):
            shard_bytes(tmp_path / "wrong", codec=codec, strategy=strategy)
    assert not (tmp_path / "wrong").exists()
