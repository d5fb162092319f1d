"""Native handles on many threads: opened, forked and dropped, in separate processes."""

from __future__ import annotations

from pathlib import Path

from fixtures import make_cache
from processes.client import ScriptServer

# Threads of Python open handles while the main thread forks, or does not; then all handles die.
STRESS = """
import faulthandler, gc, itertools, os, sys, threading, time
from pathlib import Path
import numpy as np
import atompack_torch as apt
from atompack_torch import _core as core
from atompack_torch import _native as native

THREADS = 4
cache, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
faulthandler.enable()
atp, store, file, shards, text = (
    str(folder / name) for name in ("a.atp", "store", "a.af", "shards", "a.xyz")
)
with apt.AtpWriter(atp) as writer:
    writer.write_arrays(positions=np.zeros((8, 3)), atomic_numbers=np.ones(8, int), n_atoms=[4, 4])
with apt.AtlasStore(store, "x", durable=False) as changed:
    changed.create_dataset("d")
    changed.define_array("d", "x", "int64", (2,))
    changed.write("d", "x", np.arange(2))
with apt.ArrayFile(file, "x") as changed:
    changed.define("x", "int64", (2,))
    changed.write("x", np.arange(2))
with apt.ShardWriter(shards, 3, 2, 0) as changed:
    changed.write({"n": 1})
Path(text).write_text("1\\n\\nH 0 0 0\\n")
snapshot = native.AtpSnapshot.take(atp)
reader, entries = native.AtpReader(atp, snapshot, "auto", False), native.TorchCacheReader(cache)
columns, examples = native.AtlasReader(store, None, 1 << 30), native.ShardReader(shards, None)
header = (False, False, "float64", 0, 0, 0, False, "", "", ("", "", ""), "", "")
numbers = itertools.count()

def new_path():
    return str(folder / f"new{next(numbers)}")

def molecule_batcher():
    return apt.AtpDataset(atp)._open()

def column_batcher():
    return core.ColumnBatcher(
        columns, [0], start=None, count=None, layout="stacked", dtype=None, max_threads=0,
        max_unstored_bytes=None)

def example_batcher():
    return core.ExampleBatcher(examples, jagged=False, levels={}, max_threads=0)

def prefetcher(make_batcher):
    ahead = core.Prefetcher(make_batcher(), 1, 4, False)
    ahead.submit([0], None)
    return ahead

READERS = {
    "TorchCacheReader": lambda: native.TorchCacheReader(cache),
    "TorchCacheSource": lambda: native.TorchCacheSource(entries, whole=True),
    "AtpSnapshot": lambda: native.AtpSnapshot.take(atp),
    "AtpReader": lambda: native.AtpReader(atp, snapshot, "auto", False),
    "ConcatSource": lambda: native.ConcatSource([reader, reader]),
    "MixtureSource": lambda: native.MixtureSource([reader, reader]),
    "ForceSubsetSource": lambda: native.ForceSubsetSource(reader, [1, 0]),
    "MoleculeBatcher": molecule_batcher,
    "Verifier": lambda: native.Verifier(reader, 2),
    "AtlasReader": lambda: native.AtlasReader(store, None, 1 << 30),
    "ColumnBatcher": column_batcher,
    "ArrayFileReader": lambda: native.ArrayFileReader(file, 1 << 30),
    "ShardReader": lambda: native.ShardReader(shards, None),
    "ExampleBatcher": example_batcher,
    "ExtxyzScanner": lambda: native.ExtxyzScanner(text, text, 1),
}
WRITERS = {
    "AtpWriter": lambda: native.AtpWriter(new_path(), "x", None, 3),
    "AtlasWriter": lambda: native.AtlasWriter(
        new_path(), True, (None, "json", 3, 1 << 20, 0, 1 << 30, None), False
    ),
    "ArrayFileWriter": lambda: native.ArrayFileWriter(
        new_path() + ".af", ("zstd", 3, 1 << 20, 0, 1 << 30, None), False
    ),
    "ShardFileWriter": lambda: core.ShardFileWriter(
        new_path(), shard_size=2, block_size=1, strategy=0, level=3, dictionary=0.0, n_threads=1,
        mode="x"),
    "CacheBuilder": lambda: native.CacheBuilder(new_path(), header, "", 1 << 20),
    "Prefetcher": lambda: prefetcher(molecule_batcher),
    "Prefetcher of columns": lambda: prefetcher(column_batcher),
    "Prefetcher of examples": lambda: prefetcher(example_batcher),
}

def round_of(make, n, forks):
    kept, failures = [[] for _ in range(THREADS)], []
    def open_some(mine):
        try:
            for _ in range(n):
                mine.append(make())
        except BaseException as error:
            failures.append(error)
    threads = [threading.Thread(target=open_some, args=(mine,)) for mine in kept]
    for thread in threads:
        thread.start()
    for _ in range(forks):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit("a child did not end well")
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    # They die on several threads too.
    droppers = [threading.Thread(target=mine.clear) for mine in kept]
    for thread in droppers:
        thread.start()
    for thread in droppers:
        thread.join()
    gc.collect()

for kinds, n in ((READERS, 200), (WRITERS, 8)):
    for kind, make in kinds.items():
        for forks in (0, 5):
            print(kind, forks, flush=True)
            end = time.monotonic() + seconds
            round_of(make, n, forks)
            while time.monotonic() < end:
                round_of(make, n, forks)
print("done", len(READERS) + len(WRITERS))
"""

# Batches that take a while.
AHEAD = """
import os, sys, threading, time
import numpy as np
import atompack_torch as apt

rng = np.random.default_rng(0)
with apt.AtpWriter(sys.argv[1]) as writer:
    writer.write_arrays(positions=rng.random((40000, 3)) * 75, atomic_numbers=np.ones(40000, int),
                        n_atoms=[40000])
dataset = apt.AtpDataset(sys.argv[1], neighbors=apt.NeighborList(6.0))
ahead = dataset.prefetch(1, 4, False)
"""

# What waits for a native thread while it is destroyed lets other threads of Python continue.
DESTRUCTION = f"""{AHEAD}
ticks, stop = [], threading.Event()

def tick():
    while not stop.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.001)

thread = threading.Thread(target=tick)
thread.start()
ahead.submit([0] * 4)
time.sleep(0.05)
begin = time.monotonic()
del ahead._native
end = time.monotonic()
stop.set()
thread.join()
assert end - begin > 0.1, end - begin
print(sum((begin + end) / 2 < moment < end for moment in ticks))
"""

# The end of Python takes a second, in which threads come back from native code and from callbacks.
END = f"""{AHEAD}
from atompack_torch.remote.client import RemoteStore

ahead.submit([0] * 4)
ended = []

def credentials():
    ended.append("asked")
    time.sleep(0.3)
    return {{"token": "1"}}

store = RemoteStore(credentials=credentials)
calls = {{
    "batch": lambda: dataset.batch([0] * 4),
    "wait": lambda: ahead.take(),
    "callback": lambda: store.open("http://127.0.0.1:9/x"),
}}

def work(call):
    calls[call]()
    ended.append(call)

class Late:
    def __del__(self, sleep=time.sleep, ended=ended, write=os.write, out=os.dup(1)):
        sleep(1)
        write(out, " ".join(ended).encode())

sys.late = Late()
for call in calls:
    threading.Thread(target=work, args=(call,), daemon=True).start()
while "asked" not in ended:
    time.sleep(0.001)
sys.exit()
"""


def test_handles_are_opened_and_dropped_on_threads(tmp_path: Path, scripts: ScriptServer) -> None:
    done = scripts.run(STRESS, make_cache.FOLDER / "water.h5", tmp_path, "0.2")
    assert done.returncode == 0, (done.stdout[-200:], done.stderr[-3000:])
    assert done.stdout.split()[-2:] == ["done", "23"]


def test_destruction_lets_other_threads_go_on(tmp_path: Path, scripts: ScriptServer) -> None:
    done = scripts.run(DESTRUCTION, tmp_path / "a.atp")
    assert done.returncode == 0, (done.stdout[-200:], done.stderr[-3000:])
    assert int(done.stdout) > 0


def test_threads_may_be_at_work_when_python_ends(tmp_path: Path, scripts: ScriptServer) -> None:
    done = scripts.run(END, tmp_path / "a.atp")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "asked" in done.stdout  # what has ended before, on a busy machine, is there too
