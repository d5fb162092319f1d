"""Fixtures of all tests here."""

from s3_servers import moto, rclone, server

__all__ = ["moto", "rclone", "server"]
