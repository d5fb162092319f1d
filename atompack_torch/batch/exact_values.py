"""Conversion of tensors and values to arrays that represent them exactly, or an error."""

from __future__ import annotations

import sys
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


Array = np.ndarray[Any, Any]


def native(array: Array) -> Array:
    """Copies an array into native byte order and C order."""
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def as_array(name: str, value: Any) -> Array:
    """Returns values as an array.

    Args:
        name: name of the values in errors.
        value: an array, a number or nested lists of numbers.

    Returns:
        The array itself, or a new one.

    Raises:
        FieldError: lists differ in length, elements are masked, or NumPy would round integers in
            a list that also holds floats.
    """
    is_listed = isinstance(value, (list, tuple))
    check_unmasked_items(name, value) if is_listed else check_unmasked(name, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise FieldError(f"{name}: not an array: {error}") from None
    if is_listed and array.dtype.kind == "f":
        check_listed(name, value, array)
    return array


def check_unmasked(name: str, value: Any) -> None:
    """Raises an error if elements are masked: the data behind a mask is meaningless.

    Args:
        name: name of the values in errors.
        value: any value.

    Raises:
        FieldError: elements are masked.
    """
    if "numpy.ma" not in sys.modules:  # so there is none; importing it takes a while
        return
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        n = int(np.ma.getmaskarray(value).sum())
        raise FieldError(
            f"{name}: expected values without a mask, got {n} masked elements: "
            "fill them (values.filled(...)) or leave them out"
        )


def check_unmasked_items(name: str, values: Any) -> None:
    """Applies ``check_unmasked`` to nested lists, which may hold masked arrays."""
    for value in values:
        if isinstance(value, (list, tuple)):
            check_unmasked_items(name, value)
        else:
            check_unmasked(name, value)


def check_listed(name: str, value: Any, array: Array) -> None:
    """Raises an error if integers in a list with floats, which became floats too, were rounded.

    Args:
        name: name of the values in errors.
        value: nested lists of numbers.
        array: the same as floats.

    Raises:
        FieldError: an integer was rounded.
    """
    with np.errstate(invalid="ignore"):  # where the next integer is the same number
        is_large = np.abs(array) >= 2 / np.finfo(array.dtype).eps
    if not is_large.any():
        return
    objects = np.asarray(value, dtype=object)
    for given, made in zip(objects[is_large].flat, array[is_large].flat, strict=True):
        is_integer = isinstance(given, (int, np.integer))
        if is_integer and (not np.isfinite(made) or int(made) != int(given)):
            raise FieldError(
                f"{name}: expected integers that {array.dtype} holds among floats, got {given}: "
                "pass an array of one type"
            )


def converted(name: str, array: Array, dtype: Any, *, rounds: bool = False) -> Array:
    """Converts an array to a different dtype, contiguous and in native byte order.

    Args:
        name: name of the values in errors.
        array: booleans, integers or floats.
        dtype: dtype of the result: bool, an integer or a float.
        rounds: floats of at most 64 bits may be rounded to a narrower float.

    Returns:
        An array of the same shape.

    Raises:
        FieldError: the dtype cannot hold a value.
    """
    if array.dtype.kind not in "biuf":  # NumPy would make numbers of dates, text and parts of them
        raise FieldError(f"{name}: expected real numbers, got {array.dtype}")
    target = np.dtype(dtype)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        # reshape, because ascontiguousarray turns a scalar into an array of one element.
        made = np.ascontiguousarray(array, dtype=target).reshape(array.shape)
        if array.size and array.dtype.newbyteorder("=") != target:
            wrong = _mismatches(np.asarray(array), made, rounds)
            if wrong.any():
                _refuse(name, array, wrong, target)
    return made


def _mismatches(given: Array, made: Array, rounds: bool) -> Array:
    if rounds and given.dtype.kind == made.dtype.kind == "f" and given.dtype.itemsize <= 8:
        return np.asarray(np.isinf(made) & ~np.isinf(given))
    # It holds every 64-bit integer and every float.
    before, after = given.astype(np.longdouble), made.astype(np.longdouble)
    return np.asarray((before != after) & ~(np.isnan(before) & np.isnan(after)))


def _refuse(name: str, array: Array, wrong: Array, target: np.dtype[Any]) -> None:
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = f" at {list(place)}" if place else ""
    what = {"b": "0 and 1", "f": "numbers"}.get(target.kind, "integers")
    raise FieldError(
        f"{name}: expected {what} that {target} holds, got {array[place]}{where} ({array.dtype}): "
        "it would not come back; convert it or store a type that holds it"
    )
