"""``python -m atompack_torch.trainers.matgl``: the command ``mgl`` on any data."""

import sys

from atompack_torch.trainers.matgl._command import main

if __name__ == "__main__":
    sys.exit(main())
