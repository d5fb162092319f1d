"""How fast are random batches read from an ``.atp`` file behind 30 ms of latency?

    python benchmarks/remote_atp.py [--quick] [--file FILE] [--latency-ms 30] [--sides NAME ...]

A server on loopback (``latency_server.py``) answers every request late. Each side is a separate
process, which opens the file by its URL and reads the same random molecules in batches of 64:

* ``cold``: the ``Loader`` with one thread, with a cache in memory of 1/8 of the file;
* ``filling``: the same with a block cache on disk, which is empty at the start;
* ``cached``: a shuffled epoch from a block cache on disk that has the whole file;
* ``ranges``: the native client alone, one request a record;
* ``obstore`` and ``fsspec``: the records of a batch by ``get_ranges`` and ``cat_ranges``, as bytes;
* ``obstores``: the same as ``obstore`` with the calls of 64 batches in flight, on as many threads.

Printed are records per second after the first batches, the time from opening to the first batch,
processor time of a record, memory at a quarter and at the end, and the server's processor time.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from larger_than_memory import BATCH, make_file, record_ranges
from latency_server import LatencyServer
from turns import in_own_process, parser_of

WARM_UP = 64  # batches before the clock starts
SIDES = ("cold", "filling", "cached", "ranges", "obstore", "obstores", "fsspec")
SLOW = ("obstore", "fsspec")  # read a tenth of the batches


class Result(NamedTuple):
    """What one side has measured."""

    rate: float  # records per second
    first: float  # seconds from opening to the first batch
    processor: float  # microseconds a record, of all threads
    early_memory: int  # bytes, after a quarter of the batches
    memory: int  # bytes, at the end


def memory() -> int:
    """Bytes of this process in memory, without files."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))


def processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(n_batches: int, start: float, batches: Iterable[object]) -> Result:
    """Consume the batches, of which there are `n_batches`."""
    first = began = used = 0.0
    early = 0
    for i, _ in enumerate(batches):
        if i == 0:
            first = time.perf_counter() - start
        if i == WARM_UP:
            began, used = time.perf_counter(), processor()
        if i == n_batches // 4:
            early = memory()
    n = (n_batches - 1 - WARM_UP) * BATCH
    seconds = time.perf_counter() - began
    return Result(n / seconds, first, (processor() - used) / n * 1e6, early, memory())


def order_of(n_molecules: int, n_batches: int) -> list[list[int]]:
    import torch

    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(n_molecules, generator=generator)[: n_batches * BATCH]
    return order.view(-1, BATCH).tolist()


def run_dataset(arguments: argparse.Namespace) -> Result:
    import torch

    import atompack_torch as apt

    torch.set_num_threads(1)
    size = arguments.file.stat().st_size
    options: dict[str, Any] = {"storage_options": {"cache_bytes": size // 8}}
    if arguments.side != "cold":
        options = {"storage_options": {"cache": arguments.cache, "cache_bytes": 2 * size}}
    order = order_of(len(apt.AtpDataset(arguments.file)), arguments.batches)
    if arguments.side == "cached":
        whole = apt.Loader(apt.AtpDataset(arguments.url, **options), 4096, num_threads=2)
        for _ in whole:
            pass
        del whole
    start = time.perf_counter()
    dataset = apt.AtpDataset(arguments.url, **options)
    loader = apt.Loader(dataset, batch_sampler=order, num_threads=1)
    return measure(len(order), start, loader)


def run_ranges(arguments: argparse.Namespace) -> Result:
    from atompack_torch.remote.client import open_store
    from atompack_torch.remote.urls import StorageOptions

    ranges = record_ranges(arguments.file, arguments.batches).tolist()
    start = time.perf_counter()
    store, url = open_store(arguments.url, StorageOptions(anonymous=True))
    opened = store.open(url)
    with ThreadPoolExecutor(64) as threads:
        batches = (ranges[i : i + BATCH] for i in range(0, len(ranges), BATCH))
        read = lambda batch: [opened.read(*one) for one in batch]  # noqa: E731
        return measure(arguments.batches, start, threads.map(read, batches))


def run_by_ranges(
    arguments: argparse.Namespace,
    open_reader: Callable[[], Callable[[list[int], list[int]], Any]],
    n_threads: int = 1,
) -> Result:
    ranges = record_ranges(arguments.file, arguments.batches)
    start = time.perf_counter()
    read = open_reader()
    starts, ends = ranges[:, 0], ranges.sum(1)
    parts = [slice(i, i + BATCH) for i in range(0, len(ranges), BATCH)]
    with ThreadPoolExecutor(n_threads) as threads:
        batches = threads.map(lambda p: read(starts[p].tolist(), ends[p].tolist()), parts)
        return measure(len(parts), start, batches)


def run_obstore(arguments: argparse.Namespace, n_threads: int = 1) -> Result:
    import obstore
    from obstore.store import HTTPStore

    root, _, name = arguments.url.rpartition("/")

    def opened() -> Callable[[list[int], list[int]], Any]:
        store = HTTPStore(root, client_options={"allow_http": True})
        return lambda starts, ends: obstore.get_ranges(store, name, starts=starts, ends=ends)

    return run_by_ranges(arguments, opened, n_threads)


def run_fsspec(arguments: argparse.Namespace) -> Result:
    import fsspec

    def opened() -> Callable[[list[int], list[int]], Any]:
        files = fsspec.filesystem("http")
        return lambda starts, ends: files.cat_ranges([arguments.url] * len(starts), starts, ends)

    return run_by_ranges(arguments, opened)


RUN = {
    "ranges": run_ranges,
    "obstore": run_obstore,
    "obstores": partial(run_obstore, n_threads=64),
    "fsspec": run_fsspec,
}


def run_side(side: str, arguments: argparse.Namespace) -> None:
    n = arguments.batches if side not in SLOW else max(arguments.batches // 10, 2 * WARM_UP)
    with (
        tempfile.TemporaryDirectory(dir=arguments.file.parent) as cache,
        LatencyServer(arguments.file.parent, arguments.latency_ms) as server,
    ):
        own = {"side": side, "batches": n, "cache": cache}
        own["url"] = f"{server.url}/{arguments.file.name}"
        given = argparse.Namespace(**vars(arguments) | own)
        found = in_own_process(RUN.get(side, run_dataset), given)
        served = server.stop()
    print(
        f"{side:10} {found.rate:10,.0f} records/s, first batch {found.first:5.2f} s, "
        f"{found.processor:4.0f} us a record, memory {found.early_memory >> 20} and "
        f"{found.memory >> 20} MiB; server: {served.answers} answers, "
        f"{served.microseconds:.0f} us each",
        flush=True,
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--file", type=Path, default=Path("build/bench/remote.atp"))
    parser.add_argument("--megabytes", type=int, default=2200)
    parser.add_argument("--latency-ms", type=int, default=30)
    parser.add_argument("--batches", type=int, default=4000, help="batches a side reads")
    parser.add_argument("--sides", nargs="+", default=SIDES)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.batches, arguments.megabytes = 500, 200
        arguments.file = arguments.file.with_name("remote-quick.atp")
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.file.exists():
        make_file(arguments.file, arguments.megabytes)
    for side in arguments.sides:
        run_side(side, arguments)


if __name__ == "__main__":
    main()
