"""Damaged, cut and odd extended XYZ files: named errors, bounded memory, never a wrong frame."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from reference.extxyz import COLUMNS, Told, blocks, one_atom, read, read_or_message
from reference.frames import frames_of, same

import atompack_torch as apt
from atompack_torch.conversion import convert
from atompack_torch.fields import MOLECULE_PROPERTY

# What is wrong, what the error says, and where: molecule, offset.
DAMAGE = [
    ("x\n", "frame: expected the number of atoms, got 'x'", 0),
    ("-1\n\n", "frame: expected the number of atoms, got '-1'", 0),
    ("1.0\n\n", "frame: expected the number of atoms, got '1.0'", 0),
    ("1", "frame: expected a comment line, got the end of the file", 1),
    ("2\na=1\nH 0 0 0\n\n        \n", "atom line: expected an element's symbol, got the end", 14),
    ("2\na=1\nH 0 0 0.000000\n", "frame: expected 2 atom lines, got 1", 21),
    ("3\na=1\nH 0 0 0\n", "frame: expected 3 atom lines, got 8 more bytes", 6),
    (
        "9223372036854775807\na=1\nH 0 0 0\n",
        "frame: expected 9223372036854775807 atom lines, got 8",
        24,
    ),
    (
        "2\na=1\nH 0 0 0\n1\na=2\nH 0 0 0\n1\na=3\nH 0 0 0\n",
        "atom line: expected an element's symbol, got '1'",
        14,
    ),
    ("1\na=1\nH 0 0 zero\n", "atom line: expected a number, got 'zero' .*field 'pos'", 12),
    ("1\na=1\nH 0 0\n\n\n\n", "atom line: expected a number, got the end of the line", 11),
    ("1\na=1\nH 0 0 0x1\n", "atom line: expected a number, got '0x1'", 12),
    ("1\na=1\nH 0 0 1_0\n", "atom line: expected a number, got '1_0'", 12),
    (one_atom(COLUMNS + ":i:I:1", "H 0 0 0 1.5"), "an integer, got '1.5' .*field 'i'", 47),
    (one_atom(COLUMNS + ":l:L:1", "H 0 0 0 2"), "expected T or F, got '2'", 47),
    (one_atom(COLUMNS, "H 0 0 0 2"), "atom line: expected 4 words, as many .* got 5", 41),
    (
        one_atom("Properties=species:S:1:pos:R"),
        "Properties: expected name:type:width for each column, got 5",
        2,
    ),
    (
        one_atom("Properties=species:S:1:pos:Q:3"),
        "column 'pos': expected type R, I, S or L, got 'Q'",
        2,
    ),
    (
        one_atom("Properties=species:S:1:pos:R:0"),
        "column 'pos': expected a width of 1 to 1048576, got '0'",
        2,
    ),
    (
        one_atom("Properties=species:S:1:pos:R:1048577"),
        "column 'pos': expected a width of 1 to 1048576, got '1048577'",
        2,
    ),
    (one_atom(COLUMNS + ":a:R:1048576"), "expected at most 1048576 words a line, got 1048580", 2),
    (
        one_atom("Properties=species:S:1:pos:I:3"),
        "'pos': expected real of width 3, got integer of width 3",
        2,
    ),
    (one_atom("Properties=species:S:1"), "Properties: expected one column 'pos', got 0", 2),
    (
        one_atom("Properties=pos:R:3"),
        "Properties: expected a column 'species' or 'Z', got neither",
        2,
    ),
    (
        one_atom("Properties=species:S:1:symbols:S:1:pos:R:3"),
        "Properties: two columns give the elements",
        2,
    ),
    (one_atom(COLUMNS + ":a:R:1:a:R:1"), "Properties: duplicate column 'a'", 2),
    (one_atom(COLUMNS + "::R:1"), "Properties: expected the name of a column, got none", 2),
    (one_atom("Properties="), "Properties: expected name:type:width for each column, got ''", 2),
    (one_atom('Lattice="1 2 3"'), "Lattice: expected nine numbers, got '1 2 3'", 2),
    (one_atom('Lattice="1 2 3 4 5 6 7 8 x"'), "Lattice: expected nine numbers", 2),
    (one_atom('a=1 pbc="T F"'), "pbc: expected three flags, got 'T F'", 6),
    (one_atom('pbc="T T F" a=1'), "pbc: expected a Lattice with it, or F F F, got 'T T F'", 2),
    (one_atom('Lattice="1 0 0 0 1 0 0 0 nan"'), "Lattice: expected finite numbers, got", 2),
    (one_atom("pbc=1.5"), "pbc: expected three flags, got '1.5'", 2),
    (one_atom("=5 a=1"), "comment line: expected a key before '=', got none", 2),
    (one_atom('a=1 b="open'), 'comment line: expected a closing ", got none', 8),
    (one_atom("a=1 b=[1,[2]"), r"comment line: expected a closing \], got none", 8),
    (one_atom("a=1 b=\\"), r"comment line: expected a character after '\\', got none", 8),
    (one_atom("a=1 a=2"), "comment line: duplicate key .*field 'a'", 6),
    (b"1\na=\xff\nH 0 0 0\n", "comment line: expected UTF-8, got other bytes", 2),
    (b"1\nProperties=species:S:1:pos:R:3:s:S:1\nH 0 0 0 \xff\n", "atom line: expected UTF-8", 47),
]


@pytest.mark.parametrize(("text", "message", "offset"), DAMAGE)
def test_damage_is_named(
    write: Callable[[str | bytes], Path], text: str | bytes, message: str, offset: int
) -> None:
    good = one_atom("good=1").encode()
    path = write(good + (text if isinstance(text, bytes) else text.encode()))
    read = blocks(path)
    [frame] = frames_of([next(read)])
    assert frame[MOLECULE_PROPERTY, "good"] == 1
    with pytest.raises(apt.CorruptFileError, match=message) as raised:
        next(read)
    assert raised.match(rf"molecule 1, .*offset {offset + len(good)}\)$")
    assert str(raised.value).startswith(f"{path}: ")


def test_lattice_vectors_in_lines_of_their_own_are_not_read(write: Callable[[str], Path]) -> None:
    path = write("1\n\nH 0 0 0\nVEC1 1 0 0\nVEC2 0 1 0\nVEC3 0 0 1\n")
    with pytest.raises(apt.UnsupportedFormatError, match="lattice vectors in VEC lines"):
        read(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read(tmp_path)


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("energy=low", r"energy: expected numbers of shape \(\), got text"),
        ('energy="1 2"', r"energy: expected numbers of shape \(\), got int64 of shape \(2,\)"),
        ("energy", r"energy: expected numbers of shape \(\), got bool of shape \(\)"),
        (
            'stress="1 2 3"',
            r"stress: expected numbers of shape \(3, 3\), got int64 of shape \(3,\)",
        ),
        (
            "Properties=species:S:1:pos:R:2:forces:R:1",
            r"forces: expected numbers of shape \(3,\), got float64 of shape \(\)",
        ),
    ],
)
def test_a_label_that_is_none(write: Callable[[str], Path], comment: str, said: str) -> None:
    """Whether it stands in most frames or in one of them."""
    bad = one_atom(
        comment.replace("pos:R:2", "pos:R:3") + " a=1",
        "H 0 0 0 1"[: None if "Prop" in comment else 7],
    )
    good = one_atom("a=1")
    for text, frame in ((good + bad, 1), (good * 20 + bad, 20)):
        with pytest.raises(apt.FieldError, match=said) as raised:
            read(write(text))
        assert raised.match(rf"\(molecule {frame}, field '")


def test_cut_at_any_byte(write: Callable[[str], Path], told: Told) -> None:
    """The frames before the cut are whole; a cut inside the last word is at least noted."""
    columns = "Properties=species:S:1:pos:R:3:forces:R:3"
    comment = f'Lattice="1 0 0 0 1 0 0 0 1" {columns} energy=-1.25 name="a b"'
    text = f"2\n{comment}\nH 0 0 0.5 1 2 3\nHe 1 2 3 4 5 6.25\n" * 3
    whole = read(write(text))
    for cut in range(len(text)):
        told.notes.clear()
        got, error = [], None
        try:
            for block in blocks(write(text[:cut]), report=told):
                got += frames_of([block])
        except apt.CorruptFileError as raised:
            error = raised
        n_whole = text.count("\n", 0, cut) // 4
        is_open = not text[:cut].endswith("\n") and cut > 0
        assert error is not None or cut % (len(text) // 3) == 0 or (is_open and told.notes), cut
        for i in range(n_whole):
            assert all(same(got[i][field], value) for field, value in whole[i].items()), cut
        assert len(got) == n_whole + (error is None and is_open), cut


def test_flipped_bytes_never_crash(write: Callable[[bytes], Path]) -> None:
    frame = one_atom(
        'Properties=species:S:1:pos:R:3:q:I:1 b="_JSON [[1], [2]]" c=[[1,2]]', "H 0 0 1 7"
    )
    text = bytearray((frame * 2).encode())
    for at in range(len(text)):
        for new in (0, 10, 32, 34, 61, 91, 255):
            damaged = bytearray(text)
            damaged[at] = new
            path = write(bytes(damaged))
            _, message = read_or_message(path)
            assert message is None or message.startswith(f"{path}: ")


def test_frames_that_share_no_key_do_not_fill_memory(write: Callable[[str], Path]) -> None:
    """Keys are many more than molecules have, which columns of the whole file would be full of."""
    n = 6000
    path = write("".join(f"0\nk{i}=1\n" for i in range(n)))
    sizes = [len(block.ptr) - 1 for block in blocks(path)]
    assert max(sizes) * n < 1.1 * 2**23
    assert sum(sizes) == n


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "x.extxyz"
    path.write_text(one_atom("a=1") * 20_000)
    read = blocks(path)
    next(read)
    path.write_text(one_atom("a=1"))
    with pytest.raises((apt.CorruptFileError, OSError), match="the file shrank while it was open"):
        for _ in read:
            pass


def test_very_long_lines(write: Callable[[str], Path]) -> None:
    long = one_atom('a="' + "1.5 " * 1_000_000 + '"')
    [got, _] = read(write(long + one_atom("b=1")))
    assert got[MOLECULE_PROPERTY, "a"].shape == (1_000_000,)
    with pytest.raises(
        apt.CorruptFileError, match="line: expected at most 67108864 bytes, got more"
    ):
        read(write(one_atom("a=" + "x" * (64 << 20))))


def test_a_faulty_frame_does_not_end_a_conversion_that_skips_errors(
    write: Callable[[str], Path], tmp_path: Path
) -> None:
    """The number of its lines says where the next one begins, whichever line is faulty."""
    faulty = {
        2: one_atom("energy=2 energy=3"),
        3: one_atom('energy=3 Lattice="1 2"'),
        5: one_atom("energy=5").replace("H 0", "H x"),
        600: one_atom('energy="open'),
    }
    path = write("".join(faulty.get(i, one_atom(f"energy={i}")) for i in range(1200)))
    kept = [i for i in range(1200) if i not in faulty]
    report = convert(path, tmp_path / "a.atp", on_error="skip", progress=False)
    assert apt.AtpDataset(tmp_path / "a.atp")[:].energy.tolist() == kept
    assert {what for what, _ in report.skipped} == {"structures"}
    assert sorted(int(re.findall(r"molecule (\d+)", why)[0]) for _, why in report.skipped) == [
        *faulty
    ]
    for i in range(3):
        convert(path, tmp_path / "parts", part=(i, 3), on_error="skip", progress=False)
    assert apt.AtpDataset(tmp_path / "parts")[:].energy.tolist() == kept
    for refuse in (apt.open, lambda path: convert(path, tmp_path / "b.atp", progress=False)):
        with pytest.raises(
            apt.CorruptFileError, match=r"duplicate key .*molecule 2, field 'energy'"
        ):
            refuse(path)
