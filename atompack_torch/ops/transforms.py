"""Derivatives of ``torch.func`` and of forward mode, which registered operators do not have.

``torch.func.grad`` and its like refuse operators with a registered derivative, and forward mode
takes their results for constants, without an error. Functions of this package therefore ask
``is_differentiated`` and go another way there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from atompack_torch.ops import library as library  # loads the operators


def is_differentiated() -> bool:
    """Returns True inside ``torch.func.grad``, ``vjp``, ``jvp`` and forward mode."""
    if torch.compiler.is_compiling():
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return True
    kinds = torch._C._functorch.TransformType
    stack = torch._C._functorch.get_interpreter_stack() or []
    return any(each.key() in (kinds.Grad, kinds.Jvp) for each in stack)


class _Contraction(torch.autograd.Function):
    """The contraction or its transpose: linear in the first argument."""

    @staticmethod
    def forward(first: Tensor, transposed: bool, *rows: Tensor | None) -> Tensor:
        name = "contract_forces_transposed" if transposed else "contract_forces"
        made: Tensor = getattr(torch.ops.atompack_torch, name)(first, *rows)
        return made

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.transposed, *rows = inputs
        ctx.save_for_backward(*rows)
        ctx.save_for_forward(*rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows = ctx.saved_tensors
        made = _Contraction.apply(grad, not ctx.transposed, *rows)  # type: ignore[no-untyped-call]
        return made, None, *(None,) * len(rows)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        made: Tensor = _Contraction.apply(  # type: ignore[no-untyped-call]
            tangent, ctx.transposed, *ctx.saved_tensors
        )
        return made

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], first: Tensor, transposed: bool, *rows: Tensor | None
    ) -> tuple[Tensor, int]:
        dim = in_dims[0]
        if dim is None or any(each is not None for each in in_dims[1:]):
            raise NotImplementedError(
                "vmap: contract_forces takes a batch dimension of its first argument"
            )
        parts = [
            _Contraction.apply(one, transposed, *rows)  # type: ignore[no-untyped-call]
            for one in first.unbind(dim)
        ]
        return torch.stack(parts), 0


def contract_in_transforms(weights: Tensor, ptr: Tensor, *rows: Tensor | None) -> Tensor:
    """Computes what the operator ``contract_forces`` does, with all of torch's derivatives.

    Args:
        weights: (N, F).
        ptr: (B + 1,) int64.
        *rows: the columns of derivatives, in the order of the operator.

    Returns:
        Forces (N, 3).
    """
    made: Tensor = _Contraction.apply(weights, False, ptr, *rows)  # type: ignore[no-untyped-call]
    return made
