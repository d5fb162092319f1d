"""Trains the potential of 02_train.py on several processes; resumes on any number of them.

    torchrun --standalone --nproc-per-node 2 examples/03_distributed.py [FILE.atp] --epochs 3
    torchrun --standalone --nproc-per-node 4 examples/03_distributed.py [FILE.atp] --resume
    python examples/03_distributed.py [FILE.atp]

Without a file it makes a small one, alloys-1000.atp in the working directory.
"""

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import alloys
import torch
import torch.distributed as dist
from potential import Potential, element_energies
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import atompack_torch as apt

FIELDS = ["energy", "forces", "cell", "pbc"]
CUTOFF = 5.0  # Å
ENERGY_WEIGHT = 2.0  # of an error of 1 eV/atom relative to a force error of 1 eV/Å


def join() -> torch.device:
    """Joins the other ranks, or runs alone if torchrun did not start this script."""
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


def loss_of(batch: apt.MoleculeBatch, energy: Tensor, forces: Tensor) -> Tensor:
    """Returns this rank's part of the mean error over the batches of all ranks.

    These have nearly equal numbers of atoms, but different numbers of molecules; errors are
    therefore divided by the total over all ranks. DDP divides gradients by the number of ranks.
    """
    energy_error = ((energy - batch.energy) / batch.n_atoms).abs().sum()
    force_error = (forces - batch.forces).norm(dim=1).sum()
    sizes = energy.new_tensor([len(batch), len(batch.positions)])
    dist.all_reduce(sizes)
    error = ENERGY_WEIGHT * energy_error / sizes[0] + force_error / sizes[1]
    return dist.get_world_size() * error


def train(
    model: DistributedDataParallel,
    loader: apt.Loader,
    device: torch.device,
    options: argparse.Namespace,
) -> None:
    """Trains to the last epoch, starting from the checkpoint if requested."""
    optimizer, step = torch.optim.Adam(model.parameters(), lr=options.learning_rate), 0
    parts = {"model": model.module, "optimizer": optimizer, "loader": loader}
    if options.resume:
        state = torch.load(options.checkpoint, map_location=device, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(state[name])  # saved by rank 0, valid for every rank
        step = state["step"]

    def checkpoint() -> None:
        states = {name: part.state_dict() for name, part in parts.items()}
        unfinished = options.checkpoint.with_suffix(".new")
        torch.save({**states, "step": step}, unfinished)
        unfinished.replace(options.checkpoint)  # the old one stays if the process dies before this

    # Since the last report: steps, loss, atoms.
    sums, start = torch.zeros(3, device=device), time.perf_counter()
    while (epoch := loader.epoch) < options.epochs:
        for batch in loader:
            with device:  # device of tensors that the model creates
                energy, forces = model(batch)
            loss = loss_of(batch, energy, forces)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            step += 1
            sums += torch.stack([torch.ones_like(loss), loss.detach(), batch.n_atoms.sum()])
            if step % options.every:
                continue
            dist.reduce(sums, 0)
            if dist.get_rank() == 0:
                checkpoint()
                n, losses, n_atoms = sums.tolist()
                print(
                    f"epoch {epoch + 1}/{options.epochs}  step {step:5}  loss {losses / n:.4f}"
                    f"  {n_atoms / (time.perf_counter() - start):,.0f} atoms/s",
                    flush=True,
                )
            sums, start = torch.zeros_like(sums), time.perf_counter()
    if dist.get_rank() == 0:
        checkpoint()
        print(f"{step} steps; the model is in {options.checkpoint}")


def parse() -> argparse.Namespace:
    """Returns the options of the command line."""
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
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint")
    return parser.parse_args()


def main() -> None:
    """Joins, reads, trains."""
    options = parse()
    # It warns about the gradient of a (1, n) matrix, for which both strides mean the same memory.
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
    device = join()
    options.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    path = options.path or Path("alloys-1000.atp")
    if dist.get_rank() == 0 and options.path is None:
        alloys.ensure(path, molecules=1000)
    dist.barrier()  # the file exists

    neighbors = apt.NeighborList(CUTOFF, full=False, vectors=True)
    dataset = apt.AtpDataset(
        path, fields=FIELDS, dtype=torch.float32, missing="error", neighbors=neighbors
    )
    sampler = apt.AtomBudgetBatchSampler(dataset, options.max_atoms, seed=options.seed)
    pinned = device.type == "cuda"
    loader = apt.Loader(dataset, batch_sampler=sampler, pin_memory=pinned, device=device)
    torch.manual_seed(options.seed)
    model = Potential(element_energies(dataset.statistics()), CUTOFF).to(device)
    train(DistributedDataParallel(model), loader, device, options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
