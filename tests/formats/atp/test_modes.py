"""Opening, committing, closing: modes, names, locks, processes, readers next to a writer."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.client import AtompackProcess
from processes.client import ScriptServer
from reference.atp_file import CODECS, AtpFile

import atompack_torch as apt

NewPath = Callable[[], Path]
CODEC_NAMES = ("none", "lz4", "zstd")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A name in a folder of its own, so that whatever else appears there is seen."""
    return tmp_path / "a.atp"


def molecule(number: float = 0.0) -> apt.Molecule:
    """A molecule that tells which one it is."""
    return apt.Molecule(np.full((2, 3), number, "f4"), [1, 8], energy=float(number))


def energies(path: Path) -> list[float]:
    """Which molecules the newest commit holds."""
    file = AtpFile.open(path)
    return [float(m.builtins["energy"].data) for m in file.molecules()]


def names(path: Path) -> list[str]:
    """What lies in the folder of a file."""
    return sorted(entry.name for entry in path.parent.iterdir())


def made(path: Path, *numbers: float, **options: Any) -> Path:
    """A file with these molecules in one commit."""
    with apt.AtpWriter(path, **options) as writer:
        writer.write([molecule(n) for n in numbers])
    return path


# Modes


def test_x_makes_an_empty_file_at_once(path: Path, fixtures: Path) -> None:
    writer = apt.AtpWriter(path)
    assert path.read_bytes() == (fixtures / "empty_created.atp").read_bytes()
    assert len(apt.AtpDataset(path)) == 0
    assert names(path) == ["a.atp"]
    writer.close()
    assert path.read_bytes() == (fixtures / "empty_created.atp").read_bytes()


@pytest.mark.parametrize("content", [b"", b"no atp", None])
def test_x_refuses_what_is_there(path: Path, content: bytes | None) -> None:
    if content is None:
        made(path, 1)
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(FileExistsError) as caught:
        apt.AtpWriter(path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert names(path) == ["a.atp"]


def test_w_makes_what_is_not_there(path: Path, fixtures: Path) -> None:
    with apt.AtpWriter(path, mode="w"):
        assert not path.exists()
    assert path.read_bytes() == (fixtures / "empty_flushed.atp").read_bytes()
    assert names(path) == ["a.atp"]


@pytest.mark.parametrize("old", ["an atp", "text"])
def test_w_replaces_at_the_first_commit(path: Path, old: str) -> None:
    if old == "text":
        path.write_text("text")
    else:
        made(path, 1, 2)
    before, inode = path.read_bytes(), path.stat().st_ino
    with apt.AtpWriter(path, mode="w", codec="zstd") as writer:
        writer.write(molecule(5))
        assert path.read_bytes() == before
        writer.flush()
        assert energies(path) == [5]
        assert path.stat().st_ino != inode
        assert names(path) == ["a.atp"]
        writer.write(molecule(6))
        assert energies(path) == [5]
    assert energies(path) == [5, 6]


def test_w_without_molecules_replaces_too(path: Path) -> None:
    made(path, 1)
    with apt.AtpWriter(path, mode="w"):
        pass
    assert energies(path) == []


def test_a_makes_what_is_not_there(path: Path, fixtures: Path) -> None:
    with apt.AtpWriter(path, mode="a", codec="lz4") as writer:
        assert writer.codec == "lz4"
        assert len(apt.AtpDataset(path)) == 0
        writer.write(molecule(1))
    assert energies(path) == [1]


def test_a_goes_on(path: Path) -> None:
    made(path, 1, 2)
    inode = path.stat().st_ino
    with apt.AtpWriter(path, mode="a") as writer:
        assert len(writer) == 2
        writer.write(molecule(3))
        assert len(writer) == 3
        assert energies(path) == [1, 2]
    assert energies(path) == [1, 2, 3]
    assert path.stat().st_ino == inode


@pytest.mark.parametrize("name", ["empty_created", "empty_flushed", "tail_only"])
def test_a_on_files_without_molecules(path: Path, fixtures: Path, name: str) -> None:
    path.write_bytes((fixtures / f"{name}.atp").read_bytes())
    with apt.AtpWriter(path, mode="a") as writer:
        assert len(writer) == 0
        writer.write(apt.Molecule(np.zeros((1, 3)), [1]))  # float64: it is not too late for that
    assert apt.AtpDataset(path)[0].positions.tolist() == [[0, 0, 0]]
    assert AtpFile.open(path).slot.record_format == 3


def test_a_without_news_changes_nothing(path: Path, fixtures: Path) -> None:
    content = (fixtures / "tail_records.atp").read_bytes()
    path.write_bytes(content)
    with apt.AtpWriter(path, mode="a") as writer:
        writer.flush()
        writer.write([])
        writer.flush()
    assert apt.AtpDataset(path).batch(range(5)).index.tolist() == [*range(5)]
    with apt.AtpWriter(path, mode="a") as writer, pytest.raises(apt.FieldError):
        writer.write(apt.Molecule(np.zeros((1, 3)), [1]))
    assert AtpFile.open(path).slot == AtpFile(content).slot


REFUSED_FOR_APPEND = {
    "bad_a_magic": apt.CorruptFileError,
    "bad_a_version": apt.UnsupportedFormatError,
    "bad_both": apt.CorruptFileError,
    "bad_no_schema_v3": apt.CorruptFileError,
    "bad_record_format_4": apt.UnsupportedFormatError,
    "bad_schema_peratom": apt.CorruptFileError,
    "bad_schema_trailing": apt.CorruptFileError,
    "cut_below_gen1": apt.CorruptFileError,
    "cut_in_header": apt.CorruptFileError,
    "cut_zero": apt.CorruptFileError,
    "odd_index_count": apt.CorruptFileError,
}


@pytest.mark.parametrize("name", sorted(REFUSED_FOR_APPEND))
def test_a_refuses_damaged_files(path: Path, fixtures: Path, name: str) -> None:
    content = (fixtures / f"{name}.atp").read_bytes()
    path.write_bytes(content)
    for _ in range(2):  # the lock is gone after the first time
        with pytest.raises(REFUSED_FOR_APPEND[name], match=str(path)):
            apt.AtpWriter(path, mode="a")
    assert path.read_bytes() == content
    assert names(path) == ["a.atp"]


# Codecs and levels


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        ("none", 3),
        *(("lz4", level) for level in (0, 3, 12)),
        *(("zstd", level) for level in (-131072, -7, 0, 3, 19, 22)),
    ],
)
def test_codecs_and_levels(path: Path, atompack: AtompackProcess, codec: Any, level: int) -> None:
    made(path, 1, 2, codec=codec, level=level)
    slot = AtpFile.open(path).slot
    assert (CODECS[slot.codec], slot.level) == (codec, level if codec == "zstd" else 0)
    assert energies(path) == [1, 2]
    assert [m["energy"] for m in atompack.read(path)] == [1, 2]
    made(path, 3, mode="a")
    assert AtpFile.open(path).slot.level == slot.level
    assert energies(path) == [1, 2, 3]


def test_appending_at_another_level(path: Path) -> None:
    made(path, 1, codec="zstd", level=19)
    made(path, 2, codec="zstd", level=1, mode="a")
    assert AtpFile.open(path).slot.level == 1
    assert energies(path) == [1, 2]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_file_has_one_codec(path: Path, codec: Any) -> None:
    made(path, 1, codec=codec)
    before = path.read_bytes()
    for other in {*CODEC_NAMES} - {codec}:
        message = f"^{path}: codec: expected {codec} as in the file, got {other}"
        with pytest.raises(apt.FieldError, match=message):
            apt.AtpWriter(path, mode="a", codec=other)  # type: ignore[arg-type]
    assert path.read_bytes() == before
    with apt.AtpWriter(path, mode="a", codec=codec) as writer:
        assert writer.codec == codec


# Paths


@pytest.mark.parametrize("mode", ["x", "w", "a"])
def test_a_folder_that_is_missing(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "no" / "a.atp"
    with pytest.raises(FileNotFoundError) as caught:
        apt.AtpWriter(path, mode=mode)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize(
    ("mode", "error"), [("x", FileExistsError), ("w", IsADirectoryError), ("a", IsADirectoryError)]
)
def test_a_folder_stands_there(path: Path, mode: Any, error: type[OSError]) -> None:
    path.mkdir()
    with pytest.raises(error):
        apt.AtpWriter(path, mode=mode)
    assert names(path) == ["a.atp"]


@pytest.mark.parametrize("mode", ["x", "w", "a"])
def test_a_pipe_stands_there(path: Path, mode: Any) -> None:
    os.mkfifo(path)
    with pytest.raises(OSError, match=r"regular|exists"):
        apt.AtpWriter(path, mode=mode)
    assert names(path) == ["a.atp"]


@pytest.mark.parametrize("mode", ["w", "a"])
def test_a_symbolic_link_is_followed(tmp_path: Path, mode: Any) -> None:
    target, link = tmp_path / "there" / "real.atp", tmp_path / "link.atp"
    target.parent.mkdir()
    made(target, 1)
    link.symlink_to(target)
    with apt.AtpWriter(link, mode=mode) as writer:
        assert writer.path == target
        writer.write(molecule(2))
        with pytest.raises(apt.WriterLockedError):
            apt.AtpWriter(target, mode="a")
    assert link.is_symlink()
    assert energies(target) == ([2] if mode == "w" else [1, 2])
    assert names(target) == ["real.atp"]


@pytest.mark.parametrize("mode", ["x", "w", "a"])
def test_a_symbolic_link_to_nothing(tmp_path: Path, mode: Any) -> None:
    target, link = tmp_path / "real.atp", tmp_path / "link.atp"
    link.symlink_to(target)
    made(link, 1, mode=mode)
    assert link.is_symlink()
    assert energies(target) == [1]


@pytest.mark.parametrize("name", ["a", "gr\u00fc\u00df \U0001f9ea", "-", "a\nb", "x" * 245])
def test_names(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / name, 1)
    made(path, 2, mode="w")
    made(path, 3, mode="a")
    assert energies(path) == [2, 3]


def test_relative_paths_stay_where_they_were(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with apt.AtpWriter("a#1.atp", mode="w") as writer:
        monkeypatch.chdir(tmp_path / "other")
        writer.write(molecule(1))
    assert energies(tmp_path / "a#1.atp") == [1]
    assert repr(writer) == f"AtpWriter('{tmp_path / 'a#1.atp'}')"


UNPRIVILEGED = """
import os, sys
import atompack_torch as apt
if os.geteuid() == 0:
    os.setuid(65534)
for mode in "xwa":
    try:
        apt.AtpWriter(sys.argv[1], mode=mode)
    except OSError as error:
        print(type(error).__name__, error.filename == sys.argv[1])
    else:
        print("opened")
"""


@pytest.mark.parametrize("there", [True, False])
def test_no_permission(scripts: ScriptServer, new_path: NewPath, there: bool) -> None:
    folder = new_path()
    folder.mkdir()
    path = folder / "a.atp"
    if there:
        made(path, 1).chmod(0o444)
    folder.chmod(0o555)
    folder.parent.chmod(0o755)
    done = scripts.run(UNPRIVILEGED, path)
    assert done.stdout.splitlines() == ["PermissionError True"] * 3, done.stderr
    assert names(path) == (["a.atp"] if there else [])


def test_permissions_are_those_of_the_umask(path: Path) -> None:
    old = os.umask(0o027)
    try:
        made(path, 1)
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o640


# What a killed writer leaves


def test_what_a_killed_writer_left_is_used_again(path: Path) -> None:
    left = path.with_name(".a.atp.new")
    for mode in ("x", "w", "w", "a"):
        left.write_bytes(b"rubbish" * 5000)
        if mode == "a":
            path.unlink()
        made(path, 1, mode=mode)
        assert energies(path) == [1]
        assert path.stat().st_size < 10_000
        assert names(path) == ["a.atp"]
    path.unlink()
    left.write_bytes(b"rubbish" * 5000)
    with apt.AtpWriter(path):
        assert path.stat().st_size == 8192


def test_a_second_name_of_a_file_is_no_leftover(path: Path) -> None:
    """Where publishing is done by a link, a writer may die between its two steps."""
    left = path.with_name(".a.atp.new")
    made(path, 1)
    os.link(path, left)
    with pytest.raises(FileExistsError):
        apt.AtpWriter(path, mode="x")
    assert energies(path) == [1]
    assert names(path) == ["a.atp"]


@pytest.mark.parametrize("mode", ["x", "w"])
def test_a_link_in_place_of_a_leftover_is_not_followed(path: Path, mode: Any) -> None:
    victim = path.with_name("victim")
    victim.write_text("precious")
    path.with_name(".a.atp.new").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic"):
        apt.AtpWriter(path, mode=mode)
    assert victim.read_text() == "precious"


# Leaving


def test_leaving_by_an_exception_commits_nothing_more(path: Path) -> None:
    def fail(mode: Any) -> None:
        with apt.AtpWriter(path, mode=mode) as writer:
            writer.write(molecule(1))
            writer.flush()
            writer.write(molecule(2))
            raise KeyError("of the caller")

    for mode in ("x", "w"):
        with pytest.raises(KeyError, match="of the caller"):
            fail(mode)
        assert energies(path) == [1]
    with pytest.raises(KeyError, match="of the caller"):
        fail("a")
    assert energies(path) == [1, 1]
    assert names(path) == ["a.atp"]
    made(path, 3, mode="a")
    assert energies(path) == [1, 1, 3]


def test_discard(path: Path) -> None:
    made(path, 1)
    for mode in ("w", "a"):
        writer = apt.AtpWriter(path, mode=mode)  # type: ignore[arg-type]
        writer.write(molecule(2))
        writer.discard()
        writer.discard()
        writer.close()
        assert energies(path) == [1]
        assert names(path) == ["a.atp"]


def test_a_closed_writer(path: Path) -> None:
    writer = apt.AtpWriter(path)
    writer.write(molecule(1))
    writer.close()
    writer.close()
    message = f"^{path}: the writer is closed"
    for use in (
        lambda: writer.write(molecule(1)),
        lambda: writer.write([]),
        lambda: writer.write_arrays(positions=np.zeros((1, 1, 3)), atomic_numbers=[[1]]),
        writer.flush,
        lambda: len(writer),
        lambda: writer.codec,
    ):
        with pytest.raises(ValueError, match=message):
            use()
    assert writer.path == path
    assert energies(path) == [1]
    with apt.AtpWriter(path, mode="a"):
        pass


def test_a_forgotten_writer_warns_and_lets_go(path: Path) -> None:
    def forget(mode: Any) -> None:
        writer = apt.AtpWriter(path, mode=mode)
        writer.write(molecule(1))

    with pytest.warns(ResourceWarning, match=r"unclosed AtpWriter\('.*a\.atp'\): what was"):
        forget("x")
    assert energies(path) == []
    path.unlink()
    with pytest.warns(ResourceWarning, match="unclosed"):
        forget("w")
    assert names(path) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(path, 2)
    assert energies(path) == [2]


def test_an_exit_without_closing_commits_nothing(scripts: ScriptServer, path: Path) -> None:
    script = (
        "import sys, numpy as np, atompack_torch as apt\n"
        "writer = apt.AtpWriter(sys.argv[1], codec='zstd')\n"
        "m = apt.Molecule(np.zeros((2, 3), 'f4'), [1, 1], energy=1.0)\n"
        "writer.write(m); writer.flush(); writer.write([m] * 1000)\n"
        "sys.exit()"
    )
    done = scripts.run(script, path)
    assert done.returncode == 0, done.stderr
    assert energies(path) == [1]


# Locks


@pytest.mark.parametrize("second", ["x", "w", "a"])
@pytest.mark.parametrize("first", ["x", "w", "w over", "a", "a over"])
def test_one_writer_at_a_time(path: Path, first: str, second: Any) -> None:
    if first.endswith("over"):
        made(path, 1)
    writer = apt.AtpWriter(path, mode=first[0])  # type: ignore[arg-type]
    present = path.exists()
    for committed in (False, True):
        if committed:
            writer.write(molecule(9))
            writer.flush()
        # What is there cannot be made, but two that make something meet before that.
        makes = second == "x" and path.exists() and (committed or first != "w over")
        error = FileExistsError if makes else apt.WriterLockedError
        with pytest.raises(error) as caught:
            apt.AtpWriter(path, mode=second)
        assert str(path) in str(caught.value)
        assert path.exists() or not present
    writer.close()
    assert energies(path)[-1] == 9
    with apt.AtpWriter(path, mode="a"):
        pass
    assert names(path) == ["a.atp"]


OTHER_WRITER = """
import sys
import atompack_torch as apt
try:
    apt.AtpWriter(sys.argv[1], mode="a").close()
except apt.WriterLockedError as error:
    print(error)
else:
    print("opened")
"""


def test_one_writer_in_all_processes(scripts: ScriptServer, path: Path) -> None:
    with apt.AtpWriter(path) as writer:
        locked = scripts.run(OTHER_WRITER, path)
        assert locked.stdout.strip() == f"{path}: another writer has this file open", locked.stderr
        writer.write(molecule(1))
    assert scripts.run(OTHER_WRITER, path).stdout.strip() == "opened"
    assert energies(path) == [1]


def test_the_name_given_away_while_open(path: Path) -> None:
    """Whoever renames or removes a file under its writer: the writer keeps to its own file."""
    with apt.AtpWriter(path) as writer:
        moved = path.rename(path.with_name("moved.atp"))
        made(path, 7)
        writer.write(molecule(1))
        writer.flush()
        with pytest.raises(apt.WriterLockedError):
            apt.AtpWriter(moved, mode="a")
    assert (energies(path), energies(moved)) == ([7], [1])


# Forks

FORK = """
import os, signal, sys
import numpy as np
import atompack_torch as apt

path, mode = sys.argv[1:]
molecule = apt.Molecule(np.zeros((2, 3), "f4"), [1, 1], energy=1.0)
writer = apt.AtpWriter(path, mode=mode, codec="zstd")
writer.write([molecule] * 10)
child = os.fork()
if child == 0:
    signal.alarm(20)
    refused = 0
    for use in (lambda: writer.write(molecule), writer.flush, lambda: len(writer), writer.close,
                writer.discard):
        try:
            use()
        except apt.WriterLockedError as error:
            refused += "fork" in str(error)
    try:
        apt.AtpWriter(path, mode="a")
    except apt.WriterLockedError:
        refused += 1
    del writer, use                  # the parent's file, lock and threads stay as they are
    other = apt.AtpWriter(path + ".child", mode="w", codec="zstd")
    other.write([molecule] * 5)      # and the child may write files of its own
    other.close()
    os._exit(0 if refused == 6 else 3)
status = os.waitpid(child, 0)[1]
assert status == 0, status
try:
    apt.AtpWriter(path, mode="a")
except apt.WriterLockedError:
    writer.write([molecule] * 10)
    writer.close()
    with apt.AtpWriter(path, mode="a") as again:
        print(len(again))
"""


@pytest.mark.parametrize("mode", ["x", "w"])
def test_a_fork_can_neither_write_nor_break_the_lock(
    scripts: ScriptServer, path: Path, mode: str
) -> None:
    done = scripts.run(FORK, path, mode)
    assert (done.returncode, done.stdout.strip()) == (0, "20"), done.stderr
    assert energies(path) == [1] * 20
    assert energies(Path(f"{path}.child")) == [1] * 5
    assert names(path) == ["a.atp", "a.atp.child"]


LIVING_CHILD = """
import os, sys
import atompack_torch as apt

writer = apt.AtpWriter(sys.argv[1], mode="a")
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.close(write)
    os.read(read, 1)                 # keeps the inherited descriptor until the parent is done
    os._exit(0)
writer.close()
apt.AtpWriter(sys.argv[1], mode="a").close()
os.close(write)
os.waitpid(child, 0)
print("done")
"""


def test_a_living_fork_does_not_keep_the_lock(scripts: ScriptServer, path: Path) -> None:
    assert scripts.run(LIVING_CHILD, path).stdout.strip() == "done"


# Readers


def test_readers_keep_their_generation(path: Path) -> None:
    made(path, 1, 2)
    readers = [(apt.AtpDataset(path), [1.0, 2.0])]
    with apt.AtpWriter(path, mode="a") as writer:
        for number in range(3, 8):
            writer.write(molecule(number))
            for reader, want in readers:
                assert reader.batch(range(len(reader))).energy.tolist() == want
            writer.flush()
            assert energies(path) == [*range(1, number + 1)]
            readers.append((apt.AtpDataset(path), [*range(1, number + 1)]))
    for reader, want in readers:
        assert len(reader) == len(want)
        assert reader.batch(range(len(reader))).energy.tolist() == want
        changed = reader is not readers[-1][0]
        assert reader.refresh() == changed
        assert reader.batch(range(7)).energy.tolist() == [*range(1, 8)]


@pytest.mark.parametrize("read_before", [True, False])
def test_w_leaves_open_readers_alone(path: Path, read_before: bool) -> None:
    made(path, 1, 2)
    reader = apt.AtpDataset(path)
    if read_before:
        assert reader[1].energy == 2
    made(path, 5, 6, 7, mode="w")
    if read_before:
        assert reader.batch([0, 1]).energy.tolist() == [1, 2]
    else:
        with pytest.raises(OSError, match="refresh"):
            reader.batch([0, 1])
    assert reader.refresh()
    assert reader.batch([0, 1, 2]).energy.tolist() == [5, 6, 7]


def test_a_reader_of_a_file_whose_tail_is_cut(path: Path, fixtures: Path) -> None:
    path.write_bytes((fixtures / "tail_garbage.atp").read_bytes())
    opened, unread = apt.AtpDataset(path), apt.AtpDataset(path)
    want = opened.batch(range(5)).positions
    with apt.AtpWriter(path, mode="a", codec="zstd") as writer:
        writer.write(opened[0])
        for reader in (opened, unread):
            assert reader.batch(range(5)).positions.equal(want)
            reader.close()
            assert reader.batch(range(5)).positions.equal(want)
        writer.flush()
        assert unread.batch(range(5)).positions.equal(want)


def test_reading_while_writing_from_several_threads(path: Path) -> None:
    """The writer takes calls from any thread, one after the other; each stays whole."""
    n_threads, n_calls, failures = 4, 25, []

    def work(thread: int) -> None:
        try:
            for call in range(n_calls):
                writer.write([molecule(1000 * thread + call)] * 3)
                if call % 5 == thread:
                    writer.flush()
                    assert len(energies(path)) >= 3 * (call + 1)
        except BaseException as error:  # handed to the main thread below
            failures.append(error)

    with apt.AtpWriter(path, codec="lz4") as writer:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]
    held = energies(path)
    assert held[::3] == held[1::3] == held[2::3]
    for thread in range(n_threads):
        own = [e for e in held[::3] if e // 1000 == thread]
        assert own == [1000 * thread + call for call in range(n_calls)]


@pytest.mark.parametrize("how", ["w", "compact"])
def test_a_file_that_came_since_is_not_replaced(how: str, new_path: NewPath) -> None:
    path, source = new_path(), new_path()
    molecule = apt.Molecule(np.zeros((1, 3), np.float32), [1], energy=1.0)
    with apt.AtpWriter(source) as writer:
        writer.write([molecule, molecule])
    with apt.AtpWriter(new_path()) as writer:
        writer.write(molecule)
        other = writer.path
    if how == "w":
        late = apt.AtpWriter(path, mode="w")
        late.write([molecule, molecule])
        other.rename(path)
        with pytest.raises(FileExistsError):
            late.flush()
        late.discard()
    else:

        def interfere(n: int) -> None:
            if other.exists():
                other.rename(path)

        with pytest.raises(FileExistsError):
            apt.compact(source, path, progress=interfere)
    assert len(apt.AtpDataset(path)) == 1
    assert not path.with_name(f".{path.name}.new").exists()


def test_appending_keeps_to_the_level_of_the_caller_for_lz4(new_path: NewPath) -> None:
    """No header tells it."""
    rng = np.random.default_rng(0)
    batch = {
        "positions": rng.integers(0, 3, (20, 50, 3)).astype(np.float32),
        "atomic_numbers": np.ones((20, 50), np.int64),
    }
    sizes = {}
    for level in (0, 12):
        path = new_path()
        apt.AtpWriter(path, codec="lz4").close()
        with apt.AtpWriter(path, mode="a", level=level) as writer:
            writer.write_arrays(**batch)
        sizes[level] = path.stat().st_size
    assert sizes[12] < sizes[0]
