"""Loads the library of operators and declares to torch what it cannot see in it.

The library holds schemas, kernels and sizes of results; derivatives and ``vmap`` are added here.
``torch.compile``, ``torch.export`` and AOTInductor take the operators as they are; programs in C++
load ``library_path()`` before a model that was exported with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from atompack_torch._core import native_folder

__all__ = ["library_path"]

_CONTRACTIONS = ("contract_forces", "contract_forces_transposed")


def library_path() -> Path:
    """Returns the path of the shared library, which needs torch but not Python."""
    return native_folder() / "libatompack_ops.so"


torch.ops.load_library(library_path())  # type: ignore[no-untyped-call]


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _register_linear(name: str, transposed: str) -> None:
    """Registers an operator that is linear in its first argument."""

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows = ctx.saved_tensors
        operator = getattr(torch.ops.atompack_torch, transposed)
        return operator(grad, *rows), *(None,) * len(rows)

    torch.library.register_autograd(f"atompack_torch::{name}", backward, setup_context=_keep_rows)

    def over(
        info: Any, in_dims: tuple[int | None, ...], first: Tensor, *rows: Tensor | None
    ) -> Any:
        dim = in_dims[0]
        if dim is None or any(each is not None for each in in_dims[1:]):
            raise NotImplementedError(f"vmap: {name} takes a batch dimension of its first argument")
        operator = getattr(torch.ops.atompack_torch, name)
        return torch.stack([operator(one, *rows) for one in first.unbind(dim)]), 0

    torch.library.register_vmap(f"atompack_torch::{name}", over)


for _name, _transposed in (_CONTRACTIONS, _CONTRACTIONS[::-1]):
    _register_linear(_name, _transposed)


@torch.library.register_fake("atompack_torch::neighbor_list")  # type: ignore[untyped-decorator]
def _sizes_of_neighbors(positions: Tensor, *options: Any, **more: Any) -> tuple[Tensor, Tensor]:
    n_edges = torch.library.get_ctx().new_dynamic_size()
    index = positions.new_empty((2, n_edges), dtype=torch.int64)
    return index, positions.new_empty((n_edges, 3))
