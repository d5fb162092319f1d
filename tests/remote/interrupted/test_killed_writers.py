"""Writers of remote stores that are killed at any time."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from object_server import ObjectServer
from processes.client import ScriptServer
from test_writing_stores import URL, opened, seen

WRITER = """
import sys, tempfile, numpy as np
import atompack_torch as apt

url, endpoint, tempfile.tempdir = sys.argv[1:]
options = {"endpoint_url": endpoint, "key": "k", "secret": "s"}
with apt.AtlasStore(url, "a", storage_options=options) as store:
    generation = int(store.read("d", "a")[0]) if "d" in store.datasets else 0
    if not generation:
        store.create_dataset("d")
        for name in "abc":
            store.define_array("d", name, "float64", (3,))
    print("ready", flush=True)
    while True:
        generation += 1
        for name in "abc":
            store.write("d", name, np.full(3, generation))
        if generation % 3 == 0:
            store.create_dataset(f"g{generation}")
        store.flush()
        if generation % 5 == 0:
            store.compact()
"""


def generation(server: ObjectServer, tmp_path: Path) -> int:
    """Of what a reader sees, who must see one."""
    found = seen(server, tmp_path)
    if found is None:
        return 0
    numbers = {value for values in found["d"].values() for value in values} if found else {0}
    assert len(numbers) == 1
    (number,) = numbers
    expected = [f"g{i}" for i in range(1, int(number) + 1) if i % 3 == 0]
    assert [name for name in found if name != "d"] == expected
    return int(number)


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_writer_leaves_a_generation(
    objects: ObjectServer, tmp_path: Path, scripts: ScriptServer, seed: int
) -> None:
    choice = random.Random(seed)
    last = 0
    for _ in range(6):
        writer = scripts.start(WRITER, URL, objects.url, tmp_path)
        writer.wait_for("ready")
        left = [choice.randrange(1, 60)]

        def kill(method: str, key: str, left: list[int] = left, pid: int = writer.pid) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(pid, signal.SIGKILL)
                if choice.random() < 0.5:
                    time.sleep(choice.random() / 100)  # the request may arrive all the same

        objects.before = kill
        assert writer.wait().returncode == -signal.SIGKILL
        objects.before = lambda method, key: None
        time.sleep(0.05)  # for requests that are under way
        found = generation(objects, tmp_path)
        assert found >= last
        last = found
    with opened(objects):
        pass
    assert generation(objects, tmp_path) == last
    assert last > 0


def test_temporary_folders_of_killed_writers_stay(
    objects: ObjectServer, tmp_path: Path, scripts: ScriptServer
) -> None:
    """As documented: nobody is left to remove them."""
    killed = scripts.run(
        "import os, signal, sys, tempfile, atompack_torch as apt\n"
        "tempfile.tempdir = sys.argv[2]\n"
        "w = apt.AtpWriter('s3://bucket/a.atp', storage_options="
        "{'endpoint_url': sys.argv[1], 'key': 'k', 'secret': 's'})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        objects.url,
        tmp_path,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(list(tmp_path.glob("atompack-*"))) == 1
    assert objects.written() == []
