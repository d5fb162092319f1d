"""Trains a descriptor potential on features and derivatives that were computed once.

    python examples/04_descriptor_potential.py [FILE.atp] [--epochs 60]

Atoms are described by Chebyshev features, which a small network per element maps to energies.
Features and derivatives are written to a cache before training; a few epochs at the end compute
them again for each batch, to show what the cache saves. Molecules and cache are made if missing.

The potential is saved as ``descriptor_potential.pt``. ``DescriptorCalculator`` loads it and gives
energies and forces to ASE; at the end it relaxes one molecule of the test set.
"""

import argparse
import copy
import time
from functools import partial
from pathlib import Path
from statistics import median

import alloys
import torch
from ase import Atoms
from ase.calculators.calculator import Calculator, all_changes
from ase.data import chemical_symbols
from ase.optimize import BFGS
from evaluation import describe, draw, predict, table
from potential import element_energies
from torch import Tensor, nn
from torch.utils.data import DataLoader

import atompack_torch as apt

FIELDS = ["energy", "forces", "features", "force_derivatives"]
DESCRIPTOR = {"rad_order": 8, "rad_cutoff": 5.0, "ang_order": 3, "ang_cutoff": 3.5}
ENERGY_WEIGHT = 4.0  # of an error of 1 eV/atom relative to a force error of 1 eV/Å


class DescriptorPotential(nn.Module):
    """Energy as a sum over atoms, computed by one network per element from the atom's features.

    Args:
        reference: (119,) energy of one atom by atomic number, in eV; the networks learn the rest.
        species: elements with a network.
        mean, std: (F,) of the features of the training set.
    """

    def __init__(self, reference: Tensor, species: list[int], mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.species = species
        self.register_buffer("reference", reference)
        self.register_buffer("mean", mean)
        self.register_buffer("std", std.clamp(min=1e-12))
        self.networks = nn.ModuleList(network(len(mean)) for _ in species)

    def forward(self, batch: apt.MoleculeBatch) -> tuple[Tensor, Tensor]:
        """Returns energies (B,) in eV as float64, and forces (N, 3) in eV/Å."""
        x = ((batch.features - self.mean) / self.std).requires_grad_()
        atoms = x.new_zeros(len(x))
        for number, net in zip(self.species, self.networks, strict=True):
            (mine,) = torch.where(batch.atomic_numbers == number)
            atoms = atoms.index_add(0, mine, net(x[mine]).squeeze(-1))
        (slopes,) = torch.autograd.grad(atoms.sum(), x, create_graph=self.training)
        # With respect to the features, not the normalized ones: the derivatives are of the former.
        forces = apt.contract_forces(batch, slopes / self.std)
        energy = self.reference_energy(batch).index_add(0, batch.batch, atoms.double())
        return energy, forces

    def reference_energy(self, batch: apt.MoleculeBatch) -> Tensor:
        """Returns (B,) float64, the sum of the reference energies of each molecule's atoms."""
        energy = torch.zeros(len(batch), dtype=torch.float64)
        return energy.index_add_(0, batch.batch, self.reference[batch.atomic_numbers])


def network(n_features: int) -> nn.Sequential:
    """Returns two hidden layers; SiLU, because forces need a smooth derivative."""
    layers = nn.Linear(n_features, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1)
    return nn.Sequential(*layers)


def save(model: DescriptorPotential, path: Path) -> None:
    """Writes the weights and all that is needed to compute the same features again."""
    torch.save({"species": model.species, "descriptor": DESCRIPTOR, **model.state_dict()}, path)


def descriptor_of(species: list[int], orders: dict[str, float]) -> apt.ChebyshevDescriptor:
    """Returns the descriptor in float32; the order of the elements is part of it."""
    return apt.ChebyshevDescriptor(
        [chemical_symbols[number] for number in species], **orders, dtype="float32"
    )


class DescriptorCalculator(Calculator):
    """Energies (eV) and forces (eV/Å) of a potential that ``save`` wrote.

    Args:
        path: the file.
    """

    implemented_properties = ("energy", "forces")

    def __init__(self, path: Path) -> None:
        super().__init__()
        state = torch.load(path, weights_only=True)
        species = state.pop("species")
        self.descriptor = descriptor_of(species, state.pop("descriptor"))
        self.model = DescriptorPotential(state["reference"], species, state["mean"], state["std"])
        self.model.load_state_dict(state)
        self.model.eval()

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: tuple[str, ...] = ("energy",),
        system_changes: list[str] = all_changes,
    ) -> None:
        """Computes both, whichever ASE asks for."""
        super().calculate(atoms, properties, system_changes)
        batch = apt.from_structures([self.atoms])[:1]
        energy, forces = self.model(self.descriptor.compute(batch, derivatives=True))
        self.results = {"energy": energy.item(), "forces": forces.detach().numpy()}


def spread(dataset: apt.TorchCacheDataset) -> tuple[Tensor, Tensor]:
    """Returns mean and standard deviation of each feature over all atoms, in float64 sums."""
    sums, n_atoms = torch.zeros(2, 1, dtype=torch.float64), 0
    for batch in apt.Loader(dataset, 256):
        x = batch.features.double()
        sums, n_atoms = sums + torch.stack([x.sum(0), (x**2).sum(0)]), n_atoms + len(x)
    mean, square = sums / n_atoms
    return mean.float(), (square - mean**2).clamp(min=0).sqrt().float()


def train(
    model: DescriptorPotential,
    dataset: apt.TorchCacheDataset | apt.AtpDataset,
    validation: DataLoader | None,
    epochs: int,
    options: argparse.Namespace,
) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Fits the model; returns validation errors by epoch, and the seconds per epoch.

    Medians: the total, and the time spent waiting for batches.
    """
    loader = apt.Loader(dataset, options.batch_size, shuffle=True, seed=options.seed)
    optimizer = torch.optim.Adam(model.parameters())
    steps = {"epochs": options.epochs, "steps_per_epoch": len(loader)}
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.learning_rate, **steps)
    curve, seconds, waits = [], [], []
    for epoch in range(epochs):
        dataset.set_epoch(epoch)  # draws other molecules for force training
        start = asked = time.perf_counter()
        total = waited = 0.0
        for batch in loader:
            waited += time.perf_counter() - asked
            energy, forces = model(batch)
            energy_loss = ((energy - batch.energy) / batch.n_atoms).abs().mean()
            supervised = batch.mask("forces")[batch.batch]  # the rest is NaN
            force_loss = (forces - batch.forces)[supervised].norm(dim=1).sum()
            loss = ENERGY_WEIGHT * energy_loss + force_loss / supervised.sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() / len(loader)
            asked = time.perf_counter()
        seconds.append(time.perf_counter() - start)
        waits.append(waited)
        line = f"epoch {epoch + 1:3}/{epochs}  loss {total:.4f}"
        if validation is not None:
            curve.append(predict(model, validation).errors())
            energy_error, force_error = curve[-1]
            line += f"  validation {1000 * energy_error:6.1f} meV/atom {force_error:.3f} eV/Å"
        print(f"{line}  {seconds[-1]:.1f} s", flush=True)
    return curve, (median(seconds), median(waits))


def relax(atoms: Atoms, saved: Path) -> None:
    """Moves the atoms to lower energies, by 10 steps of BFGS."""
    atoms.calc = DescriptorCalculator(saved)
    before = atoms.get_potential_energy()
    BFGS(atoms, logfile=None).run(fmax=0.01, steps=10)
    after = atoms.get_potential_energy()
    print(f"saved: {saved}; 10 steps of BFGS: {before:.3f} eV to {after:.3f} eV\n")


def parse() -> argparse.Namespace:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("path", nargs="?", type=Path, help="an .atp file with energies, forces, cell and pbc")
    add("--molecules", type=int, default=1000, help="to make or to take (default: %(default)s)")
    add("--epochs", type=int, default=60)
    add("--recompute", type=int, default=5, help="epochs without the cache (default: %(default)s)")
    add("--batch-size", type=int, default=16)
    add("--learning-rate", type=float, default=0.01)
    add("--force-fraction", type=float, default=0.5, help="of an epoch (default: %(default)s)")
    add("--seed", type=int, default=0)
    add("--out", type=Path, default=Path("build/demo"), help="folder (default: %(default)s)")
    return parser.parse_args()


def main() -> None:
    """Computes, trains, tests, compares."""
    options = parse()
    torch.manual_seed(options.seed)
    made = options.out / f"alloys-{options.molecules}-{options.seed}.atp"
    path = options.path or alloys.ensure(made, options.molecules, options.seed)
    numbers = range(min(options.molecules, len(apt.AtpDataset(path))))
    reference = element_energies(apt.AtpDataset(path, fields=["energy"]).statistics())
    species = torch.nonzero(reference).flatten().tolist()
    descriptor = descriptor_of(species, DESCRIPTOR)

    # One pass over the data; no descriptor is computed again.
    file = options.out / f"{path.stem}-{len(numbers)}.h5"
    if not file.exists():
        options.out.mkdir(parents=True, exist_ok=True)
        molecules = apt.AtpDataset(path).subset(numbers)
        apt.build_cache(molecules, descriptor, file, force_derivatives=True, dtype="float32")
    common = {"fields": FIELDS, "dtype": torch.float32}
    part = {"force_subset": apt.ForceSubset(options.force_fraction, resample=True)}
    cached = apt.TorchCacheDataset(file, **common, **part)
    computed = apt.AtpDataset(path, features=descriptor, **common, **part).subset(numbers)

    fractions, seed = [0.8, 0.1, 0.1], options.seed
    training, again = (dataset.split(fractions, seed)[0] for dataset in (cached, computed))
    tests = apt.TorchCacheDataset(file, **common).split(fractions, seed)[1:]
    validation, test = (DataLoader(dataset, batch_size=64) for dataset in tests)
    sizes = " + ".join(str(len(dataset)) for dataset in (training, *tests))
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB, {sizes} to train, validate and test")

    model = DescriptorPotential(reference, species, *spread(training))
    untrained = copy.deepcopy(model)
    curve, seconds = train(model, training, validation, options.epochs, options)
    result = predict(model, test)
    print("\n" + table(result, training.statistics().energy_per_atom.mean))
    picture = options.out / "descriptor_potential.png"
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    name = f"Descriptor potential, {n_parameters:,} parameters, {options.epochs} epochs"
    data = f"{path.name}: {describe(training.statistics(), len(test.dataset))}"
    draw(result, curve, picture, name, data)
    print(f"picture: {picture}\n")

    saved = options.out / "descriptor_potential.pt"
    save(model, saved)
    relax(apt.AtpDataset(path)[int(numbers[tests[1].selection[0]])].to_ase(), saved)

    if options.recompute:
        print("the same with features and derivatives computed for each batch:")
        _, without = train(untrained, again, None, options.recompute, options)
        for kind, (whole, waited) in (("from the cache", seconds), ("computed", without)):
            print(f"{kind:14} {whole:5.2f} s an epoch, of which {waited:.2f} s waiting for batches")


if __name__ == "__main__":
    main()
