"""Hidden names for outputs that libraries write, and removal of those that killed processes left.

Such outputs cannot hold a lock, so their names tell the process that writes them.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import os
import secrets
import shutil
import socket
from pathlib import Path


def hidden_part(target: Path) -> Path:
    """Returns a new hidden path beside a target, after removing those of dead processes.

    Parts of other machines and containers are left alone, since nothing tells whether their
    processes run.

    Args:
        target: the path that the output gets when it is complete.

    Returns:
        The hidden path; nothing is there.
    """
    begin = f".{target.name}.{_system()}-"
    for path in target.parent.glob(f"{glob.escape(begin)}*"):
        pid, _, _ = path.name.removeprefix(begin).partition("-")
        if pid.isdecimal() and not _is_running(int(pid)):
            _remove(path)
    return target.with_name(f"{begin}{os.getpid()}-{secrets.token_hex(4)}.part")


@functools.cache
def _system() -> str:
    """Identifies the space of process ids: machine, boot, container."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        place = Path(path)
        if place.is_symlink():
            parts.append(str(place.readlink()))
        elif place.exists():
            parts.append(place.read_text())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
