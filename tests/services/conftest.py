"""Fixtures of all tests here, and the modules of ``tests/remote``, for both test remote stores."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "remote"))

from browsers import browser
from s3_servers import moto, rclone, server

__all__ = ["browser", "moto", "rclone", "server"]
