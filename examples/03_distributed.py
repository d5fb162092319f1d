"""Train the potential of 02_train.py on several processes; go on after a crash on any number.

    torchrun --standalone --nproc-per-node 2 examples/03_distributed.py [FILE.atp] --epochs 3
    torchrun --standalone --nproc-per-node 4 examples/03_distributed.py [FILE.atp] --resume
    python examples/03_distributed.py [FILE.atp]

Without a file it makes a small one of its own, beside this script.
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import alloys
import torch
import torch.distributed as dist
from potential import NeighborTable, Potential
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import atompack_torch as apt

FIELDS = ["energy", "forces", "cell", "pbc"]
CUTOFF = 5.0  # Å
ENERGY_WEIGHT = 2.0  # of an error of 1 eV/atom, against a force that is wrong by 1 eV/Å


def join() -> torch.device:
    """Join the other ranks, or be the only one where torchrun did not start this script."""
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", dist.get_node_local_rank(0))
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if dist.is_torchelastic_launched():
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return device


def element_energies(dataset: apt.AtpDataset) -> Tensor:
    """Return the energy of one atom by atomic number, (119,) float64, fitted to all energies."""
    fit = dataset.statistics().reference_energies
    if fit is None:
        raise SystemExit("no molecule has atoms and an energy")
    energies = torch.zeros(119, dtype=torch.float64)
    energies[list(fit.energies)] = torch.tensor(list(fit.energies.values()), dtype=torch.float64)
    return energies


def loss_of(
    batch: apt.MoleculeBatch, energy: Tensor, forces: Tensor, sizes: Tensor, n_ranks: int
) -> Tensor:
    """Return this rank's part of the mean error over the batches of all ranks.

    Their batches have the same atoms, nearly, but not the same number of molecules; so errors are
    divided by what the ranks have together, ``sizes``. DDP divides gradients by ``n_ranks``.
    """
    energy_error = ((energy - batch.energy) / batch.n_atoms).abs().sum()
    force_error = (forces - batch.forces).norm(dim=1).sum()
    n_molecules, n_atoms = sizes.sum(0)
    return n_ranks * (ENERGY_WEIGHT * energy_error / n_molecules + force_error / n_atoms)


def train(
    model: DistributedDataParallel,
    neighbors: NeighborTable,
    loader: apt.Loader,
    device: torch.device,
    options: argparse.Namespace,
) -> None:
    """Train to the last epoch, from the checkpoint on if it is to be resumed."""
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    optimizer, step = torch.optim.Adam(model.parameters(), lr=options.learning_rate), 0
    if options.resume:
        state = torch.load(options.checkpoint, map_location=device, weights_only=True)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])  # of rank 0, and it holds for every rank
        step = state["step"]

    def checkpoint() -> None:
        parts = {"model": model.module, "optimizer": optimizer, "loader": loader}
        states = {name: part.state_dict() for name, part in parts.items()}
        unfinished = options.checkpoint.with_suffix(".new")
        torch.save({**states, "step": step}, unfinished)
        unfinished.replace(options.checkpoint)  # who dies before leaves the old one

    sizes = torch.zeros(n_ranks, 2, device=device)  # molecules and atoms of each rank's batch
    # Since the last report: steps, loss, atoms, by how much the largest batch is above the mean.
    sums, start = torch.zeros(4, device=device), time.perf_counter()
    while (epoch := loader.epoch) < options.epochs:
        for batch in loader:
            mine = sizes.new_tensor([len(batch), len(batch.positions)])
            dist.all_gather(list(sizes), mine)
            with device:  # where the model puts what it makes itself
                energy, forces = model(batch, neighbors)
            loss = loss_of(batch, energy, forces, sizes, n_ranks)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            step += 1

            atoms = sizes[:, 1]
            excess = atoms.max() / atoms.mean() - 1
            sums += torch.stack([torch.ones_like(excess), loss.detach(), mine[1], excess])
            if step % options.every:
                continue
            dist.reduce(sums, 0)
            if rank == 0:
                checkpoint()
                n, losses, n_atoms, imbalance = sums.tolist()
                seconds = time.perf_counter() - start
                print(
                    f"epoch {epoch + 1}/{options.epochs}  step {step:5}"
                    f"  loss {losses / n:.4f}  {n_atoms / seconds:,.0f} atoms/s"
                    f"  imbalance {imbalance / n:.1%}",
                    flush=True,
                )
            sums, start = torch.zeros_like(sums), time.perf_counter()
    if rank == 0:
        checkpoint()
        print(f"{step} steps; the model is in {options.checkpoint}")


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = partial(parser.add_argument, help="(default: %(default)s)")
    add("path", nargs="?", type=Path, help="an .atp file with energies, forces, cell and pbc")
    add("--epochs", type=int, default=3)
    add("--max-atoms", type=int, default=1024, help="in a batch of a rank (default: %(default)s)")
    add("--learning-rate", type=float, default=0.005)
    add("--seed", type=int, default=0)
    add("--every", type=int, default=10, help="steps to a checkpoint (default: %(default)s)")
    add("--checkpoint", type=Path, default=Path("build/checkpoint.pt"))
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    return parser.parse_args()


def main() -> None:
    """Join, read, train."""
    options = parse()
    # It says so of the gradient of a (1, n) matrix, whose strides are the same memory either way.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
    device = join()
    options.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    path = options.path or Path(__file__).with_name("alloys-1000.atp")
    if dist.get_rank() == 0 and options.path is None:
        alloys.ensure(path, structures=1000)
    dist.barrier()  # the file is there

    dataset = apt.AtpDataset(path, fields=FIELDS, missing="error")
    sampler = apt.AtomBudgetBatchSampler(dataset, options.max_atoms, seed=options.seed)
    pinned = device.type == "cuda"
    loader = apt.Loader(dataset, batch_sampler=sampler, pin_memory=pinned, device=device)
    neighbors = NeighborTable(dataset, CUTOFF)  # small enough here for every rank to have its own
    for name, table in vars(neighbors).items():
        setattr(neighbors, name, table.to(device))
    torch.manual_seed(options.seed)
    model = Potential(element_energies(dataset), CUTOFF).to(device)
    train(DistributedDataParallel(model), neighbors, loader, device, options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
