"""Typical wrong uses, each a call that raises; their messages are part of what users see."""

from __future__ import annotations

import contextlib
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from golden.description import FIXTURES

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.conversion import convert

ATP = FIXTURES / "labels.atp"
CACHE = FIXTURES / "cache" / "water.h5"
MOLECULES = FIXTURES / "cache" / "water.atp"
STORE = FIXTURES / "atlas" / "tiny_json"
SHARDS = FIXTURES / "atlas_shards" / "data" / "s1_atoms"
ARRAY = STORE / "t" / "data.af"

Mistakes = dict[str, Callable[[], Any]]


def mistakes(folder: Path) -> Mistakes:
    """Every wrong use by its name.

    Args:
        folder: an empty one, where writers may write.
    """
    return {
        **_of_molecules(),
        **_of_batches(),
        **_of_stores(),
        **_of_shards_and_mixtures(),
        **_of_samplers(),
        **_of_loaders(),
        **_of_writers(folder),
        **_of_store_writers(folder),
        **_of_passes(folder),
        **_of_conversion(folder),
        **_of_commands(folder),
    }


def _of_molecules() -> Mistakes:
    dataset: Any = apt.AtpDataset(ATP)
    opened: Any = apt.AtpDataset
    cache: Any = apt.TorchCache(CACHE)
    cached: Any = apt.TorchCacheDataset
    return {
        "dataset[1000]": lambda: dataset[1000],
        "dataset[-1000]": lambda: dataset[-1000],
        "dataset[2**70]": lambda: dataset[2**70],
        "dataset[1.0]": lambda: dataset[1.0],
        "dataset['1']": lambda: dataset["1"],
        "dataset[True]": lambda: dataset[True],
        "dataset[None]": lambda: dataset[None],
        "dataset.batch([1000])": lambda: dataset.batch([1000]),
        "dataset.batch floats": lambda: dataset.batch(np.array([1.0])),
        "dataset.batch strings": lambda: dataset.batch(["a"]),
        "dataset.batch 2-D": lambda: dataset.batch(np.zeros((1, 2), int)),
        "dataset.batch short mask": lambda: dataset.batch([True]),
        "dataset.batch(None)": lambda: dataset.batch(None),
        "dataset.subset([1000])": lambda: dataset.subset([1000]),
        "dataset.split([0.5])": lambda: dataset.split([0.5], seed=0),
        "dataset.split([])": lambda: dataset.split([], seed=0),
        "dataset.set_epoch(-1)": lambda: dataset.set_epoch(-1),
        "statistics cutoff": lambda: dataset.statistics(cutoff=-1.0),
        "no such file": lambda: opened(FIXTURES / "absent.atp"),
        "no files": lambda: opened([]),
        "folder without files": lambda: opened(FIXTURES / "pickle"),
        "path of a number": lambda: opened(5),
        "path with NUL": lambda: opened("a\0b"),
        "cache as molecules": lambda: opened(CACHE),
        "store as molecules": lambda: opened(STORE),
        "shards as molecules": lambda: opened(SHARDS),
        "fields of a typo": lambda: opened(ATP, fields=["enrgy"]),
        "fields absent": lambda: opened(ATP, fields=["energy", "absent"]),
        "fields as a string": lambda: opened(ATP, fields="energy"),
        "fields of numbers": lambda: opened(ATP, fields=[1]),
        "fields of structure": lambda: opened(ATP, fields=["positions", "absent"]),
        "exclude as a string": lambda: opened(ATP, exclude="energy"),
        "dtype as a string": lambda: opened(ATP, dtype="float32"),
        "dtype of integers": lambda: opened(ATP, dtype=torch.int32),
        "dtype by absent name": lambda: opened(ATP, dtype={"absent": torch.float32})[:],
        "missing": lambda: opened(ATP, missing="zero"),
        "neighbors": lambda: opened(ATP, neighbors=3.0),
        "cutoff of zero": lambda: apt.NeighborList(0.0),
        "cutoff as a string": lambda: apt.NeighborList("3"),  # type: ignore[arg-type]
        "transform": lambda: opened(ATP, transform="half"),
        "access": lambda: opened(ATP, access="fast"),
        "num_threads=0": lambda: opened(ATP, num_threads=0),
        "num_threads='2'": lambda: opened(ATP, num_threads="2"),
        "cache as a path": lambda: opened(ATP, cache=str(CACHE)),
        "cache of other molecules": lambda: opened(ATP, cache=cache)[:],
        "descriptor": lambda: opened(ATP, descriptor="chebyshev"),
        "cache_features": lambda: opened(ATP, cache_features="some"),
        "cache_features alone": lambda: opened(ATP, cache_features="all"),
        "cache_bytes": lambda: opened(ATP, cache_bytes=-1),
        "force_fraction": lambda: opened(ATP, force_fraction=1.5),
        "features without cache": lambda: opened(ATP, fields=["features"]),
        "unknown option": lambda: opened(ATP, batch_size=3),
        "no such cache": lambda: cached(FIXTURES / "absent.h5"),
        "molecules as a cache": lambda: cached(ATP),
        "cache.load_features(99)": lambda: cache.load_features(99),
        "cache.batch absent field": lambda: cache.batch([0], fields=["absent"]),
        "cached dataset[99]": lambda: cached(CACHE)[99],
        "aenet_split(2)": lambda: cached(CACHE).aenet_split(2, 0),
        "descriptor order": lambda: apt.ChebyshevDescriptor(["H"], -1, 4.0, 2, 3.0),
        "descriptor species": lambda: apt.ChebyshevDescriptor([], 1, 4.0, 2, 3.0),
        "descriptor string": lambda: apt.ChebyshevDescriptor("H", 1, 4.0, 2, 3.0),
    }


def _of_batches() -> Mistakes:
    batch: Any = apt.AtpDataset(ATP)[:2]
    molecule: Any = batch[0]
    water: Any = apt.AtpDataset(MOLECULES)[:1]
    return {
        "batch['enrgy']": lambda: batch["enrgy"],
        "batch.enrgy": lambda: batch.enrgy,
        "batch[9]": lambda: batch[9],
        "batch[1.0]": lambda: batch[1.0],
        "batch.mask absent": lambda: batch.mask("absent"),
        "batch.level absent": lambda: batch.level("absent"),
        "batch.x = list": lambda: setattr(batch, "x", [1.0]),
        "batch.energy of three": lambda: setattr(batch, "energy", torch.zeros(3)),
        "batch.ptr": lambda: setattr(batch, "ptr", torch.zeros(3)),
        "set_field level": lambda: batch.set_field("x", torch.zeros(2), "bond"),
        "set_field edge": lambda: batch.set_field("x", torch.zeros(2), "edge"),
        "set_field of labels": lambda: batch.set_field("energy", torch.zeros(2), "atom"),
        "to_dict preset": lambda: batch.to_dict("dgl"),
        "molecule['enrgy']": lambda: molecule["enrgy"],
        "molecule.enrgy": lambda: molecule.enrgy,
        "molecule[0]": lambda: molecule[0],
        "Molecule shape": lambda: apt.Molecule(torch.zeros(2), torch.ones(2)),
        "Molecule numbers": lambda: apt.Molecule(torch.zeros(1, 3), torch.ones(2).long()),
        "Molecule label": lambda: apt.Molecule(torch.zeros(1, 3), torch.ones(1).long(), spin=1),
        "Molecule forces": lambda: apt.Molecule(
            torch.zeros(1, 3), torch.ones(1).long(), forces=torch.zeros(2, 3)
        ),
        "from_molecules none": lambda: apt.MoleculeBatch.from_molecules([]),
        "from_molecules of strings": lambda: apt.MoleculeBatch.from_molecules(["a"]),  # type: ignore[list-item]
        "collate of numbers": lambda: apt.collate([1, 2]),  # type: ignore[list-item]
        "contract without derivatives": lambda: apt.contract_forces(batch, torch.zeros(2, 1)),
        "contract shapes": lambda: apt.contract_forces(
            apt.TorchCacheDataset(CACHE)[:1], torch.zeros(1, 1)
        ),
        "compute of a number": lambda: apt.ChebyshevDescriptor(["H"], 1, 4.0, 2, 3.0).compute(1),  # type: ignore[arg-type]
        "compute other species": lambda: apt.ChebyshevDescriptor(["C"], 1, 4.0, 2, 3.0).compute(
            water
        ),
    }


def _of_stores() -> Mistakes:
    store: Any = apt.AtlasStore(STORE)
    opened: Any = apt.AtlasDataset
    file: Any = apt.ArrayFile(ARRAY)
    return {
        "no such store": lambda: apt.AtlasStore(FIXTURES / "absent"),
        "molecules as a store": lambda: apt.AtlasStore(ATP),
        "shards as a store": lambda: apt.AtlasStore(SHARDS),
        "store mode": lambda: apt.AtlasStore(STORE, "w"),  # type: ignore[arg-type]
        "store codec": lambda: apt.AtlasStore(STORE, codec="gzip"),  # type: ignore[arg-type]
        "store level": lambda: apt.AtlasStore(STORE, level=99),
        "store metadata": lambda: apt.AtlasStore(STORE, metadata="yaml"),
        "store block_bytes": lambda: apt.AtlasStore(STORE, block_bytes=0),
        "store exists": lambda: apt.AtlasStore(STORE, "x"),
        "store max_metadata_bytes": lambda: apt.AtlasStore(STORE, max_metadata_bytes=-1),
        "store small limit": lambda: apt.AtlasStore(STORE, max_metadata_bytes=1),
        "attrs absent": lambda: store.attrs("absent"),
        "read absent dataset": lambda: store.read("absent", "t"),
        "read absent array": lambda: store.read("jan", "absent"),
        "read axes": lambda: store.read("jan", "t", start=[0]),
        "read negative": lambda: store.read("jan", "t", start=[-1, 0]),
        "scan layout": lambda: store.scan("t", layout="flat"),
        "scan number": lambda: store.scan("t", [9]),
        "scan names and numbers": lambda: store.scan("t", ["jan", 0]),
        "scan dtype": lambda: store.scan("t", dtype=torch.int16),
        "select strings": lambda: store.select("t", min="a"),
        "select bound": lambda: store.select("t", min=[1]),
        "store writes while reading": lambda: store.create_dataset("x"),
        "AtlasDataset absent": lambda: opened(STORE, ["t", "x"]),
        "AtlasDataset string": lambda: opened(STORE, "t"),
        "AtlasDataset twice": lambda: opened(STORE, ["t", "t"]),
        "AtlasDataset name": lambda: opened(STORE, ["name"]),
        "AtlasDataset layout": lambda: opened(STORE, ["t"], layout="flat"),
        "AtlasDataset dtype": lambda: opened(STORE, ["t"], dtype=torch.int16).batch([0]),
        "AtlasDataset[9]": lambda: opened(STORE, ["t"])[9],
        "AtlasDataset floats": lambda: opened(STORE, ["t"]).batch(np.array([1.0])),
        "AtlasDataset subset": lambda: opened(STORE, ["t"]).subset([4]),
        "AtlasDataset transform": lambda: opened(STORE, ["t"], transform=3).batch([0]),
        "no such array file": lambda: apt.ArrayFile(FIXTURES / "absent.af"),
        "molecules as an array file": lambda: apt.ArrayFile(ATP),
        "array file mode": lambda: apt.ArrayFile(ARRAY, "w"),  # type: ignore[arg-type]
        "array file exists": lambda: apt.ArrayFile(ARRAY, "x"),
        "array file absent": lambda: file.read("absent"),
        "array file axes": lambda: file.read("jan", start=[0]),
        "array file writes while reading": lambda: file.write("jan", np.zeros((2, 3))),
    }


def _of_shards_and_mixtures() -> Mistakes:
    opened: Any = apt.ShardDataset
    mixed: Any = apt.MixtureDataset
    labels, water = apt.AtpDataset(ATP), apt.AtpDataset(MOLECULES)
    return {
        "no such shards": lambda: opened(FIXTURES / "absent"),
        "molecules as shards": lambda: opened(ATP),
        "store as shards": lambda: opened(STORE),
        "shards layout": lambda: opened(SHARDS, layout="flat"),
        "shards levels": lambda: opened(SHARDS, levels={"x": "bond"}),
        "shards cache_blocks": lambda: opened(SHARDS, cache_blocks=-1),
        "shards num_threads": lambda: opened(SHARDS, num_threads=0),
        "shards[9999]": lambda: opened(SHARDS)[9999],
        "shards['a']": lambda: opened(SHARDS)["a"],
        "shards.batch([9999])": lambda: opened(SHARDS).batch([9999]),
        "shards.batch floats": lambda: opened(SHARDS).batch([0.5]),
        "mixture of none": lambda: mixed([]),
        "mixture of a list": lambda: mixed([[1], [2]]),
        "mixture of kinds": lambda: mixed([labels, apt.TorchCacheDataset(CACHE)]),
        "mixture of mixtures": lambda: mixed([mixed([labels])]),
        "mixture weights": lambda: mixed([labels, water], weights=[1.0]),
        "mixture zero": lambda: mixed([labels, water], weights=[1.0, 0.0]),
        "mixture epoch": lambda: mixed([labels, water], epoch="long"),
        "mixture dtype": lambda: mixed([labels, apt.AtpDataset(ATP, dtype=torch.float32)]),
        "mixture[999]": lambda: mixed([labels, water])[999],
        "mixture set_epoch": lambda: mixed([labels, water]).set_epoch(-1),
        "mixture subset set_epoch": lambda: mixed([labels, water]).subset([0]).set_epoch(1),
    }


def _of_samplers() -> Mistakes:
    budget: Any = apt.AtomBudgetBatchSampler
    blocks: Any = apt.BlockShuffleSampler
    dealt: Any = apt.DistributedMoleculeSampler
    sizes = [3, 5, 2]
    return {
        "budget of zero": lambda: budget(sizes, 0),
        "budget of a string": lambda: budget(sizes, "4k"),
        "budget exceeded": lambda: budget(sizes, 4, oversized="error"),
        "budget oversized": lambda: budget(sizes, 4, oversized="split"),
        "budget max_molecules": lambda: budget(sizes, 9, max_molecules=0),
        "budget of a number": lambda: budget(3, 9),
        "budget of text": lambda: budget("abc", 9),
        "budget negative": lambda: budget([1, -1], 9),
        "budget costs": lambda: budget(3, 9, costs=[1, 2]),
        "budget rank": lambda: budget(sizes, 9, num_replicas=2, rank=2),
        "budget rank alone": lambda: list(budget(sizes, 9, rank=1)),
        "budget few molecules": lambda: list(budget([1], 9, num_replicas=2, rank=0)),
        "budget state": lambda: budget(sizes, 9).load_state_dict({}),
        "budget state of another": lambda: budget(sizes, 9).load_state_dict(dealt(3).state_dict()),
        "budget seed": lambda: budget(sizes, 9, seed="a"),
        "pad and drop_last": lambda: dealt(3, pad=True, drop_last=True),
        "dealt floats": lambda: dealt(3.5),
        "dealt negative": lambda: dealt(-1),
        "dealt replicas": lambda: dealt(3, num_replicas=0, rank=0),
        "dealt consumed": lambda: dealt(3).state_dict(consumed=-1),
        "dealt state of other length": lambda: dealt(3).load_state_dict(dealt(4).state_dict()),
        "blocks without sizes": lambda: blocks(3, window=1),
        "blocks window": lambda: blocks(3, block=1, window=0),
        "blocks lanes": lambda: blocks(3, block=1, window=4, lanes=3),
        "blocks workers": lambda: blocks(3, block=1, window=4, workers=3),
        "blocks workers without batch": lambda: blocks(3, block=1, window=4, workers=2),
        "blocks of floats": lambda: blocks([1.5], window=1),
    }


def _of_loaders() -> Mistakes:
    loader: Any = apt.Loader
    dataset = apt.AtpDataset(ATP)
    budget = apt.AtomBudgetBatchSampler(dataset, 100)
    dealt = apt.DistributedMoleculeSampler(dataset)
    return {
        "Loader of a list": lambda: loader([1, 2]),
        "Loader batch_size=0": lambda: loader(dataset, 0),
        "Loader batch_size='2'": lambda: loader(dataset, "2"),
        "Loader num_workers": lambda: loader(dataset, num_workers=2),
        "Loader collate_fn": lambda: loader(dataset, collate_fn=list),
        "Loader typo": lambda: loader(dataset, shufle=True),
        "Loader num_threads=0": lambda: loader(dataset, num_threads=0),
        "Loader prefetch=0": lambda: loader(dataset, prefetch=0),
        "Loader two samplers": lambda: loader(dataset, batch_size=2, batch_sampler=budget),
        "Loader sampler and shuffle": lambda: loader(dataset, sampler=dealt, shuffle=True),
        "Loader sampler of batches": lambda: next(iter(loader(dataset, sampler=budget))),
        "Loader batches of items": lambda: loader(dataset, batch_sampler=dealt),
        "Loader sampler of a number": lambda: loader(dataset, sampler=3),
        "Loader out of range": lambda: [*loader(dataset, sampler=[999])],
        "Loader seed": lambda: loader(dataset, shuffle=True, seed=1.5),
        "Loader state": lambda: loader(dataset).load_state_dict({"seed": 7}),
        "Loader num_workers attribute": lambda: loader(dataset).num_workers,
        "Loader attribute": lambda: loader(dataset).absent,
    }


def _of_writers(folder: Path) -> Mistakes:
    zeros, numbers = np.zeros((1, 2, 3), np.float32), np.ones((1, 2), np.uint8)
    taken = folder / "taken.atp"
    with apt.AtpWriter(taken) as first:
        first.write_arrays(positions=zeros, atomic_numbers=numbers, energy=[1.0])
    closed = apt.AtpWriter(folder / "closed.atp")
    closed.close()
    ended: Any = apt.ShardWriter(folder / "ended", 2, 1)
    ended.close()

    def write(item: Any) -> None:
        with apt.AtpWriter(folder / "item.atp", mode="w") as writer:
            writer.write(item)

    def arrays(**values: Any) -> None:
        given = {"positions": zeros, "atomic_numbers": numbers, **values}
        with apt.AtpWriter(folder / "arrays.atp", mode="w") as writer:
            writer.write_arrays(**given)

    def append(**values: Any) -> None:
        with apt.AtpWriter(taken, mode="a") as writer:
            writer.write_arrays(positions=zeros, atomic_numbers=numbers, **values)

    def locked() -> None:
        with apt.AtpWriter(taken, mode="a"):
            apt.AtpWriter(taken, mode="a")

    def shard(example: Any) -> None:
        writer = apt.ShardWriter(folder / "shard", 2, 1)
        try:
            writer.write(example)
        finally:
            writer.discard()

    writer: Any = apt.AtpWriter
    shards: Any = apt.ShardWriter
    return {
        "writer exists": lambda: writer(taken),
        "writer mode": lambda: writer(taken, mode="r"),
        "writer codec": lambda: writer(taken, codec="gzip"),
        "writer level of zstd": lambda: writer(folder / "l.atp", codec="zstd", level=99),
        "writer level of lz4": lambda: writer(folder / "l.atp", codec="lz4", level=99),
        "writer level": lambda: writer(folder / "l.atp", level="3"),
        "writer other codec": lambda: writer(taken, codec="zstd", mode="a"),
        "writer folder": lambda: writer(folder / "absent" / "a.atp"),
        "writer locked": locked,
        "writer closed": lambda: closed.write([]),
        "writer of a string": lambda: write("a"),
        "writer of numbers": lambda: write([1]),
        "arrays without atoms": lambda: arrays(atomic_numbers=np.ones((2, 3))),
        "arrays numbers": lambda: arrays(atomic_numbers=np.full((1, 2), 300)),
        "arrays positions": lambda: arrays(positions=np.zeros((2, 2))),
        "arrays n_atoms": lambda: arrays(n_atoms=[1, 2]),
        "arrays label": lambda: arrays(spin=[1]),
        "arrays energy": lambda: arrays(energy=[1.0, 2.0]),
        "arrays forces": lambda: arrays(forces=np.zeros((1, 2, 2))),
        "arrays cell": lambda: arrays(cell=np.zeros((1, 3))),
        "arrays name": lambda: arrays(name=[1]),
        "arrays property": lambda: arrays(properties={"x": [1, 2, 3]}),
        "arrays property object": lambda: arrays(properties={"x": [object()]}),
        "arrays property label": lambda: arrays(properties={1: [1.0]}),
        "arrays atom property": lambda: arrays(atom_properties={"x": np.zeros((1, 3))}),
        "append float64": lambda: append(forces=np.zeros((1, 2, 3), complex)),
        "shards exist": lambda: shards(folder / "ended", 2, 1),
        "shards shard_size": lambda: shards(folder / "s", -1, 1),
        "shards block_size": lambda: shards(folder / "s", 1, 0),
        "shards sizes as floats": lambda: shards(folder / "s", 1.0, 1),
        "shards strategy": lambda: shards(folder / "s", 1, 1, 9),
        "shards level": lambda: shards(folder / "s", 1, 1, 1, 99),
        "shards tensors": lambda: shards(folder / "s", 1, 1, tensors="arrow"),
        "shards dictionary": lambda: shards(folder / "s", 1, 1, dictionary=2.0),
        "shards of an object": lambda: shard({"x": [1, object]}),
        "shards of a set": lambda: shard({1, 2}),
        "shards closed": lambda: ended.write(1),
    }


def _of_store_writers(folder: Path) -> Mistakes:
    store: Any = apt.AtlasStore(folder / "store", "x")
    store.create_dataset("a")
    store.define_array("a", "t", "float32", (3,))
    store.define_array("a", "s", "string", (2,))
    store.flush()
    file: Any = apt.ArrayFile(folder / "f.af", "x")
    file.define("t", "int32", (2, 2))
    file.flush()
    return {
        "create_dataset twice": lambda: store.create_dataset("a"),
        "create_dataset empty": lambda: store.create_dataset(""),
        "create_dataset slash": lambda: store.create_dataset(5),
        "define_array twice": lambda: store.define_array("a", "t", "float32", (3,)),
        "define_array dtype": lambda: store.define_array("a", "u", "complex64", (3,)),
        "define_array shape": lambda: store.define_array("a", "u", "float32", (-3,)),
        "define_array chunks": lambda: store.define_array("a", "u", "int8", (3,), chunk_shape=(0,)),
        "define_array chunk axes": lambda: store.define_array(
            "a", "u", "int8", (3,), chunk_shape=(1, 1)
        ),
        "define_array fill": lambda: store.define_array("a", "u", "int8", (3,), fill_value=1000),
        "define_array path": lambda: store.define_array("a", "../u", "int8", (3,)),
        "define_array absent": lambda: store.define_array("absent", "u", "int8", (3,)),
        "write shape": lambda: store.write("a", "t", np.zeros(4, np.float32)),
        "write dtype": lambda: store.write("a", "t", np.array(["x", "y", "z"])),
        "write axes": lambda: store.write("a", "t", np.zeros((1, 3), np.float32)),
        "write start": lambda: store.write("a", "t", np.zeros(2, np.float32), start=[2]),
        "write strings": lambda: store.write("a", "s", [1, 2]),
        "write absent": lambda: store.write("a", "absent", np.zeros(3)),
        "set_attr object": lambda: store.set_attr("a", "k", object()),
        "set_attr large": lambda: store.set_attr("a", "k", 2**70),
        "delete_array absent": lambda: store.delete_array("a", "absent"),
        "delete_dataset absent": lambda: store.delete_dataset("absent"),
        "pickle of a writer": lambda: pickle.dumps(store),
        "second store writer": lambda: apt.AtlasStore(folder / "store", "a"),
        "file define twice": lambda: file.define("t", "int32", (2, 2)),
        "file write shape": lambda: file.write("t", np.zeros((3, 2), np.int32)),
        "file write floats": lambda: file.write("t", np.full((2, 2), 0.5)),
        "file delete absent": lambda: file.delete("absent"),
    }


def _of_passes(folder: Path) -> Mistakes:
    compact: Any = apt.compact
    build: Any = apt.build_cache
    water = apt.AtpDataset(MOLECULES)
    descriptor = apt.ChebyshevDescriptor(["H", "O"], 2, 4.0, 1, 3.0)
    new, absent = folder / "new.h5", "Absent"
    return {
        "verify absent": lambda: apt.verify(FIXTURES / "absent.atp"),
        "verify_cache absent": lambda: apt.verify_cache(FIXTURES / "absent.h5"),
        "compact codec": lambda: compact(ATP, folder / "c.atp", codec="gzip"),
        "compact level": lambda: compact(ATP, folder / "c.atp", codec="lz4", level=99),
        "compact exists": lambda: compact(ATP, MOLECULES),
        "compact order": lambda: compact(ATP, folder / "c.atp", order=[999]),
        "compact order of floats": lambda: compact(ATP, folder / "c.atp", order=[0.5]),
        "compact none": lambda: compact([], folder / "c.atp"),
        "build_cache dtype": lambda: build(water, descriptor, new, dtype="float16"),
        "build_cache exists": lambda: build(water, descriptor, CACHE),
        "build_cache neither": lambda: build(water, descriptor, new, features=False),
        "build_cache unknown species": lambda: build(
            water, apt.ChebyshevDescriptor(["C"], 2, 4.0, 1, 3.0), new, progress=False
        ),
        "hub.open name": lambda: apt.hub.open("a/b", "../c"),
        "hub.open empty name": lambda: apt.hub.open("a/b", "/"),
        "absent name": lambda: getattr(apt, absent),
    }


def _of_conversion(folder: Path) -> Mistakes:
    call: Any = convert
    target = folder / "t.atp"
    structures = folder / "a.xyz"
    structures.write_text("1\nProperties=species:S:1:pos:R:3 energy=1.0\nH 0 0 0\n")
    (folder / "bad.xyz").write_text("2\nProperties=species:S:1:pos:R:3\nH 0 0 0\n")
    (folder / "exists.atp").write_bytes(ATP.read_bytes())

    def converting(source: Path, **options: Any) -> Callable[[], Any]:
        return lambda: call(source, options.pop("to", target), progress=False, **options)

    return {
        "convert absent": converting(folder / "absent.xyz"),
        "convert none": lambda: call([], target),
        "convert cut": converting(folder / "bad.xyz"),
        "convert mode": converting(structures, mode="r"),
        "convert on_error": converting(structures, on_error="ignore"),
        "convert exists": converting(structures, to=folder / "exists.atp"),
        "convert to itself": converting(folder / "exists.atp", to=folder / "exists.atp"),
        "convert target": converting(structures, to=folder / "t.what"),
        "convert target option": converting(structures, target="what"),
        "convert format": converting(structures, format="what"),
        "convert append": converting(structures, to=folder / "t.xyz", mode="a"),
        "convert shards": converting(structures, shards=(1, 1, 1)),
        "convert level": converting(structures, codec="zstd", level=99),
        "convert keys": converting(structures, key_map={"absent": "energy"}),
    }


def _of_commands(folder: Path) -> Mistakes:
    source = str(ATP)

    def command(*words: str) -> Callable[[], Any]:
        return lambda: _fail(list(words))

    target = str(folder / "command.atp")
    return {
        "$ info absent": command("info", str(folder / "absent.atp")),
        "$ info --json absent": command("info", "--json", str(folder / "absent.atp")),
        "$ info of a text": command("info", str(STORE / "atlas.json")),
        "$ verify absent": command("verify", str(folder / "absent.atp")),
        "$ head absent": command("head", str(folder / "absent.atp")),
        "$ stats absent": command("stats", str(folder / "absent.atp")),
        "$ convert absent": command("convert", str(folder / "absent.xyz"), target),
        "$ convert key": command("convert", source, target, "--key", "energy"),
        "$ convert unit": command("convert", source, target, "--energy-unit", "miles"),
        "$ convert level": command("convert", source, target, "--codec", "zstd", "--level", "99"),
        "$ convert exists": command("convert", source, str(folder / "exists.atp")),
        "$ convert from": command("convert", source, target, "--from", "what"),
        "$ convert to": command("convert", source, target, "--to", "what"),
        "$ convert shards": command("convert", source, target, "--shard-size", "3"),
        "$ convert atlas": command("convert", source, target, "--to", "atlas", "--key", "a=b"),
        "$ convert append": command("convert", source, str(folder / "t.db"), "--append"),
    }


class CommandError(Exception):
    """What a command prints on stderr, and its exit status."""


def _fail(words: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status: Any = cli.main(words)
        except SystemExit as end:
            status = end.code
    if status != 0:
        raise CommandError(f"exit status {status}: {err.getvalue().strip()} {out.getvalue()}")
