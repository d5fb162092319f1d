"""Changes files inside wheels, and keeps RECORD true."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def read(wheel: Path) -> dict[str, bytes]:
    """All files of a wheel by name, in their order."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def metadata_name(names: object) -> str:
    """The name of METADATA among the names of a wheel's files."""
    (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))  # type: ignore[attr-defined]
    return str(name)


def _record_line(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def replace(wheel: Path, changed: dict[str, bytes]) -> None:
    """Replaces or adds files of a wheel; all others stay as they are, with their permissions."""
    with zipfile.ZipFile(wheel) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    names = [info.filename for info, _ in members]
    record_name = metadata_name(names).replace("METADATA", "RECORD")
    (record,) = (data for info, data in members if info.filename == record_name)
    lines = [
        line
        for line in record.decode().splitlines()
        if line.rsplit(",", 2)[0] not in {*changed, record_name}
    ]
    lines += [_record_line(name, data) for name, data in changed.items()]
    changed = {**changed, record_name: "\n".join([*lines, f"{record_name},,", ""]).encode()}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, old in members:
            archive.writestr(info, changed.pop(info.filename, old), zipfile.ZIP_DEFLATED)
        for name, data in changed.items():
            archive.writestr(name, data, zipfile.ZIP_DEFLATED)
