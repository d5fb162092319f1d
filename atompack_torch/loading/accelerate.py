"""The use of a ``Loader`` in a program that uses accelerate.

Gradient accumulation takes a step with the last batch of a pass, which accelerate hears of from the
loader that is iterated. Nothing is imported here: a program without accelerate has no such state.
"""

from __future__ import annotations

import sys
from typing import Any


def enter_accelerate(loader: Any) -> None:
    """Announces a pass, which then is the one that accumulation follows.

    Args:
        loader: has ``end_of_dataloader`` and ``remainder``.
    """
    if (state := _gradient_state()) is not None:
        leave_accelerate(loader)  # a pass that was left early
        state._add_dataloader(loader)


def leave_accelerate(loader: Any) -> None:
    """Announces the end of a pass.

    Args:
        loader: as for ``enter_accelerate``.
    """
    state = _gradient_state()
    if state is not None and any(each is loader for each in state.dataloader_references):
        state._remove_dataloader(loader)


def _gradient_state() -> Any:
    """Returns accelerate's state; None before the program has made an ``Accelerator``."""
    module = sys.modules.get("accelerate.state")
    made = module is not None and module.GradientState._shared_state
    return module.GradientState() if module is not None and made else None
