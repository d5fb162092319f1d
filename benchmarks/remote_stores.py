"""How many round trips does a scan of a remote ATLAS store take more than a local one?

    python benchmarks/remote_stores.py [--latency-ms 30] [--profiles 1000] [--rounds 5]

Opens a store of 1,000 profiles and scans one variable, then three together, from the local folder
and from a server on loopback that answers 30 ms late. ``round trips`` is the difference of the two
times in units of that latency. The peer is atlas-python, which reads remote stores through obstore
(`pip install obstore`). Every measurement is a separate process, of which the best counts; files
are in the page cache of the server. The server lists no folders, so that ours looks files up by
their names; atlas-python has to list folders, and says so.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from latency_server import LatencyServer
from turns import in_own_process

VARIABLES = ("temperature", "salinity", "pressure")
LEVELS = 200
CASES = {"one variable": VARIABLES[:1], "three variables": VARIABLES}
SIDES = ("ours", "atlas-python")


def make_store(folder: Path, n_profiles: int) -> None:
    """Writes profiles of three variables."""
    import atompack_torch as apt

    rng = np.random.default_rng(0)
    with apt.AtlasStore(folder, "x") as store:
        for number in range(n_profiles):
            name = f"profile-{number:06}"
            store.create_dataset(name)
            for variable in VARIABLES:
                store.define_array(name, variable, "float32", (LEVELS,))
                store.write(name, variable, rng.normal(size=LEVELS).astype(np.float32))
        store.compact()


def read_ours(place: str, variables: Sequence[str]) -> float:
    """Returns a checksum of all values."""
    import atompack_torch as apt

    scans = apt.AtlasStore(place).scan_many(variables)
    return sum(float(scan.values.double().sum()) for scan in scans.values())  # type: ignore[union-attr]


def read_atlas(place: str, variables: Sequence[str]) -> float:
    """Returns a checksum of all values."""
    here = str(Path(__file__).resolve().parent)  # which has another `atlas`
    sys.path[:] = [folder for folder in sys.path if folder != here]
    import atlas

    source: object = place
    if place.startswith("http"):
        from obstore.store import HTTPStore

        source = HTTPStore.from_url(place, client_options={"allow_http": True})
    store = atlas.Atlas.open(source)
    names = store.list_datasets()
    arrays = (store.read_array_across(name, names) for name in variables)
    return sum(float(np.asarray(array, np.float64).sum()) for array in arrays)


READERS: dict[str, Callable[[str, Sequence[str]], float]] = {
    "ours": read_ours,
    "atlas-python": read_atlas,
}


def read_once(side: str, place: str, case: str, warm_up: str) -> tuple[float, float]:
    """Returns seconds and checksum, after reading another store so that all is loaded."""
    READERS[side](warm_up, VARIABLES)
    start = time.perf_counter()
    checksum = READERS[side](place, CASES[case])
    return time.perf_counter() - start, checksum


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--latency-ms", type=int, default=30)
    parser.add_argument("--profiles", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_store(Path(folder, "store"), options.profiles)
        make_store(Path(folder, "small"), 2)
        with LatencyServer(folder, options.latency_ms) as server, LatencyServer(folder, 0) as near:
            print(f"{'':30} {'local':>9} {'remote':>9} {'round trips':>12}")
            for case in CASES:
                for side in SIDES:
                    title = f"{case}, {side}"
                    places = (f"{folder}/store", case, f"{folder}/small")
                    urls = (f"{server.url}/store", case, f"{near.url}/small")
                    try:
                        local, remote = (
                            min(in_own_process(read_once, side, *of) for _ in range(options.rounds))
                            for of in (places, urls)
                        )
                    except Exception as error:  # the side cannot read the store
                        print(f"{title:30} {str(error)[:120]}")
                        continue
                    if local[1] != remote[1]:
                        sys.exit(f"{title}: the values differ")
                    trips = (remote[0] - local[0]) / options.latency_ms * 1000
                    print(
                        f"{title:30} {local[0] * 1000:6.1f} ms {remote[0] * 1000:6.1f} ms"
                        f" {trips:12.1f}"
                    )


if __name__ == "__main__":
    main()
