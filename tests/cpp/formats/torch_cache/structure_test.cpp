#include "formats/torch_cache/structure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "fixtures.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::contents;

std::string hex(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    shown += {"0123456789abcdef"[static_cast<uint8_t>(c) >> 4], "0123456789abcdef"[static_cast<uint8_t>(c) & 15]};
  }
  return shown;
}

std::string show(double value) {
  const uint64_t bits = __builtin_bswap64(std::bit_cast<uint64_t>(value));
  return "float:" + hex(as_text(std::as_bytes(std::span(&bits, 1))));
}
std::string show(bool value) { return value ? "True" : "False"; }
std::string show(const std::string& text) { return "str:" + hex(text); }

template <typename List>
std::string show_list(const List& list) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + show(item);
  return "[" + text + "]";
}

// As make_pickles.py shows the values that the original program read.
std::string show(const Structure& structure) {
  std::string text =
      cat("positions ", show_list(structure.positions), "\nspecies ", show_list(structure.species), '\n');
  if (structure.energy) text += cat("energy ", show(*structure.energy), '\n');
  if (structure.forces) text += cat("forces ", show_list(*structure.forces), '\n');
  if (structure.cell) text += cat("cell ", show_list(*structure.cell), '\n');
  if (structure.pbc) text += cat("pbc ", show_list(*structure.pbc), '\n');
  if (structure.name) text += cat("name ", show(*structure.name), '\n');
  return text;
}

std::vector<fs::path> stored() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(PICKLE_FIXTURES) / "structures")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  return paths;
}

TEST(Structure, AsTheOriginalProgramWroteThem) {
  StructureDecoder decoder;
  ASSERT_EQ(stored().size(), 26u);
  for (fs::path path : stored()) {
    const std::string text = contents(path), pickle = contents(path.replace_extension(".pkl"));
    EXPECT_EQ(show(decoder.decode(as_bytes(pickle))), text) << path;
  }
}

TEST(Structure, WrittenAgain) {
  for (fs::path path : stored()) {
    const std::string text = contents(path), pickle = contents(path.replace_extension(".pkl"));
    const std::vector<std::byte> written = encode_structure(decode_structure(as_bytes(pickle)));
    EXPECT_EQ(show(decode_structure(written)), text) << path;
    EXPECT_EQ(as_text(written), contents(path.replace_extension(".again.pkl"))) << path;
  }
}

TEST(Structure, CutAnywhereIsAnError) {
  const std::vector<std::byte> whole = encode_structure({.positions = {1, 2, 3}, .species = {"H"}, .energy = -1});
  for (size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THROW(decode_structure(Bytes(whole).first(n)), CorruptFileError) << n;
  }
}

TEST(Structure, AllOrNothing) {
  const Structure full = {.positions = {1, 2, 3, 4, 5, 6},
                          .species = {"Si", "a label of \u00e9"},
                          .energy = std::nan(""),
                          .forces = std::vector<double>{6, 5, 4, 3, 2, 1},
                          .cell = std::array<double, 9>{1, 0, 0, 0, 2, 0, 0, 0, 3},
                          .pbc = std::array<bool, 3>{true, false, true},
                          .name = ""};
  const Structure least = {};
  EXPECT_EQ(show(decode_structure(encode_structure(full))), show(full));
  EXPECT_EQ(show(decode_structure(encode_structure(least))), show(least));
  EXPECT_THROW(encode_structure({.positions = {1, 2, 3}}), InternalError);
}

std::string str(std::string_view text) {
  return std::string("\x8c") + static_cast<char>(text.size()) + std::string(text);
}

// Attributes as opcodes: keys and values in turn.
std::string outcome(const std::string& attributes) {
  const std::string pickle = "\x80\4caenet.torch_training.config\nStructure\n)\x81}(" + attributes + "ub.";
  try {
    return show(decode_structure(as_bytes(pickle)));
  } catch (const CorruptFileError& error) {
    return error.what();
  } catch (const UnsupportedFormatError& error) {
    return cat("unsupported: ", error.what());
  }
}

const std::string kPositions = str("positions") + "](K\1K\2K\3\x87" + "e";
const std::string kSpecies = str("species") + str("H") + "\x85";
const std::string kAtom = kPositions + kSpecies;

TEST(Structure, ListsInPlaceOfArrays) {
  const std::string atom =
      "positions [float:3ff0000000000000, float:4000000000000000, float:4008000000000000]\nspecies [str:48]\n";
  EXPECT_EQ(outcome(kAtom), atom);
  EXPECT_EQ(outcome(kAtom + str("pbc") + "\x88\x89K\1\x87"), atom + "pbc [True, False, True]\n");
  EXPECT_EQ(outcome(kAtom + str("energy") + "N" + str("forces") + "N" + str("other") + "N"), atom);
}

TEST(Structure, WhatIsWrongIsNamed) {
  EXPECT_EQ(outcome(kSpecies), "structure: expected this attribute, got none (field 'positions')");
  EXPECT_EQ(outcome(kPositions), "structure: expected this attribute, got none (field 'species')");
  EXPECT_EQ(outcome(str("positions") + "N" + kSpecies), "structure: expected an array, got None (field 'positions')");
  EXPECT_EQ(outcome(str("positions") + "](K\1K\2e" + kSpecies),
            "structure: expected shape (N, 3), got (2) (field 'positions')");
  EXPECT_EQ(outcome(str("positions") + "](K\1\x85K\1K\2\x86" + "e" + kSpecies),
            "structure: expected rows of 1, got one of 2 (field 'positions')");
  EXPECT_EQ(outcome(str("positions") + "](K\1\x85K\2e" + kSpecies),
            "structure: expected numbers or rows of them, got both (field 'positions')");
  EXPECT_EQ(outcome(str("positions") + "K\1\x85\x85\x85" + kSpecies),
            "structure: expected numbers, got lists in lists in lists (field 'positions')");
  EXPECT_EQ(outcome(str("positions") + "(NNNt\x85" + kSpecies),
            "structure: expected a number, got None (field 'positions')");
  EXPECT_EQ(outcome(kPositions + str("species") + ")"), "structure: expected 1 labels, got 0 (field 'species')");
  EXPECT_EQ(outcome(kPositions + str("species") + str("H")),
            "structure: expected a list of labels, got str (field 'species')");
  EXPECT_EQ(outcome(kPositions + str("species") + "K\1\x85"), "structure: expected str, got int (field 'species')");
  EXPECT_EQ(outcome(kAtom + str("forces") + "K\1K\2K\3\x87"),
            "structure: expected shape (1, 3), got (3) (field 'forces')");
  EXPECT_EQ(outcome(kAtom + str("cell") + ")"), "structure: expected shape (3, 3), got (0) (field 'cell')");
  EXPECT_EQ(outcome(kAtom + str("pbc") + "\x88\x85"), "structure: expected shape (3), got (1) (field 'pbc')");
  EXPECT_EQ(outcome(kAtom + str("energy") + str("1")), "structure: expected a number, got str (field 'energy')");
  EXPECT_EQ(outcome(kAtom + str("name") + "K\1"), "structure: expected str, got int (field 'name')");
  EXPECT_EQ(outcome(kAtom + str("energy") + "\x8a\x09\0\0\0\0\0\0\0\x80\0"s),
            "unsupported: structure: expected a 64-bit number, got a larger int (field 'energy')");
}

// An array over a bytearray, as encode_structure() writes it.
std::string array(std::string_view shape, std::string_view type, const std::string& data) {
  return cat("cnumpy\nndarray\n", shape, str(type), "C", static_cast<char>(data.size()), data, "\x87R");
}

TEST(Structure, ArraysOfOtherTypes) {
  const std::string shape = "K\1K\3\x86";
  const auto positions = [&](std::string_view type, const std::string& data) {
    const std::string text = outcome(str("positions") + array(shape, type, data) + kSpecies);
    return text.substr(0, text.find('\n'));
  };
  const std::string numbers = "positions [float:3ff0000000000000, float:4000000000000000, float:4008000000000000]";
  EXPECT_EQ(positions("|u1", "\1\2\3"), numbers);
  EXPECT_EQ(positions("<i2", "\1\0\2\0\3\0"s), numbers);
  EXPECT_EQ(positions(">u4", "\0\0\0\1\0\0\0\2\0\0\0\3"s), numbers);
  EXPECT_EQ(positions(">f4", "\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0"s), numbers);
  EXPECT_EQ(positions("|i1", "\xff\2\3").substr(0, 34), "positions [float:bff0000000000000,");
  EXPECT_EQ(positions("<f2", "abcdef"),
            "unsupported: structure: expected float32 or float64, got <f2 (field 'positions')");
  EXPECT_EQ(positions("<U1", "a\0\0\0b\0\0\0c\0\0\0"s), "structure: expected numbers, got <U1 (field 'positions')");
}

TEST(Structure, LabelsOfNumpy) {
  const auto labels = [](std::string_view type, const std::string& data) {
    const std::string text = outcome(kPositions + str("species") + array("K\1\x85", type, data));
    return text.substr(text.find("species ") + 8);
  };
  EXPECT_EQ(labels("<U2", "H\0\0\0\0\0\0\0"s), "[str:48]\n");
  EXPECT_EQ(labels(">U1", "\0\0\0H"s), "[str:48]\n");
  EXPECT_EQ(labels("<U1", "\0\xf6\1\0"s), "[str:f09f9880]\n");
  EXPECT_EQ(labels("|S3", "H\0\0"s), "[str:48]\n");
  EXPECT_NE(labels("<U1", "\xff\xff\xff\xff").find("expected characters, got number 4294967295"), std::string::npos);
  EXPECT_NE(labels("<i4", "abcd").find("expected text, got <i4"), std::string::npos);
}

TEST(Structure, OtherObjectsAreRefused) {
  const auto refused = [](const std::string& opcodes) {
    return test::message_of<UnsafePickleError>([&] { decode_structure(as_bytes("\x80\4" + opcodes + ".")); });
  };
  EXPECT_EQ(refused("caenet.torch_training.config\nOther\n)\x81"),
            "pickle: expected a global of plain data, got 'aenet.torch_training.config.Other' (offset 2)");
  EXPECT_EQ(refused("caenet.torch_training.config\nStructure\n)R"),
            "pickle: expected a function of plain data, got REDUCE of a class (offset 42)");
  EXPECT_EQ(test::corrupt([] { decode_structure(as_bytes("\x80\4].")); }),
            "structure: expected an object of class Structure, got list");
}

}  // namespace
}  // namespace atompack::torch_cache
