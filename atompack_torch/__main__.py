"""``python -m atompack_torch``, and the script ``atompack-torch``."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line; Ctrl-C ends it without a traceback from its first import on."""
    try:
        from atompack_torch import cli

        return cli.main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
