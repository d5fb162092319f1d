"""``python -m atompack_torch.trainers.schnetpack ARGS``: SchNetPack's ``spktrain ARGS``.

Version 2.1 of that command does not start with torch 2.13, which lacks a name that it imports and
that this package adds.
"""

import schnetpack.cli

if __name__ == "__main__":
    schnetpack.cli.train()
