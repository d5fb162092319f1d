"""What messages of wrong uses name: the option, the way out. Where no other test checks a message.

The commands behind each name raise; the words have to be in the message, whatever stands around
them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.fixture_files import INNER as FIXTURES

import atompack_torch as apt

ATP = FIXTURES / "labels.atp"
CACHE = FIXTURES / "cache" / "water.h5"
STORE = FIXTURES / "atlas" / "tiny_json"
SHARDS = FIXTURES / "atlas_shards" / "data" / "s1_atoms"
ARRAY = STORE / "t" / "data.af"

Row = tuple[Callable[[], Any], type[Exception], tuple[str, ...]]


def _of_datasets(folder: Path) -> list[Row]:
    opened: Any = apt.AtpDataset
    shards: Any = apt.ShardDataset
    columns: Any = apt.AtlasDataset
    cache: Any = apt.TorchCache(CACHE)
    water, labels = apt.AtpDataset(FIXTURES / "cache" / "water.atp"), apt.AtpDataset(ATP)
    mixed: Any = apt.MixtureDataset
    descriptor: Any = apt.ChebyshevDescriptor
    names = ("'absent'", "'energy', 'forces'")
    return [
        (lambda: opened(ATP, fields=["enrgy"]), apt.FieldError, (str(ATP), "'enrgy'", "'energy'")),
        (lambda: opened(ATP, fields=["positions", "absent"]), apt.FieldError, names),
        (lambda: opened(ATP, fields="energy"), TypeError, ("fields", "list of names", "'energy'")),
        (lambda: opened(ATP, exclude="energy"), TypeError, ("exclude", "list of names")),
        (lambda: opened(ATP, dtype="float32"), TypeError, ("dtype", "torch dtypes", "'float32'")),
        (lambda: opened(ATP, dtype={"absent": torch.float32})[:], apt.FieldError, names),
        (
            lambda: opened(ATP, access="fast"),
            ValueError,
            ("access", "auto, populate", "'fast'"),
        ),
        (lambda: opened(ATP, features=3), TypeError, ("features", "ChebyshevDescriptor")),
        (lambda: opened(ATP, features=cache)[:], apt.FieldError, (str(ATP), "cache", "molecule 1")),
        (
            lambda: opened(ATP, batch_size=3),
            TypeError,
            ("batch_size: unknown option: expected one of fields",),
        ),
        (lambda: apt.AtpDataset(ATP).batch(3), TypeError, ("got only 3: give a list, [3]",)),
        (lambda: apt.AtpDataset(ATP).subset(3), TypeError, ("got only 3: give a list, [3]",)),
        (lambda: opened(STORE), OSError, ("folder of .atp files", "AtlasStore opens it")),
        (lambda: opened(SHARDS), OSError, ("ShardDataset opens it", "atompack-torch convert")),
        (lambda: opened(FIXTURES / "pickle"), FileNotFoundError, ("no .atp file", "convert")),
        (lambda: apt.TorchCacheDataset(ATP), NotImplementedError, ("HDF5", "AtpDataset opens it")),
        (lambda: cache.batch([0], fields=["absent"]), apt.FieldError, names),
        (lambda: cache.load_features(99), IndexError, (str(CACHE), "entry 99", "4")),
        (lambda: shards(ATP), OSError, ("folder of Atlas shards", "AtpDataset opens it")),
        (lambda: shards(STORE), OSError, ("folder of Atlas shards", "AtlasStore opens it")),
        (lambda: shards(SHARDS, layout="flat"), ValueError, ("layout", "list, jagged", "'flat'")),
        (lambda: shards(SHARDS, levels={"x": "bond"}), ValueError, ("levels", "'x'", "'bond'")),
        (lambda: shards(SHARDS, cache_blocks=-1), ValueError, ("cache_blocks", "at least 0", "-1")),
        (lambda: columns(STORE, ["t"]).subset([4]), IndexError, ("dataset 4", "of 1")),
        (lambda: mixed([labels, water], weights=[1.0]), ValueError, ("weights", "2", "got 1")),
        (lambda: descriptor(["C"], 1, 4.0, 2, 3.0).compute(water[:1]), apt.FieldError, ("C", "8")),
        (lambda: descriptor(["H"], 1, 4.0, 2, 3.0).compute(1), TypeError, ("compute", "int")),
        (lambda: getattr(apt, "Absent"), AttributeError, ("'atompack_torch'", "'Absent'")),  # noqa: B009
    ]


def _of_batches(folder: Path) -> list[Row]:
    batch: Any = apt.AtpDataset(ATP)[:2]
    molecule: Any = batch[0]
    made: Any = apt.Molecule
    one = (torch.zeros(1, 3), torch.ones(1).long())
    meant = ("'enrgy'", "did you mean 'energy'?")
    return [
        (lambda: batch["enrgy"], apt.FieldError, (*meant, "this batch")),
        (lambda: batch.enrgy, AttributeError, (*meant, "this batch")),
        (lambda: molecule["enrgy"], apt.FieldError, (*meant, "this molecule")),
        (lambda: molecule.enrgy, AttributeError, (*meant, "this molecule")),
        (lambda: batch.mask("absent"), apt.FieldError, ("'absent'", "it has 'positions'")),
        (lambda: batch.level("absent"), apt.FieldError, ("'absent'", "it has 'positions'")),
        (lambda: batch[1.0], TypeError, ("the name of a field or the number", "1.0")),
        (lambda: molecule[0], TypeError, ("names of fields", "collate")),
        (lambda: batch.to_dict("dgl"), ValueError, ("preset", "pyg, fairchem", "'dgl'")),
        (lambda: made(torch.zeros(2), torch.ones(2)), apt.FieldError, ("positions", "(n, 3)")),
        (lambda: made(one[0], torch.ones(2).long()), apt.FieldError, ("atomic_numbers", "(1,)")),
        (lambda: made(*one, spin=1), TypeError, ("'spin'", "properties=")),
        (lambda: made(*one, forces=torch.zeros(2, 3)), apt.FieldError, ("forces", "(1, 3)")),
        (lambda: apt.MoleculeBatch.from_molecules([]), ValueError, ("at least one molecule",)),
    ]


def _of_stores(folder: Path) -> list[Row]:
    opened: Any = apt.AtlasStore
    store, file = opened(STORE), apt.ArrayFile(ARRAY)
    return [
        (lambda: opened(ATP), OSError, ("ATLAS store", "AtpDataset opens it")),
        (lambda: opened(SHARDS), OSError, ("ATLAS store", "ShardDataset opens it")),
        (lambda: opened(STORE, metadata="yaml"), ValueError, ("metadata", "msgpack", "'yaml'")),
        (lambda: opened(STORE, block_bytes=0), ValueError, ("block_bytes", "at least 1")),
        (lambda: opened(STORE, max_metadata_bytes=-1), ValueError, ("max_metadata_bytes", "-1")),
        (
            lambda: opened(STORE, max_metadata_bytes=1),
            apt.CorruptFileError,
            ("atlas.json", "max_metadata_bytes=1"),
        ),
        (lambda: store.attrs("absent"), apt.FieldError, (str(STORE), "dataset 'absent'")),
        (lambda: store.read("absent", "t"), apt.FieldError, (str(STORE), "dataset 'absent'")),
        (lambda: store.read("jan", "absent"), apt.FieldError, ("array 'absent'",)),
        (lambda: store.read("jan", "t", start=[0]), apt.FieldError, ("axes", "2", "'jan'")),
        (lambda: apt.ArrayFile(ATP), NotImplementedError, ("array file", "AtpDataset opens it")),
        (lambda: file.read("absent"), apt.FieldError, (str(ARRAY), "'absent'")),
        (lambda: file.read("jan", start=[0]), apt.FieldError, ("axes", "expected 2, got 1")),
        (lambda: file.write("jan", np.zeros((2, 3))), ValueError, ('"a" or "x"', 'got "r"')),
    ]


def _of_samplers(folder: Path) -> list[Row]:
    budget: Any = apt.AtomBudgetBatchSampler
    blocks: Any = apt.BlockShuffleSampler
    dealt: Any = apt.DistributedMoleculeSampler
    loader: Any = apt.Loader
    dataset, sizes = apt.AtpDataset(ATP), [3, 5, 2]
    batches, items = budget(dataset, 100), dealt(dataset)
    other = dealt(4).state_dict()
    return [
        (lambda: budget(sizes, "4k"), TypeError, ("max_atoms", "number", "'4k'")),
        (lambda: budget(sizes, 4, oversized="error"), ValueError, ("budget of 4", "molecule 1")),
        (lambda: budget(sizes, 4, oversized="split"), ValueError, ("oversized", "alone")),
        (lambda: budget([1, -1], 9), ValueError, ("n_atoms", "at least 0")),
        (lambda: budget(3, 9, costs=[1, 2]), ValueError, ("costs", "3 molecules", "got 2")),
        (lambda: budget(sizes, 9, num_replicas=2, rank=2), ValueError, ("rank", "got 2")),
        (lambda: budget(sizes, 9).load_state_dict({}), ValueError, ("state", "version")),
        (lambda: budget(sizes, 9).load_state_dict(other), ValueError, ("state", "entry 'offset'")),
        (lambda: dealt(3).state_dict(consumed=-1), ValueError, ("consumed", "-1")),
        (lambda: dealt(3).load_state_dict(other), ValueError, ("state", "3 molecules, got 4")),
        (lambda: blocks(3, block=1, window=4, lanes=3), ValueError, ("lanes", "divides 4")),
        (lambda: loader(dataset, num_threads=0), ValueError, ("num_threads", "at least 1", "0")),
        (lambda: loader(dataset, prefetch=0), ValueError, ("prefetch", "at least 1", "0")),
        (lambda: loader(dataset, 2, batch_sampler=batches), ValueError, ("excludes batch_size",)),
        (lambda: loader(dataset, sampler=items, shuffle=True), ValueError, ("excludes shuffle",)),
        (lambda: loader(dataset, shuffle=True, seed=1.5), TypeError, ("seed", "1.5")),
        (lambda: dealt(3).set_epoch(1.5), TypeError, ("epoch", "int", "1.5")),
        (lambda: loader(dataset).absent, AttributeError, ("'Loader'", "'absent'")),
    ]


def _of_molecule_writers(folder: Path) -> list[Row]:
    zeros, numbers = np.zeros((1, 2, 3), np.float32), np.ones((1, 2), np.uint8)
    shards: Any = apt.ShardWriter

    def arrays(**values: Any) -> None:
        given = {"positions": zeros, "atomic_numbers": numbers, **values}
        with apt.AtpWriter(folder / "arrays.atp", mode="w") as writer:
            writer.write_arrays(**given)

    def shard(example: Any) -> None:
        with shards(folder / "shard", 2, 1) as writer:
            writer.write(example)

    atoms, of_atoms = {"x": np.zeros((1, 3))}, np.zeros((1, 2, 2))
    return [
        (lambda: apt.AtpWriter(folder / "absent" / "a.atp"), OSError, ("absent/a.atp",)),
        (lambda: arrays(n_atoms=[1, 2]), apt.FieldError, ("(3, 3)", "(1, 2, 3)", "'positions'")),
        (lambda: arrays(spin=[1]), TypeError, ("'spin'", "properties=")),
        (lambda: arrays(energy=[1.0, 2.0]), apt.FieldError, ("1 rows", "(2,)", "'energy'")),
        (lambda: arrays(forces=of_atoms), apt.FieldError, ("float64", "(2,)", "'forces'")),
        (lambda: arrays(cell=np.zeros((1, 3))), apt.FieldError, ("float64", "(3,)", "'cell'")),
        (lambda: arrays(properties={"x": [1, 2, 3]}), apt.FieldError, ("1 rows", "(3,)", "'x'")),
        (lambda: arrays(properties={"x": [object()]}), apt.FieldError, ("object", "'x'")),
        (lambda: arrays(atom_properties=atoms), apt.FieldError, ("x", "(1, 2, ...)", "(1, 3)")),
        (lambda: shards(folder / "s", -1, 1), ValueError, ("shard_size", "at least 0", "-1")),
        (lambda: shards(folder / "s", 1, 0), ValueError, ("block_size", "at least 1", "0")),
        (lambda: shards(folder / "s", 1.0, 1), TypeError, ("shard_size", "int", "1.0")),
        (lambda: shards(folder / "s", 1, 1, 9), ValueError, ("strategy", "0, 1, 2, 3", "9")),
        (lambda: shards(folder / "s", 1, 1, tensors="arrow"), ValueError, ("tensors", "'arrow'")),
        (lambda: shards(folder / "s", 1, 1, dictionary=2.0), ValueError, ("dictionary", "2.0")),
        (lambda: shard({"x": [1, object]}), TypeError, ("example['x'][1]", "type")),
    ]


def _of_store_writers(folder: Path) -> list[Row]:
    store: Any = apt.AtlasStore(folder / "store", "x")
    store.create_dataset("a")
    store.define_array("a", "t", "float32", (3,))
    store.flush()
    file: Any = apt.ArrayFile(folder / "f.af", "x")
    file.define("t", "int32", (2, 2))
    file.flush()
    path, define, write = str(folder / "store"), store.define_array, store.write
    row = np.zeros((1, 3), np.float32)
    return [
        (lambda: store.create_dataset("a"), apt.FieldError, (path, "new name", "'a'")),
        (lambda: store.create_dataset(""), apt.FieldError, (path, "dataset name", "non-empty")),
        (lambda: store.create_dataset(5), TypeError, ("dataset", "string", "int")),
        (lambda: define("a", "t", "float32", (3,)), apt.FieldError, ("new name", "'a/t'")),
        (lambda: define("a", "../u", "int8", (3,)), apt.FieldError, ("array name", "'/'")),
        (lambda: define("absent", "u", "int8", (3,)), apt.FieldError, (path, "'absent'")),
        (
            lambda: define("a", "u", "int8", (3,), chunk_shape=(0,)),
            apt.FieldError,
            ("chunk shape of axis 0", "got 0", "'a/u'"),
        ),
        (
            lambda: define("a", "u", "int8", (3,), chunk_shape=(1, 1)),
            apt.FieldError,
            ("chunk shape", "expected 1 axes, got 2"),
        ),
        (
            lambda: define("a", "u", "int8", (3,), fill_value=1000),
            apt.FieldError,
            ("int8", "1000", "int64"),
        ),
        (lambda: write("a", "t", np.zeros(4, np.float32)), apt.FieldError, ("axis 0", "count 4")),
        (lambda: write("a", "t", row), apt.FieldError, ("axes", "expected 1", "'a'")),
        (lambda: write("a", "absent", row), apt.FieldError, (path, "'a/absent'")),
        (lambda: store.set_attr("a", "k", object()), TypeError, ("attribute", "object")),
        (lambda: store.set_attr("a", "k", 2**70), apt.FieldError, ("64 bits", str(2**70))),
        (lambda: store.delete_array("a", "absent"), apt.FieldError, (path, "'a/absent'")),
        (lambda: store.delete_dataset("absent"), apt.FieldError, (path, "'absent'")),
        (lambda: apt.AtlasStore(path, "a"), apt.WriterLockedError, (path, "another writer")),
        (lambda: file.define("t", "int32", (2, 2)), apt.FieldError, ("new name", "'t'")),
        (lambda: file.write("t", np.zeros((3, 2), np.int32)), apt.FieldError, ("axis 0", "'t'")),
        (lambda: file.delete("absent"), apt.FieldError, ("f.af", "'absent'")),
    ]


@pytest.mark.parametrize(
    "rows",
    [
        _of_datasets,
        _of_batches,
        _of_stores,
        _of_samplers,
        _of_molecule_writers,
        _of_store_writers,
    ],
)
def test_messages(rows: Callable[[Path], list[Row]], tmp_path: Path) -> None:
    for number, (call, kind, words) in enumerate(rows(tmp_path)):
        with pytest.raises(kind) as caught:
            call()
        lacking = [word for word in words if word not in str(caught.value)]
        assert not lacking, f"row {number}: {caught.value}"
