"""Read an .atp file in shuffled batches: the five-line loop.

    python examples/01_read_batches.py [FILE.atp]

Without a file it makes a small one of its own, beside this script.
"""

import argparse
from pathlib import Path

import alloys
from torch.utils.data import DataLoader

import atompack_torch as apt


def main() -> None:
    """Print what the first batches of a file hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", nargs="?", type=Path, help="an .atp file (default: makes one)")
    parser.add_argument("--batch-size", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, default=0, help="worker processes (default: none)")
    options = parser.parse_args()
    path = options.path or alloys.ensure(Path(__file__).with_name("alloys.atp"), structures=200)

    dataset = apt.AtpDataset(path)
    print(f"{path}: {len(dataset)} molecules, {int(dataset.n_atoms.sum())} atoms")
    loader = DataLoader(dataset, options.batch_size, shuffle=True, num_workers=options.workers)
    for number, batch in enumerate(loader):
        if number < 3:
            print(batch)

    print(f"{len(loader)} batches; the last one in full:")
    for key in batch.keys():  # noqa: SIM118 (iterating over a batch would give its molecules)
        value = batch[key]
        shape = f"{tuple(value.shape)} {value.dtype}" if hasattr(value, "dtype") else "list"
        labelled = int(batch.mask(key).sum())
        print(f"  {key:16} {batch.level(key):9} {shape:28} in {labelled} of {len(batch)} molecules")


if __name__ == "__main__":
    main()
