"""Forces from the stored derivatives of features."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.exact_values import check_values
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import DERIVATIVES
from atompack_torch.ops.library import is_differentiated, over_batch  # registers it, too


class Rows(NamedTuple):
    """Derivative fields of a batch, in order; with a single species there are no typespins."""

    radial_center: Tensor
    radial_neighbor: Tensor
    radial_grads: Tensor
    radial_spin: Tensor | None
    angular_center: Tensor
    angular_j: Tensor
    angular_k: Tensor
    grads_i: Tensor
    grads_j: Tensor
    grads_k: Tensor
    angular_spin: Tensor | None


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
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Tensor, int]:
        return over_batch(_Contraction.apply, info.batch_size, in_dims, inputs)


def contract_forces(batch: MoleculeBatch, dE_dfeatures: Tensor) -> Tensor:  # noqa: N803
    """Computes the forces of an energy that is a function of the features.

        energy = model(batch.features.requires_grad_())
        (weights,) = torch.autograd.grad(energy.sum(), batch.features, create_graph=True)
        forces = apt.contract_forces(batch, weights)

    F_a = - sum over atoms i and features f of ``dE_dfeatures[i, f]`` times the derivative of
    feature f of atom i with respect to the position of atom a. This is linear in ``dE_dfeatures``,
    and differentiable with respect to it any number of times, as training on forces requires; the
    stored derivatives are constants. On the CPU it runs natively on torch's threads, bitwise
    identical for any number of them; on other devices it uses ``index_add``, whose order of
    additions is unspecified on CUDA. It is the operator
    ``torch.ops.atompack_torch.contract_forces``, which ``torch.compile(fullgraph=True)``,
    ``torch.export`` and ``torch.vmap`` take.

    Args:
        batch: a batch with the derivative fields, as from ``ChebyshevDescriptor.compute`` or a
            cache. A molecule whose derivatives are masked, because they were not stored, gets NaN
            forces, through which no gradient flows.
        dE_dfeatures: (N, F), energy / unit of the features; same dtype and device as the
            derivatives.

    Returns:
        Forces (N, 3) of the same dtype, energy / unit of the positions.

    Raises:
        FieldError: the batch has no derivatives, types or shapes differ, or (on the CPU) a row
            has an atom index out of range.
    """
    rows = _rows_of(batch, dE_dfeatures)
    forces: Tensor
    try:
        if is_differentiated():
            forces = _Contraction.apply(  # type: ignore[no-untyped-call]
                dE_dfeatures, False, batch.ptr, *rows
            )
        else:
            forces = torch.ops.atompack_torch.contract_forces(dE_dfeatures, batch.ptr, *rows)
    except ValueError as error:
        raise FieldError(str(error)) from None
    if "radial_center_idx" not in contents_of(batch).mask_rows:
        return forces
    is_known = batch.mask("radial_center_idx")[batch.batch]
    return forces.where(is_known.unsqueeze(1), float("nan"))


def _rows_of(batch: MoleculeBatch, weights: Tensor) -> Rows:
    """Returns checked derivative fields; the native core checks indices and shapes of rows."""
    if not weights.is_meta:
        check_values("dE_dfeatures", weights)
    found: dict[str, Tensor | None] = dict.fromkeys(DERIVATIVES)
    fields = contents_of(batch).fields
    for name in DERIVATIVES:
        row = fields.get(name)
        if isinstance(row, Tensor):
            found[name] = _checked_row(name, row, weights)
        elif not name.endswith("typespin"):
            raise FieldError(f"contract_forces: the batch has no derivatives (field {name!r})")
    rows = Rows(*found.values())  # type: ignore[arg-type]
    n_plain = rows.radial_grads.shape[1] + rows.grads_i.shape[1]
    spins = [spin for spin in (rows.radial_spin, rows.angular_spin) if spin is not None]
    # No len(): it would make a dynamic size constant in an exported program.
    if all(spin.shape[0] == 0 for spin in spins) and weights.shape[1:] == (n_plain,):
        rows = rows._replace(radial_spin=None, angular_spin=None)  # files have empty arrays
    expected = (batch.positions.shape[0], n_plain if rows.radial_spin is None else 2 * n_plain)
    if tuple(weights.shape) != expected:
        got = tuple(weights.shape)
        raise FieldError(f"dE_dfeatures: expected shape {expected}, got {got}")
    return rows


def _checked_row(name: str, row: Tensor, weights: Tensor) -> Tensor:
    def fail(what: str, expected: object, got: object) -> FieldError:
        return FieldError(f"{what}: expected {expected}, got {got} (field {name!r})")

    check_values(name, row)
    n_dims = 3 if "_grads_" in name or name == "radial_dG_drij" else 1
    if row.dim() != n_dims:
        raise fail("contract_forces", f"{n_dims} dimensions", row.dim())
    if row.requires_grad:
        raise fail("contract_forces", "constant derivatives", "some with a gradient")
    if row.is_floating_point() and row.dtype != weights.dtype:
        raise fail("dE_dfeatures", *(str(t.dtype).removeprefix("torch.") for t in (row, weights)))
    if row.device != weights.device:
        raise fail("dE_dfeatures", f"a tensor on {row.device}", weights.device)
    return row
