#include "formats/extxyz/frame_head.h"

#include <gtest/gtest.h>

#include "byte_string.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::extxyz {
namespace {

using test::corrupt;

FrameHead head_of(const std::string& text) {
  const test::TemporaryFile file(test::ByteString(text).bytes());
  LineReader lines(file.path());
  FrameHeadReader heads;
  const FrameHead* const head = heads.next(lines);
  return head == nullptr ? FrameHead{} : *head;
}

FrameHead commented(const std::string& comment) { return head_of("0\n" + comment + "\n"); }

std::string refused_head(const std::string& text) {
  return corrupt([&] { head_of(text); });
}

TEST(FrameHead, Lattice) {
  const FrameHead head = commented("Lattice=\"1 2 3 4 5 6 7 8 9.5\"");
  EXPECT_EQ(head.lattice, (std::array<double, 9>{1, 2, 3, 4, 5, 6, 7, 8, 9.5}));
  EXPECT_TRUE(head.entries.empty());
  EXPECT_EQ(commented("Lattice=[[1,0,0],[0,2,0],[0,0,3]]").lattice, (std::array<double, 9>{1, 0, 0, 0, 2, 0, 0, 0, 3}));
  EXPECT_EQ(commented("a=1").lattice, std::nullopt);
  EXPECT_EQ(refused_head("0\na=1 Lattice=\"1 2\"\n"), "Lattice: expected nine numbers, got '1 2' (offset 6)");
  EXPECT_EQ(refused_head("0\nLattice=\"1 2 3 4 5 6 7 8 nan\"\n"),
            "Lattice: expected finite numbers, got '1 2 3 4 5 6 7 8 nan' (offset 2)");
}

TEST(FrameHead, Pbc) {
  using Pbc = std::array<uint8_t, 3>;
  const std::string lattice = " Lattice=\"1 0 0 0 1 0 0 0 1\"";
  EXPECT_EQ(commented("pbc=\"T F T\"" + lattice).pbc, (Pbc{1, 0, 1}));
  EXPECT_EQ(commented("pbc=\"0 5 1\"" + lattice).pbc, (Pbc{0, 1, 1}));
  EXPECT_EQ(commented("pbc=T" + lattice).pbc, (Pbc{1, 1, 1}));
  EXPECT_EQ(commented("pbc=F").pbc, (Pbc{0, 0, 0}));
  EXPECT_EQ(refused_head("0\npbc=T\n"), "pbc: expected a Lattice with it, or F F F, got 'T' (offset 2)");
  EXPECT_EQ(commented("pbc").pbc, std::nullopt);  // without any '=' the line is a remark
  EXPECT_EQ(refused_head("0\npbc=\"T F\"\n"), "pbc: expected three flags, got 'T F' (offset 2)");
  EXPECT_EQ(refused_head("0\npbc=" + std::string(50, 'x') + "\n"),
            "pbc: expected three flags, got '" + std::string(40, 'x') + "...' (offset 2)");
}

TEST(FrameHead, KeysInLettersOfAnotherCase) {
  const FrameHead head = commented("lattice=\"1 2 3 4 5 6 7 8 9\" PBC=\"T F T\" properties=species:S:1:pos:R:3:q:R:1");
  EXPECT_EQ(head.lattice, (std::array<double, 9>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(head.pbc, (std::array<uint8_t, 3>{1, 0, 1}));
  EXPECT_EQ(head.layout.n_words, 5);
  EXPECT_TRUE(head.entries.empty());
  // Words of somebody's own, and values of what is there under its own name.
  EXPECT_EQ(commented("lattice=fcc PBC=often properties=many").entries.size(), 3U);
  const FrameHead both = commented("LATTICE=\"9 9 9 9 9 9 9 9 9\" Lattice=\"1 2 3 4 5 6 7 8 9\"");
  EXPECT_EQ(both.lattice, (std::array<double, 9>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(both.entries.size(), 1U);
}

TEST(FrameHead, RefusedCounts) {
  EXPECT_EQ(refused_head("H\n\n"), "frame: expected the number of atoms, got 'H' (offset 0)");
  EXPECT_EQ(refused_head("\n-1\n\n"), "frame: expected the number of atoms, got '-1' (offset 1)");
  EXPECT_EQ(refused_head("1 2\n\n"), "frame: expected the number of atoms, got '1 2' (offset 0)");
  EXPECT_EQ(refused_head("9223372036854775808\n\n"),
            "frame: expected the number of atoms, got '9223372036854775808' (offset 0)");
  EXPECT_EQ(refused_head("0"), "frame: expected a comment line, got the end of the file (offset 1)");
  EXPECT_EQ(test::unsupported([] { head_of("VEC1 1 0 0\n"); }),
            "lattice vectors in VEC lines: expected Lattice in the comment line (offset 0)");
}

TEST(FrameHead, OffsetsCountFromTheStartOfTheFile) {
  EXPECT_EQ(refused_head("0\na=1 b=\"\n"), "comment line: expected a closing \", got none (offset 8)");
  EXPECT_EQ(refused_head("0\nProperties=x\n"),
            "Properties: expected name:type:width for each column, got 'x' (offset 2)");
}

}  // namespace
}  // namespace atompack::extxyz
