"""Every case: what is read, and the function that reads and describes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from golden import forms, objects, reading
from golden.description import Found

CASES: dict[str, Callable[[], Found]] = {
    **{
        f"{kind}/{fixture}": partial(reading.read, kind, fixture)
        for kind, (_, fixtures) in reading.KINDS.items()
        for fixture in fixtures
    },
    **{f"forms/{fixture}": partial(forms.read_forms, fixture) for fixture in forms.BATCHES},
    **{f"commands/{fixture}": partial(forms.read_commands, fixture) for fixture in forms.FILES},
    **{f"pickle/{name}": partial(objects.read_dataset, name) for name in objects.DATASETS},
    **{f"pickle/{name}": partial(objects.read_value, name) for name in objects.VALUES},
    **{f"state/{name}": partial(objects.read_sampler, name) for name in objects.SAMPLERS},
    **{f"state/{name}": partial(objects.read_loader, name) for name in objects.LOADERS},
    "orders": objects.read_orders,
}
