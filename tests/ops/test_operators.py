"""The registered operators under everything that torch does to operators."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.contraction import SPECIES, batch_of, by_index_add
from torch._dynamo.testing import CompileCounterWithBackend

import atompack_torch as apt
from atompack_torch.fields import DERIVATIVES
from atompack_torch.ops.contraction import Rows
from atompack_torch.ops.library import library_path


def arguments(batch: apt.MoleculeBatch, first: torch.Tensor) -> tuple[Any, ...]:
    return (first, batch.ptr, *(batch._fields.get(name) for name in DERIVATIVES))


def weights_of(batch: apt.MoleculeBatch, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, *batch.features.shape, dtype=torch.float64, generator=generator)


OPERATORS = torch.ops.atompack_torch


@pytest.mark.parametrize("kind", SPECIES)
def test_contractions_pass_all_checks_of_torch(kind: str) -> None:
    batch = batch_of(kind)
    weights = weights_of(batch).requires_grad_()
    torch.library.opcheck(OPERATORS.contract_forces.default, arguments(batch, weights))
    forces = torch.randn_like(batch.positions, dtype=torch.float64).requires_grad_()
    torch.library.opcheck(OPERATORS.contract_forces_transposed.default, arguments(batch, forces))


@pytest.mark.parametrize("cell", [None, torch.eye(3).expand(2, 3, 3) * 4.0])
def test_neighbor_list_passes_all_checks_of_torch(cell: torch.Tensor | None) -> None:
    positions = 4 * torch.rand(9, 3, generator=torch.Generator().manual_seed(0))
    ptr = torch.tensor([0, 4, 9])
    given = (positions, cell, None, ptr, 2.5)
    torch.library.opcheck(OPERATORS.neighbor_list.default, given)
    positions.requires_grad_()
    # The check of compilation adds up all outputs, integers first, which fails in torch itself:
    # test_compiled_neighbor_list has it.
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(OPERATORS.neighbor_list_with_vectors.default, given, test_utils=checks)
    index, shift, vector = (x.detach() for x in OPERATORS.neighbor_list_with_vectors(*given))
    torch.library.opcheck(OPERATORS.edge_vectors.default, (positions, cell, ptr, index, shift))
    given = (vector.requires_grad_(), ptr, index, shift, 9, cell is not None)
    torch.library.opcheck(OPERATORS.edge_vectors_transposed.default, given)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("has_cell", [False, True])
@pytest.mark.parametrize("sizes", [(9, 0, 1, 30), (3, 6000, 20), (0,), ()])
def test_vectors_along_edges(
    sizes: tuple[int, ...], has_cell: bool, dtype: torch.dtype, threads: Any
) -> None:
    """The native kernels and those of other devices, on any number of threads."""
    generator = torch.Generator().manual_seed(0)
    ptr = torch.tensor([0, *np.cumsum(sizes, dtype=int).tolist()])
    n = int(ptr[-1])
    positions = 20 * torch.rand(n, 3, generator=generator, dtype=dtype)
    cell = 20 * torch.eye(3, dtype=dtype).expand(len(sizes), 3, 3) if has_cell else None
    edges = (ptr, *OPERATORS.neighbor_list(positions, cell, None, ptr, 4.0))
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    limit = (
        {"rtol": 1e-4, "atol": 2e-3} if dtype == torch.float32 else {"rtol": 1e-11, "atol": 1e-10}
    )

    expected = OPERATORS.edge_vectors.default.redispatch(keys, positions, cell, *edges)
    found = OPERATORS.edge_vectors(positions, cell, *edges)
    torch.testing.assert_close(found, expected, **limit)
    given = (torch.randn(found.shape, generator=generator, dtype=dtype), *edges, n, has_cell)
    expected = OPERATORS.edge_vectors_transposed.default.redispatch(keys, *given)
    made = []
    for count in (1, 2, 3):
        threads(count)
        made.append(OPERATORS.edge_vectors_transposed(*given))
    for ours in made:
        for k in range(2):
            torch.testing.assert_close(ours[k], expected[k], **limit)
            assert torch.equal(ours[k], made[0][k])


@pytest.mark.parametrize(
    "index", [[[1, 0], [0, 1]], [[0, 3], [1, 1]], [[0, 1], [1, 4]], [[-1, 0], [0, 1]]]
)
def test_edges_that_no_search_finds_are_refused(index: list[list[int]]) -> None:
    """Atoms i that descend, atoms of two molecules, numbers out of range."""
    edges = (torch.tensor([0, 2, 4]), torch.tensor(index), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="edge_index"):
        OPERATORS.edge_vectors(torch.zeros(4, 3), None, *edges)
    with pytest.raises(ValueError, match="edge_index"):
        OPERATORS.edge_vectors_transposed(torch.zeros(2, 3), *edges, 4, False)


@pytest.mark.parametrize("kind", SPECIES)
def test_kernels_of_other_devices(kind: str) -> None:
    """They consist of torch's operators, which run here too."""
    batch = batch_of(kind)
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    weights = weights_of(batch)
    rows = arguments(batch, weights)
    found = OPERATORS.contract_forces.default.redispatch(keys, *rows)
    expected = OPERATORS.contract_forces(*rows)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    named = Rows(*(batch._fields.get(name) for name in DERIVATIVES))
    torch.testing.assert_close(found, by_index_add(weights, named), rtol=1e-12, atol=1e-12)
    rows = arguments(batch, expected)
    found = OPERATORS.contract_forces_transposed.default.redispatch(keys, *rows)
    expected = OPERATORS.contract_forces_transposed(*rows)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_vmap_over_weights() -> None:
    batch = batch_of("many")
    weights = weights_of(batch, 3)
    found = torch.vmap(lambda each: apt.contract_forces(batch, each))(weights)
    expected = torch.stack([apt.contract_forces(batch, each) for each in weights])
    assert torch.equal(found, expected)


def test_gradients_of_many_outputs_at_once() -> None:
    batch = batch_of("many", (3, 2))
    weights = weights_of(batch).requires_grad_()
    forces = apt.contract_forces(batch, weights).flatten()
    ones = torch.eye(len(forces), dtype=torch.float64)
    (found,) = torch.autograd.grad(forces, weights, ones, is_grads_batched=True)
    torch.testing.assert_close((found * weights).sum((1, 2)), forces)


class Potential(torch.nn.Module):
    """Energies and forces of features."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(n_features, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        ).double()

    def forward(self, features: torch.Tensor, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        first, last = self.net[0], self.net[2]
        hidden = torch.tanh(features @ first.weight.T + first.bias)
        energy = hidden @ last.weight.T + last.bias
        weights = ((1 - hidden**2) * last.weight) @ first.weight  # the derivative
        return energy, apt.contract_forces(batch, weights)


def test_compiled_training_is_one_graph_and_equals_eager() -> None:
    """Over batches of different sizes: one graph, compiled again at most twice."""
    batches = [
        batch_of("many", sizes, seed=n)
        for n, sizes in enumerate(((4, 3), (2, 5, 6), (7, 4), (3, 3, 3, 3)))
    ]
    model = Potential(batches[0].features.shape[1])
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    for batch in batches:
        gradients = []
        for each in (model, compiled):
            model.zero_grad()
            energy, forces = each(batch.features, batch)
            (energy.sum() + forces.pow(2).sum()).backward()
            gradients.append([forces.detach(), *(p.grad.clone() for p in model.parameters())])
        for ours, eager in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-10, atol=1e-10)
    assert counter.frame_count <= 3


class Pairs(torch.nn.Module):
    """Energy of a pair potential."""

    def forward(
        self, positions: torch.Tensor, cell: torch.Tensor, ptr: torch.Tensor
    ) -> torch.Tensor:
        vector = apt.neighbor_list(positions, cell, None, ptr, 2.5).edge_vector
        return (-vector.pow(2).sum(1)).exp().sum()


def structures(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positions = 4 * torch.rand(2 * n, 3, generator=generator, dtype=torch.float64)
    cell = 4 * torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    return positions, cell, torch.tensor([0, n, 2 * n])


def test_compiled_neighbor_list() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(Pairs(), fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (4, 7, 11):
        positions, cell, ptr = structures(n)
        found = compiled(positions.requires_grad_(), cell, ptr)
        (gradient,) = torch.autograd.grad(found, positions)
        expected = Pairs()(positions, cell, ptr)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, positions)[0])


def test_exported_program_comes_back(tmp_path: Path) -> None:
    positions, cell, ptr = structures(5)
    n = torch.export.Dim("n", min=2, max=1000)
    shapes = ({0: n}, None, None)
    program = torch.export.export(Pairs(), (positions, cell, ptr), dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "pairs.pt2")
    loaded = torch.export.load(tmp_path / "pairs.pt2").module()
    for size in (5, 9):
        given = structures(size, size)
        torch.testing.assert_close(loaded(*given), Pairs()(*given))


PROGRAM = r"""
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <iostream>

int main(int, char** arguments) {
  if (dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::cerr << dlerror();
    return 1;
  }
  torch::inductor::AOTIModelPackageLoader model(arguments[2]);
  const auto positions = at::arange(18, at::kDouble).view({6, 3}).sin() * 2 + 2;
  const auto cell = 4 * at::eye(3, at::kDouble).repeat({2, 1, 1});
  const auto ptr = at::tensor({0, 3, 6}, at::kLong);
  std::cout.precision(17);
  std::cout << model.run({positions, cell, ptr}).at(0).item<double>();
}
"""


class AllOperators(torch.nn.Module):
    """Pairs, features of six oxygen atoms, and their contraction with the rows of others."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = Pairs()
        self.descriptor = apt.ChebyshevDescriptor(["O"], 3, 3.1, 2, 2.6, dtype="float64")
        self.register_buffer("numbers", torch.full((6,), 8))
        batch = batch_of("one", (3, 3))
        self.rows = [batch._fields.get(name) for name in DERIVATIVES]
        for i, row in enumerate(self.rows):
            if row is not None:
                self.register_buffer(f"row{i}", row)

    def forward(
        self, positions: torch.Tensor, cell: torch.Tensor, ptr: torch.Tensor
    ) -> torch.Tensor:
        features = self.descriptor.features(positions, self.numbers, ptr, cell)
        rows = [getattr(self, f"row{i}", None) for i in range(len(self.rows))]
        forces = OPERATORS.contract_forces(features, ptr, *rows)
        return self.pairs(positions, cell, ptr) + features.sum() + forces.abs().sum()


def test_the_library_loads_without_python(tmp_path: Path) -> None:
    source, binary = tmp_path / "main.c", tmp_path / "main"
    source.write_text(
        "#include <dlfcn.h>\n#include <stdio.h>\nint main(int n, char** arguments) {\n"
        "  if (dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL)) return 0;\n"
        "  puts(dlerror());\n  return 1;\n}\n"
    )
    libraries = Path(torch.__file__).parent / "lib"
    subprocess.run(["gcc", source, "-ldl", "-o", binary], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["LD_LIBRARY_PATH"] = str(libraries)
    done = subprocess.run([binary, library_path()], env=environment, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "")
    linked = subprocess.run(["ldd", library_path()], text=True, capture_output=True, check=True)
    assert "libpython" not in linked.stdout
    assert "torch_python" not in linked.stdout


@pytest.mark.exhaustive  # a compiler needs 20 seconds for the headers of torch, twice
@pytest.mark.timeout(600)
def test_compiled_package_runs_in_a_program_without_python(tmp_path: Path) -> None:
    positions = torch.arange(18, dtype=torch.float64).view(6, 3).sin() * 2 + 2
    cell = 4 * torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    given = (positions, cell, torch.tensor([0, 3, 6]))
    model = AllOperators()
    assert all(part != 0 for part in (model(*given) - Pairs()(*given), Pairs()(*given)))
    program = torch.export.export(model, given)
    package = tmp_path / "pairs.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(package))
    source, binary = tmp_path / "main.cpp", tmp_path / "main"
    source.write_text(PROGRAM)
    root = Path(torch.__file__).parent
    folders = [f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}"]
    libraries = [
        f"-L{root / 'lib'}",
        f"-Wl,-rpath,{root / 'lib'}",
        "-ltorch",
        "-ltorch_cpu",
        "-lc10",
        "-ldl",
    ]
    command = ["g++", "-std=c++20", "-O0", str(source), *folders, *libraries, "-o", str(binary)]
    subprocess.run(command, check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [binary, library_path(), package],
        env=environment,
        text=True,
        capture_output=True,
        check=True,
    )
    assert float(done.stdout) == pytest.approx(float(model(*given)), rel=1e-12)
