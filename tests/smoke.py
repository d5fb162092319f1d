"""Writes and reads each format once: tries an installed package, without any test tools.

python tests/smoke.py [--any-torch]

--any-torch: built from source, so that its requirement is any torch, not the one of a wheel.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch._build_info import TORCH_VERSION


class NothingHere(BaseHTTPRequestHandler):
    """Has no file at all."""

    def do_GET(self) -> None:
        self.send_error(404)

    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


def molecules(folder: Path) -> None:
    """.atp files, and feature caches made of them."""
    path = folder / "a.atp"
    positions = np.random.default_rng(0).normal(scale=2, size=(8, 5, 3)).astype(np.float32)
    with apt.AtpWriter(path, codec="zstd") as writer:
        writer.write_arrays(
            positions=positions,
            atomic_numbers=np.array([6, 1, 1, 1, 1], np.uint8),
            energy=np.arange(8.0),
            forces=np.zeros_like(positions),
        )
    dataset = apt.AtpDataset(path, neighbors=apt.NeighborList(3.0))
    (batch,) = DataLoader(dataset, batch_size=8)
    assert torch.equal(batch.positions, torch.from_numpy(positions).reshape(-1, 3))
    (same,) = apt.Loader(dataset, batch_size=8)
    assert torch.equal(same.edge_index, batch.edge_index)
    descriptor = apt.ChebyshevDescriptor(["C", "H"], 4, 4.0, 2, 3.0)
    apt.build_cache(apt.AtpDataset(path), descriptor, folder / "a.h5", progress=False)
    assert len(apt.TorchCacheDataset(folder / "a.h5")) == 8


def store(folder: Path) -> None:
    """ATLAS stores."""
    with apt.AtlasStore(folder / "s", "x", codec="lz4") as made:
        for name in ("a", "b"):
            made.create_dataset(name)
            made.define_array(name, "t", "float32", (3, 4))
            made.write(name, "t", np.full((3, 4), ord(name), np.float32))
    (batch,) = DataLoader(apt.AtlasDataset(folder / "s", ["t"]), batch_size=2)
    assert batch["t"][:, 0, 0].tolist() == [97.0, 98.0]


def shards(folder: Path) -> None:
    """Atlas shards."""
    with apt.ShardWriter(folder / "shards", shard_size=8, block_size=4) as writer:
        for i in range(16):
            writer.write({"x": np.full(3, i, np.float32), "label": i})
    (batch,) = DataLoader(apt.ShardDataset(folder / "shards"), batch_size=16)
    assert batch["label"].tolist() == list(range(16))


def urls() -> None:
    """The client for URLs, which needs libcurl: a server without the file."""
    with HTTPServer(("127.0.0.1", 0), NothingHere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            apt.AtpDataset(f"http://127.0.0.1:{server.server_port}/a.atp")
        except FileNotFoundError:
            return
        finally:
            server.shutdown()
    raise AssertionError("opened a dataset that the server does not have")


def requirements() -> None:
    """An installed wheel needs exactly the torch that it was built for."""
    found = metadata.requires("atompack_torch") or []
    (wanted,) = (line for line in found if re.match(r"torch\s*[<>=!~]", line))
    assert wanted == f"torch=={TORCH_VERSION.split('+')[0]}", wanted


def main() -> None:
    """Prints where the package is, if all of it works."""
    if "--any-torch" not in sys.argv[1:]:
        requirements()
    urls()
    with tempfile.TemporaryDirectory() as folder:
        for part in (molecules, store, shards):
            part(Path(folder))
    print("works:", Path(apt.__file__).parent)


if __name__ == "__main__":
    main()
