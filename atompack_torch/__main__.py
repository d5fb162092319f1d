"""``python -m atompack_torch``."""

import sys

from atompack_torch.cli import main

sys.exit(main())
