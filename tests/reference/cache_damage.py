"""Damage done to a feature cache by h5py, one edit for each name."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py

SOURCE = "v2_both_f64_two"
Edit = Callable[[h5py.File], None]


def _set(group: str, attribute: str, value: object) -> Edit:
    def edit(file: h5py.File) -> None:
        assert attribute in file[group].attrs
        file[group].attrs[attribute] = value

    return edit


def _remove(name: str) -> Edit:
    def edit(file: h5py.File) -> None:
        del file[name]

    return edit


def _remove_storage_dtype(file: h5py.File) -> None:
    del file["torch_cache"].attrs["storage_dtype"]


EDITS: dict[str, Edit] = {
    "bad_cache_format": _set("torch_cache", "cache_format", "something.else"),
    "bad_manifest_class": _set("descriptor_manifest", "descriptor_class", "a.B"),
    "bad_manifest_json": _set("descriptor_manifest", "config_json", "{"),
    "bad_manifest_schema": _set("descriptor_manifest", "schema_version", 2),
    "bad_manifest_sha256": _set("descriptor_manifest", "config_sha256", "0" * 64),
    "bad_payload_format": _set("torch_cache/force_derivatives", "payload_format", "x"),
    "bad_schema_version": _set("torch_cache", "schema_version", 3),
    "bad_section_schema": _set("torch_cache/force_derivatives", "schema_version", 9),
    "bad_section_sha256": _set(
        "torch_cache/force_derivatives", "descriptor_compat_sha256", "0" * 64
    ),
    "bad_sha256": _set("torch_cache", "descriptor_compat_sha256", "0" * 64),
    "flag_without_section": _remove("torch_cache/features"),
    "missing_attr": _remove_storage_dtype,
    "missing_meta": _remove("entries/meta"),
    "missing_structures": _remove("entries/structures"),
    "section_without_flag": _set("torch_cache", "contains_features", False),
}


def damage_all(folder: Path, target: Path) -> Path:
    """A folder with every damaged cache: those of ``folder/damaged``, the others made here."""
    shutil.copytree(folder / "damaged", target, copy_function=shutil.copyfile)
    for name, edit in EDITS.items():
        path = target / f"{name}.h5"
        if path.exists():
            continue
        shutil.copyfile(folder / f"{SOURCE}.h5", path)
        with h5py.File(path, "r+") as file:
            edit(file)
    return target
