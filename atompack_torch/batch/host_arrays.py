"""Tensors as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from atompack_torch.errors import FieldError


def check_values(name: str, tensor: Tensor) -> None:
    """Raises an error unless a tensor is dense and has plain values.

    Args:
        name: name of the tensor in the error.
        tensor: any tensor.

    Raises:
        FieldError: the tensor is nested, sparse, quantized or a meta tensor.
    """
    if tensor.is_nested:
        got = "a nested tensor (pad it, or give its values and offsets)"
    elif tensor.layout != torch.strided:
        got = f"one of layout {str(tensor.layout).removeprefix('torch.')} (call to_dense)"
    elif tensor.is_quantized:
        got = "a quantized tensor (call dequantize)"
    elif tensor.is_meta:
        got = "a meta tensor, which has no values"
    else:
        return
    raise FieldError(f"{name}: expected a dense tensor, got {got}")


def host_array(name: str, tensor: Tensor) -> np.ndarray[Any, Any]:
    """Returns a tensor as a NumPy array, without a copy where possible.

    Tensors on other devices and lazily conjugated or negated ones are copied; bfloat16, which NumPy
    lacks, is widened to float32.

    Args:
        name: name of the tensor in the error.
        tensor: a dense tensor on any device.

    Returns:
        An array of the same shape.

    Raises:
        FieldError: the tensor is not dense, or NumPy has no such dtype.
    """
    check_values(name, tensor)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    try:
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    except (TypeError, RuntimeError) as error:  # float8, subclasses without memory
        raise FieldError(f"{name}: NumPy has no type for {tensor.dtype}: {error}") from None
