"""Loads the library of operators and declares to torch what it cannot see in it.

The library holds schemas, kernels and sizes of results; derivatives and ``vmap`` are added here.
``torch.compile``, ``torch.export`` and AOTInductor take the operators as they are; programs in C++
load ``library_path()`` before a model that was exported with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atompack_torch._core import native_folder

__all__ = ["is_differentiated", "library_path", "over_batch", "register_loop"]

_CONTRACTIONS = ("contract_forces", "contract_forces_transposed")


def library_path() -> Path:
    """Returns the path of the shared library, which needs torch but not Python."""
    return native_folder() / "libatompack_ops.so"


torch.ops.load_library(library_path())  # type: ignore[no-untyped-call]


def is_differentiated() -> bool:
    """Returns True inside ``torch.func.grad``, ``vjp``, ``jvp`` and forward mode.

    The former refuse operators with a registered derivative, and forward mode takes their results
    for constants, without an error: functions of this package go another way there.
    """
    if torch.compiler.is_compiling():
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    kinds = torch._C._functorch.TransformType
    stack = torch._C._functorch.get_interpreter_stack() or []
    return any(each.key() in (kinds.Grad, kinds.Jvp) for each in stack)


def _keep_rows(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _register_linear(name: str, transposed: str) -> None:
    """Registers an operator that is linear in its first argument."""

    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows = ctx.saved_tensors
        operator = getattr(torch.ops.atompack_torch, transposed)
        return operator(grad, *rows), *(None,) * len(rows)

    torch.library.register_autograd(f"atompack_torch::{name}", backward, setup_context=_keep_rows)
    register_loop(name)


def over_batch(
    call: Callable[..., Tensor], n: int, in_dims: Sequence[Any], inputs: Sequence[Any]
) -> tuple[Tensor, int]:
    """Calls a function for each of n items along the batch dimensions, as ``vmap`` asks."""

    def item(value: Any, dim: Any, k: int) -> Any:
        return value.select(dim, k) if isinstance(dim, int) else value

    made = [
        call(*(item(value, dim, k) for value, dim in zip(inputs, in_dims, strict=True)))
        for k in range(n)
    ]
    return torch.stack(made), 0


def register_loop(name: str) -> None:
    """Registers ``vmap`` of an operator as a loop: molecules share no neighbors."""

    def over(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        operator = getattr(torch.ops.atompack_torch, name)
        return over_batch(operator, info.batch_size, in_dims, inputs)

    torch.library.register_vmap(f"atompack_torch::{name}", over)


for _name, _transposed in (_CONTRACTIONS, _CONTRACTIONS[::-1]):
    _register_linear(_name, _transposed)


@torch.library.register_fake("atompack_torch::neighbor_list")  # type: ignore[untyped-decorator]
def _sizes_of_neighbors(positions: Tensor, *options: Any, **more: Any) -> tuple[Tensor, Tensor]:
    n_edges = torch.library.get_ctx().new_dynamic_size()
    index = positions.new_empty((2, n_edges), dtype=torch.int64)
    return index, positions.new_empty((n_edges, 3))


@torch.library.register_fake(  # type: ignore[untyped-decorator]
    "atompack_torch::neighbor_list_with_vectors"
)
def _sizes_with_vectors(positions: Tensor, *options: Any, **more: Any) -> tuple[Tensor, ...]:
    index, shift = _sizes_of_neighbors(positions)
    return index, shift, torch.empty_like(shift)


class _Edges(NamedTuple):
    """The constant arguments of the vectors along edges."""

    ptr: Tensor
    pairs: Tensor
    shift: Tensor
    n_atoms: int
    has_cell: bool

    def keep(self, ctx: Any) -> None:
        ctx.save_for_backward(self.ptr, self.pairs, self.shift)
        ctx.sizes = (self.n_atoms, self.has_cell)

    @classmethod
    def kept(cls, ctx: Any) -> _Edges:
        return cls(*ctx.saved_tensors, *ctx.sizes)

    def gradients(self, of_vectors: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the gradients of positions and cell."""
        made = torch.ops.atompack_torch.edge_vectors_transposed(of_vectors, *self)
        return made[0], made[1] if self.has_cell else None


def _keep_searched(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    positions, cell, _, ptr, *_ = inputs
    index, shift, _ = output
    ctx.mark_non_differentiable(index, shift)
    _Edges(ptr, index, shift, positions.shape[0], cell is not None).keep(ctx)


def _keep_vectors(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    positions, cell, ptr, index, shift = inputs
    _Edges(ptr, index, shift, positions.shape[0], cell is not None).keep(ctx)


def _keep_transposed(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _Edges(*inputs[1:]).keep(ctx)


def _back_from_search(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    return *_Edges.kept(ctx).gradients(grads[2]), *(None,) * 6


def _back_from_vectors(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_Edges.kept(ctx).gradients(grad), *(None,) * 3


def _back_from_transposed(
    ctx: Any, of_positions: Tensor, of_cell: Tensor
) -> tuple[Tensor | None, ...]:
    edges = _Edges.kept(ctx)
    cell = of_cell if edges.has_cell else None
    grad = torch.ops.atompack_torch.edge_vectors(of_positions, cell, *edges[:3])
    return grad, *(None,) * 5


for _name, _back, _keep in (
    ("neighbor_list_with_vectors", _back_from_search, _keep_searched),
    ("edge_vectors", _back_from_vectors, _keep_vectors),
    ("edge_vectors_transposed", _back_from_transposed, _keep_transposed),
):
    torch.library.register_autograd(f"atompack_torch::{_name}", _back, setup_context=_keep)
