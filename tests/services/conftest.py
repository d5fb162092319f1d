"""Fixtures of all tests here."""

from browsers import browser
from s3_servers import moto, rclone, server

__all__ = ["browser", "moto", "rclone", "server"]
