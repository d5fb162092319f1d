"""Memory for molecules that stay resident: how much there is, and how much is needed."""

from __future__ import annotations

from pathlib import Path

import torch

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(device: torch.device) -> int | None:
    """Returns the free memory of a device in bytes; None if the system does not tell.

    On the CPU it is what the system can give without swapping, within the limit of the container.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    if device.type != "cpu":
        return None
    limits = [_system_bytes(), _container_bytes()]
    return min((limit for limit in limits if limit is not None), default=None)


def check_memory(needed: int, device: torch.device, max_bytes: int | None) -> None:
    """Checks that molecules fit into memory, before any of it is allocated.

    Args:
        needed: bytes of all tensors.
        device: where they are to be.
        max_bytes: limit of the user; None: only that of the device.

    Raises:
        MemoryError: more bytes are needed than ``max_bytes`` allows or the device has.
    """
    if max_bytes is not None and needed > max_bytes:
        raise MemoryError(
            f"resident molecules: {needed:,} bytes are needed on {device}, and max_bytes is "
            f"{max_bytes:,}"
        )
    free = available_bytes(device)
    if free is not None and needed > free:
        raise MemoryError(
            f"resident molecules: {needed:,} bytes are needed on {device}, and {free:,} are free"
        )


def _system_bytes() -> int | None:
    if not _MEMINFO.exists():
        return None
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _container_bytes() -> int | None:
    """Returns the bytes left under the limit of the control group (version 2), if there is one."""
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if not limit.exists() or not used.exists():
        return None
    text = limit.read_text().strip()
    return None if text == "max" else max(int(text) - int(used.read_text()), 0)
