"""A small message-passing potential in plain PyTorch, for batches with edges."""

import math

import torch
from torch import Tensor, nn

from atompack_torch import MoleculeBatch
from atompack_torch.datasets.statistics import Statistics


class Potential(nn.Module):
    """Energy as a sum over atoms, after two rounds of messages between neighbors.

    A message depends only on the distance and the sender, so the energy is invariant under
    translation and rotation; forces are its exact derivative. Batches need each pair of neighbors
    once, as ``NeighborList(cutoff, full=False, vectors=True)`` lists them.

    Args:
        reference: (119,) energy of one atom by atomic number, in eV; the network learns the rest.
        cutoff: in Å; messages vanish smoothly there.
    """

    reference: Tensor
    frequencies: Tensor

    def __init__(
        self,
        reference: Tensor,
        cutoff: float,
        channels: int = 32,
        n_radial: int = 12,
        rounds: int = 2,
    ) -> None:
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("reference", reference)
        self.register_buffer("frequencies", torch.arange(1, n_radial + 1) * math.pi / cutoff)
        self.embedding = nn.Embedding(len(reference), channels)
        self.filters = nn.Linear(n_radial, rounds * channels, bias=False)
        self.gates = nn.ModuleList(nn.Linear(channels, channels) for _ in range(rounds))
        self.updates = nn.ModuleList(perceptron(channels, channels) for _ in range(rounds))
        self.readout = perceptron(channels, 1)

    def radial_basis(self, distance: Tensor) -> Tensor:
        """Expands distances (E,) in sine waves (E, n_radial) that end smoothly at the cutoff."""
        x = (distance / self.cutoff).unsqueeze(-1)
        switch = (1 - x**2) ** 2 * (x < 1)
        return switch / x * torch.sin(self.frequencies * distance.unsqueeze(-1))

    def atom_energies(self, numbers: Tensor, i: Tensor, j: Tensor, distance: Tensor) -> Tensor:
        """Returns (N,), the contribution of each atom to the energy, without its reference."""
        filters = self.filters(self.radial_basis(distance)).chunk(len(self.gates), 1)
        state = self.embedding(numbers)
        for filter_, gate, update in zip(filters, self.gates, self.updates, strict=True):
            received = torch.zeros_like(state)
            for here, there in ((i, j), (j, i)):  # one filter for both directions of a pair
                received.index_add_(0, here, filter_ * state.index_select(0, there))
            state = state + update(received * gate(state))
        return self.readout(state).squeeze(-1)

    def forward(self, batch: MoleculeBatch) -> tuple[Tensor, Tensor]:
        """Returns energies (B,) in eV as float64, and forces (N, 3) in eV/Å."""
        i, j = batch.edge_index
        vector = batch.edge_vector.detach().requires_grad_()  # r_j - r_i, also across cells
        atoms = self.atom_energies(batch.atomic_numbers, i, j, vector.norm(dim=-1))
        (pull,) = torch.autograd.grad(atoms.sum(), vector, create_graph=self.training)
        forces = torch.zeros_like(batch.positions).index_add(0, i, pull).index_add(0, j, -pull)
        # Totals in float64: they may be large, and the differences that matter are small.
        energy = self.reference_energy(batch).index_add(0, batch.batch, atoms.double())
        return energy, forces

    def reference_energy(self, batch: MoleculeBatch) -> Tensor:
        """Returns (B,) float64, the sum of the reference energies of each molecule's atoms."""
        energy = torch.zeros(len(batch), dtype=torch.float64, device=batch.ptr.device)
        return energy.index_add_(0, batch.batch, self.reference[batch.atomic_numbers])


def element_energies(statistics: Statistics) -> Tensor:
    """Returns the energy of one atom by atomic number, (119,) float64, fitted to total energies."""
    fit = statistics.reference_energies
    if fit is None:
        raise SystemExit("no molecule has atoms and an energy")
    energies = torch.zeros(119, dtype=torch.float64)
    energies[list(fit.energies)] = torch.tensor(list(fit.energies.values()), dtype=torch.float64)
    return energies


def perceptron(n_in: int, n_out: int) -> nn.Sequential:
    """Returns two layers; SiLU, because forces need a smooth derivative."""
    return nn.Sequential(nn.Linear(n_in, n_in), nn.SiLU(), nn.Linear(n_in, n_out))
