"""Trains on batches of a few static shapes: one compiled step, or one CUDA graph, for each shape.

    python examples/08_static_shapes.py [FILE.atp] [--epochs 3] [--buckets 4]

Batches are padded with a dummy molecule, which masks keep out of the loss. On a GPU the whole
step, with energies, forces and all gradients, is captured in a CUDA graph for each shape and
replayed; on the CPU it is compiled by torch.compile. Both are made once for each shape, in the
first epoch.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import alloys
import torch
from potential import Potential, element_energies
from torch import Tensor

import atompack_torch as apt

CUTOFF = 5.0  # Å
ENERGY_WEIGHT = 2.0  # of an error of 1 eV/atom relative to a force error of 1 eV/Å
WARM_UP = 3  # steps before a graph is captured, as torch asks for

Result = tuple[Tensor, tuple[Tensor, ...]]  # the loss, and its gradient by parameter
Step = Callable[[apt.MoleculeBatch], Result]


def loss_of(model: Potential, batch: apt.MoleculeBatch) -> Tensor:
    """Returns the loss of a padded batch; rows of padding count for nothing."""
    energy, forces = model(batch)
    per_atom = (energy - batch.energy).abs() / batch.n_atoms.clamp(min=1)
    energy_loss = (per_atom * batch.molecule_mask).sum() / batch.molecule_mask.sum()
    force_loss = ((forces - batch.forces).norm(dim=1) * batch.atom_mask).sum()
    return ENERGY_WEIGHT * energy_loss + force_loss / batch.atom_mask.sum()


class CapturedStep:
    """A step as a CUDA graph: the batch is copied into the graph's own, and the graph replayed."""

    def __init__(self, step: Step, batch: apt.MoleculeBatch) -> None:
        self._batch = batch.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                step(self._batch)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = step(self._batch)

    def __call__(self, batch: apt.MoleculeBatch) -> Result:
        """Replays the step on a batch of the graph's shape."""
        ours, theirs = self._batch.to_dlpack(), batch.to_dlpack()
        for name, tensor in ours.items():
            tensor.copy_(theirs[name], non_blocking=True)
        self._graph.replay()
        return self._result


class StaticSteps:
    """The step for each shape, made when the shape comes first."""

    def __init__(self, model: Potential, backend: str) -> None:
        parameters = list(model.parameters())

        def step(batch: apt.MoleculeBatch) -> Result:
            loss = loss_of(model, batch)
            return loss.detach(), torch.autograd.grad(loss, parameters)

        self._step = step
        self._compiled: Step = torch.compile(step, fullgraph=True, dynamic=False, backend=backend)
        self._made: dict[tuple[int, ...], Step] = {}
        self.seconds = 0.0  # spent making them

    def __len__(self) -> int:
        return len(self._made)

    def __call__(self, batch: apt.MoleculeBatch) -> Result:
        """Takes a step on a padded batch."""
        shape = (len(batch), len(batch.positions), batch.edge_index.shape[1])
        if shape in self._made:
            return self._made[shape](batch)
        start = time.perf_counter()
        on_gpu = batch.positions.device.type == "cuda"
        self._made[shape] = CapturedStep(self._step, batch) if on_gpu else self._compiled
        result = self._made[shape](batch)
        self.seconds += time.perf_counter() - start
        return result


def parse() -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("path", nargs="?", type=Path, help="an .atp file with energies and forces")
    add("--molecules", type=int, default=1200, help="to make (default: %(default)s)")
    add("--epochs", type=int, default=3)
    add("--max-atoms", type=int, default=512, help="of a batch (default: %(default)s)")
    add("--buckets", type=int, default=4, help="number of shapes (default: %(default)s)")
    add("--backend", default="inductor", help="of torch.compile (default: %(default)s)")
    add("--out", type=Path, default=Path("build/demo"), help="folder (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    """Reads, samples, trains."""
    options = parse()
    torch.manual_seed(0)
    torch._dynamo.config.trace_autograd_ops = True  # the step contains its own derivatives
    device = "cuda" if torch.cuda.is_available() else "cpu"
    path = options.path or alloys.ensure(
        options.out / f"alloys-{options.molecules}-0.atp", options.molecules
    )
    neighbors = apt.NeighborList(CUTOFF, full=False, vectors=True)
    dataset = apt.AtpDataset(
        path,
        fields=["energy", "forces"],
        dtype=torch.float32,
        missing="error",
        neighbors=neighbors,
    )
    sampler = apt.BucketBatchSampler(
        dataset, options.max_atoms, buckets=options.buckets, edges=neighbors.count(dataset)
    )
    for shape in sampler.shapes:
        print(f"shape: {shape.molecules} molecules, {shape.atoms} atoms, {shape.edges} edges")
    print(
        ", ".join(f"{share:.1%} of {what} are padding" for what, share in sampler.padding.items())
    )

    model = Potential(element_energies(dataset.statistics()), CUTOFF).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    steps = StaticSteps(model, options.backend)
    loader = apt.Loader(dataset, batch_sampler=sampler)
    for epoch in range(1, options.epochs + 1):
        start, made, total = time.perf_counter(), steps.seconds, torch.zeros(())
        for batch in loader:
            padded = batch.padded_to(**sampler.shape_of(batch)._asdict()).to(device)
            loss, gradients = steps(padded)
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
            total = total + loss.cpu()
        made = steps.seconds - made
        seconds = time.perf_counter() - start - made
        print(
            f"epoch {epoch}/{options.epochs}  loss {total / len(sampler):.3f}"
            f"  {len(dataset) / seconds:,.0f} molecules/s; {made:.1f} s to make steps",
            flush=True,
        )
    print(f"{len(steps)} steps for {len(sampler.shapes)} shapes")


if __name__ == "__main__":
    main()
