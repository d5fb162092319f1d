"""What tests of reading through servers share: addresses, comparisons, a secret."""

from __future__ import annotations

from typing import Any

import torch
from file_server import FileServer

import atompack_torch as apt

SECRET = "wJalrXUtnFEMI"
KINDS = ("http", "s3")


def place(server: FileServer, kind: str, name: str) -> tuple[str, dict[str, Any]]:
    """A URL and its options."""
    if kind == "s3":
        return f"s3://bucket/{name}", {"storage_options": server.s3}
    return f"{server.url}/{name.replace(' ', '%20')}", {}


def same(one: Any, other: Any) -> bool:
    """Equality bit for bit of what datasets and stores return."""
    if isinstance(one, torch.Tensor):
        bits = [x.contiguous().view(-1).view(torch.uint8) for x in (one, other)]
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(*bits)
    if isinstance(one, (dict, apt.MoleculeBatch)):
        keys = [list(each.keys()) for each in (one, other)]
        return keys[0] == keys[1] and all(same(one[key], other[key]) for key in keys[0])
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


class Both(torch.utils.data.Dataset[Any]):
    """Batches of two subsets, which share the files of their dataset."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [part.batch(indices) for part in self.parts]
