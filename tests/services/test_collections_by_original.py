"""Collections written here, as atlas-python 0.17 lists and describes them.

`make test-services` installs it in a folder of its own, since it excludes the release in .venv.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt

ORIGINAL = Path(__file__).parents[2] / ".venv" / "atlas-0.17"
SCRIPT = """
import json, sys
import atlas
path = sys.argv[1]
names = atlas.list_datasets(path)
found = {
    "version": atlas.__version__,
    "names": names,
    "info": atlas.info(path),
    "described": {name: atlas.describe(path, name) for name in names},
}
print(json.dumps(found, default=str))
"""


def seen_by_original(path: Path) -> Any:
    environment = os.environ | {"PYTHONPATH": str(ORIGINAL)}
    command = [sys.executable, "-c", SCRIPT, str(path)]
    return json.loads(subprocess.check_output(command, env=environment, timeout=120))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> apt.AtlasStore:
    made = apt.AtlasStore(tmp_path_factory.mktemp("stores") / "store", "x")
    rng = np.random.default_rng(0)
    for i in range(40):
        name = f"d{i}"
        made.create_dataset(name)
        made.set_attr(name, "number", i)
        made.define_array(name, "x", "float32", (4, 25), ["a", "b"], (2, 10), np.nan)
        made.write(name, "x", rng.normal(size=(4, 15)), (0, 0))
        made.set_attr(name, "units", "a text of more than sixteen bytes", array="x")
        made.define_array(name, "s", "string", (2,), ["a"])
        made.write(name, "s", [name, "a text of more than sixteen bytes"])
    made.close()
    return apt.AtlasStore(made.path)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
def test_it_describes_what_was_written(store: apt.AtlasStore, tmp_path: Path, codec: Any) -> None:
    store.export(tmp_path / "collection", codec=codec)
    found = seen_by_original(tmp_path / "collection")
    assert found["version"].startswith("0.17")
    assert found["names"] == store.datasets
    info = found["info"]
    assert (info["format_version"], info["codec"], info["dataset_count"]) == (8, codec, 40)
    assert info["distinct_arrays"] == store.arrays
    assert info["array_stats"]["x"]["row_count"] == 40 * 4 * 25
    for name in store.datasets:
        described = found["described"][name]
        assert described["attributes"] == {"number": int(name[1:])}
        assert described["dimensions"] == {"a": described["arrays"][0]["shape"][0], "b": 25}
        assert [array["name"] for array in described["arrays"]] == store.arrays_of(name)
        for array in described["arrays"]:
            schema, statistics = store.schema(array["name"], name), store.stats(array["name"])[name]
            assert array["dtype"] == schema.dtype
            assert tuple(array["shape"]) == schema.shape
            assert tuple(array["chunk_shape"]) == schema.chunk_shape
            assert tuple(array["dimensions"]) == schema.dimension_names
            assert str(array["fill_value"]) == str(schema.fill_value)
            assert array["attributes"] == store.array_attrs(name, array["name"])
            counts = statistics.null_count, statistics.row_count
            assert (array["stats"]["null_count"], array["stats"]["row_count"]) == counts
            assert str(array["stats"]["max"]) == str(statistics.max)
