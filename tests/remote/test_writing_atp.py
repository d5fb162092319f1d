"""AtpWriter with URLs, against a store in memory that enforces conditions."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_server import ObjectServer
from stand_ins import Azure, running

import atompack_torch as apt
from atompack_torch.remote.client import RemoteStore
from atompack_torch.remote.objects import MIN_PART_BYTES, send_file

URL = "s3://bucket/sets/data.atp"
KEY = "sets/data.atp"


@pytest.fixture
def server(objects: ObjectServer) -> ObjectServer:
    return objects


def molecule(energy: float) -> dict[str, Any]:
    return {
        "positions": np.full((1, 2, 3), energy),
        "atomic_numbers": np.array([[1, 8]]),
        "energy": np.array([energy]),
    }


def writer(server: ObjectServer, mode: Any = "x", **others: Any) -> apt.AtpWriter:
    return apt.AtpWriter(URL, mode=mode, storage_options=server.options(), **others)


def energies(server: ObjectServer) -> list[float]:
    found: list[float] = server_dataset(server)[:]["energy"].tolist()
    return found


def server_dataset(server: ObjectServer) -> apt.AtpDataset:
    return apt.AtpDataset(URL, storage_options=server.options())


def temporary_folders(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("atompack-*"))


def test_an_object_appears_when_the_writer_is_closed(server: ObjectServer, tmp_path: Path) -> None:
    with writer(server) as made:
        made.write_arrays(**molecule(1.0))
        made.flush()
        assert server.written() == []
        assert made.path == URL
        assert repr(made) == f"AtpWriter({URL!r})"
        assert len(made) == 1
        made.write_arrays(**molecule(2.0))
    assert server.names() == [KEY]
    assert energies(server) == [1.0, 2.0]
    assert temporary_folders(tmp_path) == []


def test_the_object_has_the_bytes_of_a_local_file(server: ObjectServer, tmp_path: Path) -> None:
    with writer(server, codec="zstd") as made, apt.AtpWriter(tmp_path / "a", codec="zstd") as local:
        for i in range(3):
            made.write_arrays(**molecule(i))
            local.write_arrays(**molecule(i))
    assert server.objects[KEY].data == (tmp_path / "a").read_bytes()


def test_an_exception_uploads_nothing(server: ObjectServer, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), writer(server) as made:  # noqa: PT012
        made.write_arrays(**molecule(1.0))
        made.flush()
        raise RuntimeError("stop")
    assert server.written() == []
    assert temporary_folders(tmp_path) == []


def test_existing_objects_are_refused_at_once(server: ObjectServer, tmp_path: Path) -> None:
    writer(server).close()
    with pytest.raises(FileExistsError, match="mode='a' appends") as caught:
        writer(server)
    assert caught.value.filename == URL
    assert temporary_folders(tmp_path) == []


def test_an_object_made_meanwhile_is_kept(server: ObjectServer) -> None:
    with pytest.raises(FileExistsError, match="the local copy is kept as") as caught:  # noqa: PT012, SIM117
        with writer(server) as made:
            made.write_arrays(**molecule(1.0))
            with writer(server) as other:
                other.write_arrays(**molecule(2.0))
    assert energies(server) == [2.0]
    kept = Path(str(caught.value.strerror).partition("kept as ")[2].partition(":")[0])
    assert apt.AtpDataset(kept)[:]["energy"].tolist() == [1.0]


def test_appending_adds_to_the_object(server: ObjectServer, tmp_path: Path) -> None:
    for i in range(3):
        with writer(server, "a") as made:
            assert len(made) == i
            made.write_arrays(**molecule(i))
    assert energies(server) == [0.0, 1.0, 2.0]
    assert temporary_folders(tmp_path) == []


def test_a_conflict_of_appending_writers_is_noticed(server: ObjectServer) -> None:
    with writer(server) as made:
        made.write_arrays(**molecule(0.0))
    first, second = writer(server, "a"), writer(server, "a")
    first.write_arrays(**molecule(1.0))
    second.write_arrays(**molecule(2.0))
    first.close()
    with pytest.raises(OSError, match="another writer has replaced") as caught:
        second.close()
    assert caught.value.errno == errno.ESTALE
    assert caught.value.filename == URL
    assert energies(server) == [0.0, 1.0]


def test_a_removed_object_is_not_made_again(server: ObjectServer) -> None:
    writer(server).close()
    made = writer(server, "a")
    del server.objects[KEY]
    with pytest.raises(OSError, match="another writer has replaced or removed"):
        made.close()
    assert server.names() == []


def test_replacing(server: ObjectServer) -> None:
    for i in range(2):
        with writer(server, "w") as made:
            made.write_arrays(**molecule(i))
    assert energies(server) == [1.0]


def test_a_failed_upload_can_be_repeated(server: ObjectServer, tmp_path: Path) -> None:
    made = writer(server)
    made.write_arrays(**molecule(1.0))
    server.fault = lambda method, key: 403 if method == "PUT" else None
    with pytest.raises(PermissionError, match="upload it by hand") as caught:
        made.close()
    (folder,) = temporary_folders(tmp_path)
    assert str(folder / "data.atp") in str(caught.value)
    assert "SECRET" not in str(caught.value)
    server.fault = lambda method, key: None
    made.close()
    made.close()
    assert energies(server) == [1.0]
    assert temporary_folders(tmp_path) == []


def test_a_lost_answer_is_no_conflict(server: ObjectServer) -> None:
    lost = ["lose"]
    server.fault = lambda method, key: lost.pop() if method == "PUT" and lost else None
    with writer(server) as made:
        made.write_arrays(**molecule(1.0))
    server.fault = lambda method, key: None
    assert not lost
    assert energies(server) == [1.0]
    lost.append("lose")
    server.fault = lambda method, key: lost.pop() if method == "PUT" and lost else None
    with writer(server, "a") as made:
        made.write_arrays(**molecule(2.0))
    assert energies(server) == [1.0, 2.0]


def test_an_upload_whose_answers_were_all_lost_can_be_repeated(server: ObjectServer) -> None:
    made = writer(server)
    made.write_arrays(**molecule(1.0))
    server.fault = lambda method, key: "lose" if method == "PUT" else None
    original = made._staged._objects._store  # type: ignore[union-attr]
    assert original is not None

    class Impatient:
        """Gives up after the first attempt."""

        def request(self, method: str, *args: Any, **others: Any) -> Any:
            if method == "PUT":
                hasty = RemoteStore(
                    endpoint=server.url,
                    credentials=lambda: ("k", "s", "", "", None),
                    max_attempts=1,
                )
                return hasty.request(method, *args, **others)
            return original.request(method, *args, **others)

    made._staged._objects._store = Impatient()  # type: ignore[union-attr]
    with pytest.raises(OSError, match="the local copy is kept"):
        made.close()
    server.fault = lambda method, key: None
    made.close()
    assert energies(server) == [1.0]


def test_large_objects_are_sent_in_parts(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(send_file.__kwdefaults__ or {}, "part_bytes", MIN_PART_BYTES)
    data = {**molecule(1.0), "properties": {"big": np.random.default_rng(0).random((1, 800_000))}}
    with writer(server) as made:
        made.write_arrays(**data)
    assert [method for method, _ in server.written()].count("PUT") == 2
    assert energies(server) == [1.0]
    first, second = writer(server, "a"), writer(server, "a")
    first.close()
    server.objects[KEY].data += b"\0"  # a different version
    with pytest.raises(OSError, match="another writer") as caught:
        second.close()
    assert caught.value.errno == errno.ESTALE
    assert server.uploads == {}


def test_stores_without_conditions_are_looked_at(server: ObjectServer) -> None:
    server.knows_conditions = False
    made = writer(server)
    made.write_arrays(**molecule(1.0))
    with writer(server) as other:
        other.write_arrays(**molecule(2.0))
    with pytest.raises(FileExistsError, match="exists already"):
        made.close()
    assert energies(server) == [2.0]
    first, second = writer(server, "a"), writer(server, "a")
    first.write_arrays(**molecule(3.0))
    first.close()
    with pytest.raises(OSError, match="another writer"):
        second.close()
    assert energies(server) == [2.0, 3.0]


def test_errors_have_their_types(server: ObjectServer, tmp_path: Path) -> None:
    options = server.options()
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        apt.AtpWriter("s3://other/data.atp", storage_options=options)
    with pytest.raises(ValueError, match="expected the URL of a file, got that of a folder"):
        apt.AtpWriter("s3://bucket/folder/", storage_options=options)
    with pytest.raises(apt.UnsupportedFormatError, match="for writing, got hf://"):
        apt.AtpWriter("hf://datasets/a/b/c.atp", storage_options=options)
    with pytest.raises(ValueError, match="storage_options: expected"):
        apt.AtpWriter(URL, storage_options={"unknown": 1})
    server.fault = lambda method, key: 403
    with pytest.raises(PermissionError) as caught:
        writer(server)
    assert "SECRET" not in str(caught.value)
    assert temporary_folders(tmp_path) == []


def test_errors_about_data_name_the_url(server: ObjectServer) -> None:
    with writer(server) as made:
        made.write_arrays(**molecule(1.0))
    with pytest.raises(apt.FieldError, match=URL):
        writer(server, "a", codec="zstd")
    with writer(server, "a") as made:
        with pytest.raises(apt.FieldError) as caught:
            made.write_arrays(**{**molecule(1.0), "energy": ["text"]})
        assert "atompack-" not in str(caught.value)
    server.objects[KEY].data = b"ATPK" + bytes(100)
    with pytest.raises(apt.AtompackError, match=URL):
        writer(server, "a")


def test_a_forgotten_writer_leaves_no_file(server: ObjectServer, tmp_path: Path) -> None:
    made = writer(server)
    assert len(temporary_folders(tmp_path)) == 1
    with pytest.warns(ResourceWarning, match="unclosed AtpWriter"):  # noqa: PT031
        del made
        gc.collect()
    assert temporary_folders(tmp_path) == []


@pytest.mark.parametrize(
    "end", ["pass", "raise SystemExit(0)", "import os; os.fork() or os._exit(0)"]
)
def test_the_end_of_the_interpreter_removes_files(
    server: ObjectServer, tmp_path: Path, end: str
) -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import atompack_torch as apt\n"
        f"w = apt.AtpWriter({URL!r}, storage_options={server.options()!r})\n"
        "import os, tempfile\n"
        "assert [n for n in os.listdir(tempfile.gettempdir()) if n.startswith('atompack-')]\n"
        f"{end}\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
    assert temporary_folders(tmp_path) == []
    assert server.written() == []


def test_plain_http_servers_that_take_objects(server: ObjectServer) -> None:
    url = f"{server.url}/bucket/plain.atp"
    for i in range(2):
        with apt.AtpWriter(url, mode="a") as made:
            made.write_arrays(**molecule(i))
    assert apt.AtpDataset(url)[:]["energy"].tolist() == [0.0, 1.0]
    with pytest.raises(FileExistsError, match="exists already"):
        apt.AtpWriter(url)


def test_blobs_of_azure_whole_and_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    url, big = "az://container/sets/data.atp", np.random.default_rng(0).random((1, 800_000))
    monkeypatch.setitem(send_file.__kwdefaults__ or {}, "part_bytes", MIN_PART_BYTES)
    with running(Azure()) as service:
        options = {"endpoint_url": service.url, "token": Azure.signature}
        with apt.AtpWriter(url, storage_options=options) as made:
            made.write_arrays(**molecule(1.0))
        with pytest.raises(FileExistsError, match="exists already"):
            apt.AtpWriter(url, storage_options=options)
        first, second = (apt.AtpWriter(url, mode="a", storage_options=options) for _ in range(2))
        first.write_arrays(**molecule(2.0), properties={"big": big})
        first.close()
        asked = [each.query.get("comp") for each in service.asked if each.method == "PUT"]
        assert asked.count("block") == 2
        assert asked[-1] == "blocklist"
        second.write_arrays(**molecule(3.0))
        with pytest.raises(OSError, match="another writer") as caught:
            second.close()
        assert caught.value.errno == errno.ESTALE
        found = apt.AtpDataset(url, storage_options=options)[:]
        assert found["energy"].tolist() == [1.0, 2.0]
        assert found["big"][1].numpy().tobytes() == big.tobytes()
        with pytest.raises(OSError, match="folders of this kind cannot be written to"):
            apt.ShardWriter("az://container/shards", 5, 2, storage_options=options)
