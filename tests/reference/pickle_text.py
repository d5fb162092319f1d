"""Values of pickles as text: what tests/cpp/serial/pickle/show.cpp makes of them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import torch


def show(value: Any) -> str:
    """One value on one line."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, np.generic):
        return f"scalar({_type(value.dtype)} {_native(np.asarray(value)).tobytes().hex()})"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return "float:" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return "str:" + value.encode("utf-8", "surrogatepass").hex()
    if isinstance(value, bytes):
        return "bytes:" + value.hex()
    if isinstance(value, list):
        return "[" + ", ".join(map(show, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(show, value)) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, np.dtype):
        return f"dtype({_type(value, native=False)})"
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    raise TypeError(type(value))


def show_lines(values: list[Any]) -> str:
    """One line for each."""
    return "".join(show(value) + "\n" for value in values)


def _integer(value: int) -> str:
    if -(2**63) <= value < 2**63:
        return str(value)
    n_bytes = (value if value > 0 else -value - 1).bit_length() // 8 + 1
    return "int:" + value.to_bytes(n_bytes, "little", signed=True).hex()


def _type(dtype: np.dtype[Any], native: bool = True) -> str:
    if dtype.fields is not None and dtype.names is not None:
        fields = [(name, *dtype.fields[name][:2]) for name in dtype.names]
        text = "".join(f"{name}:{_type(of, native)}@{at}," for name, of, at in fields)
        return f"{{{text}{dtype.itemsize}}}"
    return dtype.str.replace(">", "<") if native else dtype.str


def _native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Casting would leave the bytes between fields to chance.
    swapped = array.copy()
    _swap(swapped, array.dtype)
    return swapped


def _swap(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> None:
    """Turn the bytes of big-endian elements around, in place."""
    if dtype.names is not None and dtype.fields is not None:
        for name in dtype.names:
            _swap(array[name], dtype.fields[name][0])
    elif dtype.str.startswith(">"):
        array[...] = array.byteswap()


def _array(array: np.ndarray[Any, Any]) -> str:
    order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "K"
    head = f"array({_type(array.dtype)} {'x'.join(map(str, array.shape))} {order} "
    if array.dtype == object:
        return head + "[" + ", ".join(map(show, array.ravel())) + "])"
    return head + _native(array).tobytes(order="C").hex() + ")"


TORCH_TYPES = {
    torch.bool: "|b1",
    torch.uint8: "|u1",
    torch.int8: "|i1",
    torch.int16: "<i2",
    torch.int32: "<i4",
    torch.int64: "<i8",
    torch.float16: "<f2",
    torch.bfloat16: "bfloat16",
    torch.float32: "<f4",
    torch.float64: "<f8",
    torch.complex64: "<c8",
    torch.complex128: "<c16",
}


def _tensor(tensor: torch.Tensor) -> str:
    plain = tensor.detach().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    shape = "x".join(map(str, tensor.shape))
    grad = " grad " if tensor.requires_grad else " "
    return f"tensor({TORCH_TYPES[tensor.dtype]} {shape}{grad}{data.hex()})"
