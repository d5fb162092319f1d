#include "formats/extxyz/atom_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "formats/extxyz/show.h"
#include "message_of.h"

namespace atompack::extxyz {
namespace {

using test::corrupt;
using test::show;

Atoms read(const std::string& text) {
  LineReader lines(as_bytes(text), 0);
  FrameHeadReader heads;
  Atoms atoms;
  read_atoms(lines, *heads.next(lines), atoms);
  return atoms;
}

std::string refused(const std::string& text) {
  return corrupt([&] { read(text); });
}

std::string one_atom(const std::string& comment, const std::string& atom = "H 0 0 0") {
  return "1\n" + comment + "\n" + atom + "\n";
}

// Columns that are fields.
std::string describe(const Atoms& atoms) {
  std::string text;
  for (size_t i = 0; i < atoms.columns.size(); ++i) {
    if (atoms.is_field[i]) text += show(atoms.columns[i]) + '\n';
  }
  return text;
}

TEST(AtomLines, NumbersGoBeforeSymbols) {
  const std::string columns = "Properties=species:S:1:pos:R:3:Z:I:1";
  const Atoms atoms = read("2\n" + columns + "\nfe 0 0 0 26\nX 0 0 0 255\n");
  EXPECT_EQ(atoms.numbers, (std::vector<uint8_t>{26, 255}));
  EXPECT_EQ(describe(atoms), "");
  EXPECT_EQ(describe(read(one_atom(columns, "Fe_up 0 0 0 26"))), "text 'Fe_up'\n");
  EXPECT_EQ(refused(one_atom(columns, "H 0 0 0 256")),
            "atomic number: expected 0 to 255, got 256 (field 'Z', offset 2)");
}

TEST(AtomLines, WordsWithoutColumn) {
  EXPECT_TRUE(read(one_atom("words only", "H 0 0 0 1 2")).has_unnamed_words);
  EXPECT_FALSE(read(one_atom("words only")).has_unnamed_words);
  EXPECT_EQ(refused(one_atom("Properties=species:S:1:pos:R:3", "H 0 0 0 1")),
            "atom line: expected 4 words, as many as Properties names, got 5: complete Properties, or convert with "
            "--from ase, which drops the others (offset 41)");
}

TEST(AtomLines, MemoryIsThatOfTheLinesThereIsRoomFor) {
  EXPECT_EQ(refused("9223372036854775807\n\nH 0 0 0\n"),
            "frame: expected 9223372036854775807 atom lines, got 1 (offset 29)");
  EXPECT_EQ(refused("2\nProperties=species:S:1:pos:R:3:x:R:1048572\nH 0 0 0\nH 0 0 0\n"),
            "atom line: expected a number, got the end of the line (field 'x', offset 52)");
  EXPECT_EQ(refused("3\n\nH 0 0 0\n1\nH 0 0 0\n"),
            "atom line: expected an element's symbol, got '1' (field 'species', offset 11)");
  EXPECT_EQ(read("2\n\nH 0 0 0\nH 0 0 0").numbers.size(), 2U);
}

TEST(AtomLines, Damage) {
  EXPECT_EQ(refused("2\n\nH 0 0 0.0000000\n"), "frame: expected 2 atom lines, got 1 (offset 19)");
  EXPECT_EQ(refused(one_atom("", "Q 0 0 0")),
            "atom line: expected an element's symbol, got 'Q' (field 'species', offset 3)");
  EXPECT_EQ(refused(one_atom("", "H 0 0  \n ")),
            "atom line: expected a number, got the end of the line (field 'pos', offset 10)");
  EXPECT_EQ(refused(one_atom("", "H 0 0 " + std::string(100, '9') + "x")),
            "atom line: expected a number, got '" + std::string(40, '9') + "...' (field 'pos', offset 9)");
}

}  // namespace
}  // namespace atompack::extxyz
