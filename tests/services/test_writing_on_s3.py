"""Writing to servers that others have written."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from s3_servers import SECRET, Server

import atompack_torch as apt
from atompack_torch.remote.objects import RemoteObjects


def options(server: Server) -> dict[str, Any]:
    made = server.options()
    return {"endpoint_url": made.endpoint_url, "key": made.key, "secret": made.secret}


def new_url(name: str) -> str:
    return f"s3://bucket/{uuid.uuid4().hex}/{name}"


def write(url: str, server: Server, energy: float, mode: Any = "x") -> apt.AtpWriter:
    writer = apt.AtpWriter(url, mode=mode, storage_options=options(server))
    writer.write_arrays(
        positions=np.zeros((1, 2, 3)), atomic_numbers=[[1, 8]], energy=np.array([energy])
    )
    return writer


def energies(url: str, server: Server) -> list[float]:
    with apt.AtpDataset(url, storage_options=options(server)) as dataset:
        found: list[float] = dataset[:]["energy"].tolist()
    return found


def test_conditions_of_moto(moto: Server) -> None:
    """Conditions that the package relies on: moto knows those of PUT, not of DELETE."""
    url = new_url("object")
    objects = RemoteObjects(url, options(moto))
    first = objects.put(url, b"first")
    with pytest.raises(FileExistsError):
        objects.put(url, b"second")
    assert objects.read(url) == (b"first", first)
    second = objects.put(url, b"second", expected=first)
    assert second == objects.state(url)


def test_molecules(server: Server) -> None:
    url = new_url("data.atp")
    write(url, server, 1.0).close()
    assert energies(url, server) == [1.0]
    with pytest.raises(FileExistsError):
        write(url, server, 2.0)
    write(url, server, 2.0, "a").close()
    assert energies(url, server) == [1.0, 2.0]
    write(url, server, 3.0, "w").close()
    assert energies(url, server) == [3.0]


def test_conflicts_of_molecules(server: Server) -> None:
    url = new_url("data.atp")
    first, second = write(url, server, 1.0), write(url, server, 2.0)
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    first, second = write(url, server, 3.0, "a"), write(url, server, 4.0, "a")
    first.close()
    with pytest.raises(OSError, match="another writer") as caught:
        second.close()
    assert caught.value.errno == errno.ESTALE
    assert energies(url, server) == [1.0, 3.0]


def fetched(url: str, server: Server, folder: Path) -> Path:
    """A copy of all objects below a URL."""
    objects = RemoteObjects(url, options(server))
    for name, state in objects.list(url).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        objects.fetch(f"{url}/{name}", path, state, lambda n: None)
    return folder


def test_shards(server: Server, tmp_path: Path) -> None:
    url = new_url("train")
    with apt.ShardWriter(url, 5, 2, storage_options=options(server)) as writer:
        for i in range(12):
            writer.write({"number": i})
    with apt.ShardDataset(fetched(url, server, tmp_path)) as dataset:
        examples: list[Any] = [dataset[i] for i in range(len(dataset))]
        assert [example["number"] for example in examples] == list(range(12))
    with pytest.raises(FileExistsError):
        apt.ShardWriter(url, 5, 2, storage_options=options(server))


def put(store: apt.AtlasStore, dataset: str, value: float) -> None:
    if dataset not in store.datasets:
        store.create_dataset(dataset)
        store.define_array(dataset, "t", "float64", (3,))
    store.write(dataset, "t", np.full(3, value))


def test_stores(server: Server, tmp_path: Path) -> None:
    url = new_url("store.atlas")
    with apt.AtlasStore(url, "x", storage_options=options(server)) as store:
        put(store, "d", 1)
        store.flush()
        put(store, "d", 2)
    with apt.AtlasStore(url, "a", storage_options=options(server)) as store:
        put(store, "e", 3)
        store.flush()
        store.compact()
        put(store, "e", 4)
    with apt.AtlasStore(fetched(url, server, tmp_path)) as store:
        assert store.scan("t").values.tolist() == [[2] * 3, [4] * 3]  # type: ignore[union-attr]
        assert store.stats("t")["e"].max == 4


def test_conflicts_of_stores(server: Server, tmp_path: Path) -> None:
    url = new_url("store.atlas")
    first, second = (apt.AtlasStore(url, "x", storage_options=options(server)) for _ in "ab")
    put(first, "d", 1)
    put(second, "d", 2)
    first.close()
    with pytest.raises(FileExistsError, match="another writer"):
        second.close()
    second.discard()
    first, second = (apt.AtlasStore(url, "a", storage_options=options(server)) for _ in "ab")
    put(first, "d", 3)
    put(second, "d", 4)
    first.close()
    with pytest.raises(OSError, match="another writer"):
        second.close()
    second.discard()
    with apt.AtlasStore(fetched(url, server, tmp_path)) as store:
        assert store.scan("t").values.tolist() == [[3] * 3]  # type: ignore[union-attr]


def test_array_files(server: Server, tmp_path: Path) -> None:
    url = new_url("values.af")
    with apt.ArrayFile(url, "x", storage_options=options(server)) as file:
        file.define("a", "float64", (3,))
        file.write("a", np.ones(3))
        file.flush()
        file.write("a", np.full(3, 2.0))
        file.compact()
    folder = fetched(url.rpartition("/")[0], server, tmp_path)
    with apt.ArrayFile(folder / "values.af") as file:
        assert file.read("a").tolist() == [2] * 3  # type: ignore[union-attr]


def test_errors(moto: Server, rclone: Server) -> None:
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        apt.AtpWriter("s3://no-such-bucket/a.atp", storage_options=options(moto))
    wrong = {**options(rclone), "secret": f"wrong{SECRET}"}
    with pytest.raises(PermissionError) as caught:
        apt.AtpWriter("s3://bucket/a.atp", storage_options=wrong)
    assert SECRET not in str(caught.value)
