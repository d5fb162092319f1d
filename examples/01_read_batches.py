"""Reads an .atp file in shuffled batches.

    python examples/01_read_batches.py [FILE.atp]

Without a file it makes a small one, alloys.atp in the working directory.
"""

import argparse
from collections import Counter
from pathlib import Path

import alloys
from torch.utils.data import DataLoader

import atompack_torch as apt


def main() -> None:
    """Prints a batch, then reads the whole file and counts its labels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", nargs="?", type=Path, help="an .atp file (default: makes one)")
    parser.add_argument("--batch-size", type=int, default=64, help="(default: %(default)s)")
    parser.add_argument("--workers", type=int, default=0, help="worker processes (default: none)")
    options = parser.parse_args()
    path = options.path or alloys.ensure(Path("alloys.atp"), molecules=200)

    dataset = apt.AtpDataset(path)
    print(dataset[:3])  # a batch of the first three molecules

    if len(dataset) == 0:
        raise SystemExit(f"{path}: no molecules to read")
    labelled: Counter[str] = Counter()
    loader = DataLoader(dataset, options.batch_size, shuffle=True, num_workers=options.workers)
    for batch in loader:
        # A missing label is NaN (strings: None) in the batch, never zero, and masked.
        labelled.update({name: int(batch.mask(name).sum()) for name in dataset.schema})

    print(f"{path}: {len(dataset)} molecules in {len(loader)} batches")
    for name, count in labelled.items():
        print(f"  {count} with {name}")


if __name__ == "__main__":
    main()
