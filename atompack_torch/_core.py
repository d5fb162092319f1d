"""Sole importer of the native extension with torch; ``_native`` has everything without torch."""

from __future__ import annotations

from pathlib import Path

from atompack_torch._native import REBUILD, built_for, not_built, not_loadable


def _check_torch_version() -> None:
    # A C++ extension works only with the torch it was compiled for; without this check, the loader
    # would report a cryptic undefined symbol.
    version = built_for().split("+")[0]
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(
            f"atompack_torch needs torch {version}, and no torch is installed: "
            f"`pip install torch=={version}`"
        ) from None
    if torch.__version__.split("+")[0] != version:
        raise ImportError(
            f"atompack_torch was built for torch {version} but torch {torch.__version__} is "
            f"installed: `pip install torch=={version}`, or {REBUILD}"
        )


_check_torch_version()

try:
    from atompack_torch import _C
    from atompack_torch._C import *  # noqa: F403  # its names are listed in its stub alone
except ModuleNotFoundError as error:
    if error.name != "atompack_torch._C":
        raise
    raise ImportError(not_built("_C")) from None
except ImportError as error:
    raise ImportError(not_loadable(error)) from None


def native_folder() -> Path:
    """Returns the folder of the native libraries."""
    return Path(_C.__file__).parent
