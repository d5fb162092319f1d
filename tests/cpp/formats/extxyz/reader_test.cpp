// Also of atom_lines.h and block.h, which have no other way in.
#include "formats/extxyz/reader.h"

#include <gtest/gtest.h>

#include <cmath>

#include "byte_string.h"
#include "formats/extxyz/show.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::extxyz {
namespace {

using test::ByteString;
using test::corrupt;
using test::show;
using test::TemporaryFile;

constexpr uint64_t kAnyBytes = uint64_t{1} << 40;

Block read(const std::string& text) {
  const TemporaryFile file(ByteString(text).bytes());
  return Reader(file.path()).next_block(1 << 20, kAnyBytes).value();
}

// What is said of the first frame that is wrong, without the path.
std::string refused(const std::string& text) {
  const TemporaryFile file(ByteString(text).bytes());
  Reader reader(file.path());
  const std::string message = corrupt([&] {
    while (reader.next_block(1 << 20, kAnyBytes)) continue;
  });
  EXPECT_TRUE(message.starts_with(file.path() + ": "));
  return message.substr(std::min(message.size(), file.path().size() + 2));
}

std::string one_atom(const std::string& comment, const std::string& atom = "H 0 0 0") {
  return "1\n" + comment + "\n" + atom + "\n";
}

// "atom q present 101 stacked: ..." and so on, one line a field.
std::string describe(const Block& block) {
  std::string text;
  for (const Field& field : block.fields) {
    text += cat(field.level == Level::atom ? "atom " : "molecule ", field.key, ' ');
    for (const uint8_t present : field.present) text += present != 0 ? '1' : '0';
    text += field.stacked ? " stacked" : " separate";
    for (const Array& array : field.arrays) text += " | " + show(array);
    text += '\n';
  }
  return text;
}

TEST(Reader, Structure) {
  const Block block = read(
      "2\nLattice=\"1 2 3 4 5 6 7 8 9\" Properties=pos:R:3:species:S:1\n1 2 3 H\n4 5 6 he\n"
      "1\npbc=\"F F F\"\nFE 7 8 9\n");
  EXPECT_EQ(block.first_frame, 0);
  EXPECT_EQ(block.ptr, (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(block.positions, (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(block.numbers, (std::vector<uint8_t>{1, 2, 26}));
  EXPECT_EQ(block.has_lattice, (std::vector<uint8_t>{1, 0}));
  EXPECT_EQ(block.lattices[8], 9);
  EXPECT_TRUE(std::isnan(block.lattices[9]));
  EXPECT_EQ(block.pbc, (std::vector<uint8_t>{1, 1, 1, 0, 0, 0}));
  EXPECT_TRUE(block.fields.empty());
}

TEST(Reader, ColumnsOfEveryType) {
  const std::string properties = "Properties=species:S:1:pos:R:3:r:R:2:i:I:1:l:L:1:s:S:1";
  EXPECT_EQ(describe(read(one_atom(properties, "H 0 0 0 1.5 +2 3 T abc"))),
            "atom r 1 stacked | real(2) 1.5 2\n"
            "atom i 1 stacked | integer 3\n"
            "atom l 1 stacked | flag T\n"
            "atom s 1 separate | text 'abc'\n");
}

TEST(Reader, AbsentRowsAreFilled) {
  const std::string with = "2\nProperties=Z:I:1:pos:R:3:q:R:1:n:I:1 t=x e=1\n1 0 0 0 5 6\n2 0 0 0 7 8\n";
  EXPECT_EQ(describe(read(one_atom("t=y") + with + one_atom("e=2"))),
            "molecule t 110 stacked | text 'y' 'x' ''\n"
            "molecule e 011 stacked | integer 0 1 2\n"
            "atom q 010 stacked | real nan 5 7 nan\n"
            "atom n 010 stacked | integer 0 6 8 0\n");
}

TEST(Reader, FramesThatDifferAreNotStacked) {
  EXPECT_EQ(describe(read(one_atom("a=1") + one_atom("a=2.5") + one_atom("a=\"1 2\"") + one_atom("a=3 b"))),
            "molecule a 1111 separate | integer 1 | real 2.5 | integer(2) 1 2 | integer 3\n"
            "molecule b 0001 stacked | flag F F F T\n");
  const std::string wide = one_atom("Properties=species:S:1:pos:R:3:q:R:2", "H 0 0 0 1 2");
  const std::string narrow = one_atom("Properties=species:S:1:pos:R:3:q:R:1", "H 0 0 0 3");
  EXPECT_EQ(describe(read(wide + narrow)), "atom q 11 separate | real(2) 1 2 | real 3\n");
}

TEST(Reader, RareFieldsAreNotStacked) {
  std::string text = one_atom("rare=1 Properties=species:S:1:pos:R:3:q:R:1", "H 0 0 0 3");
  for (int i = 0; i < 7; ++i) text += one_atom("");
  EXPECT_TRUE(read(text).fields[0].stacked && read(text).fields[1].stacked);
  text += one_atom("");
  EXPECT_EQ(describe(read(text)), "molecule rare 100000000 separate | integer 1\natom q 100000000 separate | real 3\n");
}

TEST(Reader, WidensWhereItIsTold) {
  const std::string columns = " Properties=species:S:1:pos:R:3:q:I:1:s:I:1";
  const TemporaryFile file(ByteString(one_atom("a=1 b=1 c=\"1 2\" d=x" + columns, "H 0 0 0 3 4")).bytes());
  Reader reader(file.path());
  reader.widen(Level::molecule, "a", Kind::real);
  reader.widen(Level::molecule, "b", Kind::text);
  reader.widen(Level::molecule, "c", Kind::text);
  reader.widen(Level::molecule, "d", Kind::real);
  reader.widen(Level::atom, "q", Kind::real);
  reader.widen(Level::atom, "s", Kind::text);
  EXPECT_EQ(describe(reader.next_block(1, 1).value()),
            "molecule a 1 stacked | real 1\nmolecule b 1 stacked | text '1'\nmolecule c 1 stacked | text '1 2'\n"
            "molecule d 1 stacked | text 'x'\natom q 1 stacked | real 3\natom s 1 stacked | integer 4\n");
}

TEST(Reader, NumbersGoBeforeSymbols) {
  const std::string columns = "Properties=species:S:1:pos:R:3:Z:I:1";
  const Block block = read("2\n" + columns + "\nfe 0 0 0 26\nX 0 0 0 255\n");
  EXPECT_EQ(block.numbers, (std::vector<uint8_t>{26, 255}));
  EXPECT_TRUE(block.fields.empty());
  EXPECT_EQ(describe(read(one_atom(columns, "Fe_up 0 0 0 26"))), "atom species 1 separate | text 'Fe_up'\n");
  EXPECT_EQ(refused(one_atom(columns, "H 0 0 0 256")),
            "atomic number: expected 0 to 255, got 256 (molecule 0, field 'Z', offset 2)");
}

TEST(Reader, WordsWithoutColumn) {
  EXPECT_EQ(read(one_atom("words only", "H 0 0 0 1 2") + one_atom("")).n_unnamed_words, 1);
  EXPECT_EQ(read(one_atom("words only") + one_atom("a=1")).n_plain_comments, 1);
  EXPECT_EQ(refused(one_atom("Properties=species:S:1:pos:R:3", "H 0 0 0 1")),
            "atom line: expected 4 words, as many as Properties names, got 5: complete Properties, or convert with "
            "--from ase, which drops the others (molecule 0, offset 41)");
}

TEST(Reader, BlocksEndAtFramesOrBytes) {
  const std::string frame = one_atom("a=1");
  std::string text;
  for (int i = 0; i < 5; ++i) text += frame;
  const TemporaryFile file(ByteString(text).bytes());
  Reader by_frames(file.path());
  EXPECT_EQ(by_frames.next_block(3, kAnyBytes)->size(), 3);
  EXPECT_EQ(by_frames.bytes_read(), 3 * frame.size());
  const auto rest = by_frames.next_block(3, kAnyBytes);
  EXPECT_EQ(rest->size(), 2);
  EXPECT_EQ(rest->first_frame, 3);
  EXPECT_FALSE(by_frames.next_block(3, kAnyBytes).has_value());
  Reader by_bytes(file.path());
  EXPECT_EQ(by_bytes.next_block(100, frame.size() + 1)->size(), 2);
  EXPECT_EQ(by_bytes.next_block(100, 0)->size(), 1);
}

TEST(Reader, FramesBeforeTheDamageComeFirst) {
  const TemporaryFile file(ByteString(one_atom("a=1") + one_atom("a=2") + one_atom("a=3", "H 0 0 x")).bytes());
  Reader reader(file.path());
  EXPECT_EQ(describe(reader.next_block(100, kAnyBytes).value()), "molecule a 11 stacked | integer 1 2\n");
  const std::string message =
      file.path() + ": atom line: expected a number, got 'x' (molecule 2, field 'pos', offset 40)";
  EXPECT_EQ(corrupt([&] { reader.next_block(100, kAnyBytes); }), message);
  EXPECT_EQ(corrupt([&] { reader.next_block(100, kAnyBytes); }), message);
}

TEST(Reader, DamagedAtomLines) {
  EXPECT_EQ(refused("2\n\nH 0 0 0.0000000\n"), "frame: expected 2 atom lines, got 1 (molecule 0, offset 19)");
  EXPECT_EQ(refused(one_atom("", "Q 0 0 0")),
            "atom line: expected an element's symbol, got 'Q' (molecule 0, field 'species', offset 3)");
  EXPECT_EQ(refused(one_atom("", "H 0 0  \n ")),
            "atom line: expected a number, got the end of the line (molecule 0, field 'pos', offset 10)");
  EXPECT_EQ(refused(one_atom("", "H 0 0 " + std::string(100, '9') + "x")),
            "atom line: expected a number, got '" + std::string(40, '9') + "...' (molecule 0, field 'pos', offset 9)");
}

TEST(Reader, KeysThatNoTwoFramesShareEndABlock) {
  std::string text;
  for (int i = 0; i < 1100; ++i) text += cat("0\nk", i, "=1\n");
  const TemporaryFile file(ByteString(text).bytes());
  Reader reader(file.path());
  EXPECT_EQ(reader.next_block(1 << 20, kAnyBytes)->size(), 1024);
  EXPECT_EQ(reader.next_block(1 << 20, kAnyBytes)->size(), 76);
}

}  // namespace
}  // namespace atompack::extxyz
