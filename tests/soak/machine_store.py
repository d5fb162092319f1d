"""A store of objects in one namespace: prints its URL, and runs until it is killed."""

from __future__ import annotations

import signal

from object_server import object_server
from soak.machines import N_MOLECULES, STORE
from soak.numbered import labeled

import atompack_torch as apt


def main() -> None:
    """Fills the store and serves it."""
    with object_server(STORE) as store:
        target = "s3://bucket/train.atp"
        with apt.AtpWriter(target, codec="zstd", storage_options=store.options()) as writer:
            writer.write_arrays(**labeled(0, N_MOLECULES))
        print(store.url, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
