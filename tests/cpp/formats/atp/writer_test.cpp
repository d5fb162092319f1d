#include "formats/atp/writer.h"

#include <gtest/gtest.h>

#include <functional>

#include "codec/all_codecs.h"
#include "formats/atp/atp_bytes.h"
#include "formats/atp/collecting_visitor.h"
#include "formats/atp/reader.h"
#include "formats/atp/sample_columns.h"
#include "io/faulty_file.h"
#include "io/temporary_file.h"
#include "message_of.h"

namespace atompack::atp {
namespace {

using codec::Codec;
using codec::kAllCodecs;
using test::FaultyFile;
using test::Image;
using test::Operation;
using test::SampleColumns;
using test::TemporaryFile;

WriterState state_of(const Image& image) {
  const Bytes bytes(image);
  const Header header = choose_header(bytes.first(std::min<size_t>(bytes.size(), test::kDataStart)), bytes.size());
  WriterState state{header, 0, {}};
  try {
    if (Header::decode(bytes.first(test::kSlotBytes), bytes.size()).generation != header.generation) {
      state.slot_offset = test::kSlotBytes;
    }
  } catch (const DataError&) {
    state.slot_offset = test::kSlotBytes;
  }
  state.rules.format = header.record_format;
  if (header.n_molecules == 0) return state;
  state.rules.schema = decode_schema(bytes.subspan(header.schema_offset, header.schema_length), header);
  state.rules.positions = state.rules.schema.positions;
  state.rules.is_fixed = true;
  return state;
}

// How many molecules the file opens with; every one of them is looked at.
int64_t check_molecules(const Image& image) {
  const TemporaryFile file{Bytes(image)};
  const Reader reader(file.path(), take_snapshot(file.path()), {});
  for (int64_t i = 0; i < reader.size(); ++i) {
    std::vector<std::byte> scratch(static_cast<size_t>(reader.extent(i).decoded_bytes));
    test::CollectingVisitor seen;
    reader.visit(i, reader.decode(i, scratch), seen);
    EXPECT_EQ(seen.n_atoms, i % 4);
    EXPECT_EQ(seen.fields.size(), 2U);
    EXPECT_EQ(load_le<double>(as_bytes(seen.fields.at(0).data).data()), static_cast<double>(i));
    EXPECT_EQ(load_le<int64_t>(as_bytes(seen.fields.at(1).data).data()), i);
  }
  return reader.size();
}

// A session writes runs of molecules and commits after each; what it starts with may have a tail.
struct Session {
  Codec codec = Codec::none;
  std::vector<int64_t> runs{3, 1, 40, 2};
};

Image created(Codec codec) {
  FaultyFile file;
  Writer::create(file, codec, 3);
  return file.image();
}

// Calls `done` after each commit, with the number of molecules that are committed then.
void play(const Session& session, FaultyFile& file, const std::function<void(int64_t)>& done) {
  const WriterState state = state_of(file.image());
  auto n = static_cast<int64_t>(state.header.n_molecules);
  Writer writer(file, state, 3, 2);
  for (const int64_t run : session.runs) {
    writer.write(SampleColumns(n, run).run());
    n += run;
    writer.commit();
    done(n);
  }
}

class CrashStates {
 public:
  explicit CrashStates(const Session& session, const Image& start) : start_(start), file_(start) {
    commits_.push_back({0, static_cast<int64_t>(state_of(start).header.n_molecules)});
    play(session, file_, [&](int64_t n) { commits_.push_back({file_.operations().size(), n}); });
  }

  size_t n_operations() const { return file_.operations().size(); }

  // All that the disk may hold if the machine stops in operation `at`: what came before the last sync is present; of
  // the later operations any may be, and of the one under way any part.
  void check_all(size_t at) const {
    const auto& operations = file_.operations();
    Image durable = start_;
    size_t synced = 0;
    for (size_t i = 0; i < at; ++i) {
      if (operations[i].kind == Operation::Kind::sync) synced = i + 1;
    }
    for (size_t i = 0; i < synced; ++i) carry_out(operations[i], durable);
    const size_t n_pending = at - synced;
    ASSERT_LE(n_pending, 12U);
    for (size_t subset = 0; subset < size_t{1} << n_pending; ++subset) {
      Image image = durable;
      for (size_t i = 0; i < n_pending; ++i) {
        if ((subset >> i & 1) != 0) carry_out(operations[synced + i], image);
      }
      check(image, at);
      if (subset + 1 == size_t{1} << n_pending) check_torn(image, at);
    }
  }

 private:
  void check_torn(const Image& before, size_t at) const {
    const Operation& operation = file_.operations()[at];
    const size_t n = operation.bytes.size();
    for (size_t cut = 1; cut < n; cut += cut < 80 || cut + 8 > n ? 1 : 97) {
      Image image = before;
      carry_out(operation, cut, image);
      check(image, at);
    }
  }

  void check(const Image& image, size_t at) const {
    int64_t committed = 0;
    int64_t under_way = 0;
    for (size_t i = 0; i < commits_.size() && commits_[i].operations <= at; ++i) {
      committed = commits_[i].n_molecules;
      under_way = i + 1 < commits_.size() ? commits_[i + 1].n_molecules : committed;
    }
    const int64_t found = check_molecules(image);
    EXPECT_TRUE(found == committed || found == under_way)
        << "operation " << at << ": expected " << committed << " or " << under_way << ", got " << found;
  }

  struct Commit {
    size_t operations;  // done when it returned
    int64_t n_molecules;
  };
  Image start_;
  FaultyFile file_;
  std::vector<Commit> commits_;
};

TEST(Writer, WhateverTheDiskHoldsAfterACrashOpensAtACommit) {
  for (const Codec codec : kAllCodecs) {
    const CrashStates states({codec}, created(codec));
    for (size_t at = 0; at < states.n_operations(); ++at) states.check_all(at);
  }
}

TEST(Writer, ACrashWhileATailIsCutLosesNothing) {
  FaultyFile file(created(Codec::none));
  play({Codec::none, {5, 4}}, file, [](int64_t) {});
  Image with_tail = file.image();
  with_tail.resize(with_tail.size() + 300, std::byte{0x41});
  const CrashStates states({Codec::none, {2, 2}}, with_tail);
  for (size_t at = 0; at < states.n_operations(); ++at) states.check_all(at);
}

TEST(Writer, ADamagedNewestSlotIsTheNextToBeWritten) {
  FaultyFile file(created(Codec::none));
  play({Codec::none, {5, 4}}, file, [](int64_t) {});
  Image damaged = file.image();
  damaged[100] ^= std::byte{1};  // generation 2 is in slot A
  ASSERT_EQ(check_molecules(damaged), 5);
  const CrashStates states({Codec::none, {2}}, damaged);
  for (size_t at = 0; at < states.n_operations(); ++at) states.check_all(at);
}

TEST(Writer, NeverWritesOverTheSlotOfTheLastCommit) {
  FaultyFile file(created(Codec::none));
  play({Codec::none, {5}}, file, [](int64_t) {});
  // Another writer put generation 1 into slot A, and an older one into slot B.
  Image image = file.image();
  std::swap_ranges(image.begin(), image.begin() + test::kSlotBytes, image.begin() + test::kSlotBytes);
  const CrashStates states({Codec::none, {2, 1}}, image);
  for (size_t at = 0; at < states.n_operations(); ++at) states.check_all(at);
}

// Every operation fails once, in every way; the caller tries each call again.
TEST(Writer, GoesOnAfterTheDiskWasFull) {
  for (const Codec codec : kAllCodecs) {
    const Session session{codec};
    FaultyFile whole(created(codec));
    play(session, whole, [](int64_t) {});
    for (size_t at = 0; at < whole.operations().size(); ++at) {
      for (const size_t n_bytes : {size_t{0}, size_t{7}, size_t{1} << 20}) {
        FaultyFile file(created(codec));
        file.fault = FaultyFile::Fault{at, n_bytes, ENOSPC};
        Writer writer(file, state_of(file.image()), 3, 2);
        int64_t n = 0;
        int64_t committed = 0;
        bool unsure = false;
        const auto twice = [&](const std::function<void()>& call, int64_t under_way) {
          try {
            return call();
          } catch (const IoError& error) {
            EXPECT_EQ(error.code(), ENOSPC);
          }
          const int64_t found = check_molecules(file.image());
          EXPECT_TRUE(found == committed || found == under_way) << found;
          file.fault.reset();
          try {
            call();
          } catch (const IoError& error) {
            EXPECT_EQ(error.code(), EIO);  // a sync had failed: nobody knows what the disk has
            unsure = true;
          }
        };
        for (const int64_t run : session.runs) {
          const SampleColumns columns(n, run);
          twice([&] { writer.write(columns.run()); }, committed);
          n += run;
          if (!unsure) twice([&] { writer.commit(); }, n);
          if (unsure) break;
          committed = n;
        }
        const int64_t found = check_molecules(file.image());
        EXPECT_TRUE(unsure ? found == committed || found == n : found == 46) << at << ' ' << found;
      }
    }
  }
}

TEST(Writer, ARefusedCallWritesNothing) {
  FaultyFile file(created(Codec::none));
  Writer writer(file, state_of(file.image()), 0, 1);
  writer.write(SampleColumns(0, 2).run());
  const SampleColumns fine(2, 3);
  Columns wrong = SampleColumns(0, 0).get();
  const std::vector<double> positions(6);
  const std::vector<int64_t> numbers{1, 1};
  const std::vector<int64_t> ptr{0, 2};
  wrong = {test::doubles(positions, {2, 3}), test::integers(numbers, {2}), ptr, {}, std::nullopt};
  const std::vector<Columns> both{fine.get(), wrong};
  EXPECT_EQ(test::data_error([&] { writer.write(both); }),
            "type: expected float32 as in earlier molecules, got float64 (field 'positions')");
  EXPECT_EQ(writer.n_molecules(), 2U);
  writer.write(fine.run());
  writer.commit();
  EXPECT_EQ(check_molecules(file.image()), 5);
}

TEST(Writer, AFailureInTheMiddleOfACallTakesBackThatCallAlone) {
  FaultyFile file(created(Codec::zstd));
  Writer writer(file, state_of(file.image()), 1, 2);
  writer.write(SampleColumns(0, 10).run());
  file.fault = FaultyFile::Fault{0, 0, ENOSPC};
  const SampleColumns many(10, 200'000);  // more than the queue holds
  EXPECT_THROW(writer.write(many.run()), IoError);
  EXPECT_EQ(writer.n_molecules(), 10U);
  EXPECT_THROW(writer.commit(), IoError);
  file.fault.reset();
  writer.write(SampleColumns(10, 3).run());
  writer.commit();
  EXPECT_EQ(check_molecules(file.image()), 13);
}

TEST(Writer, CommitsOfNothing) {
  FaultyFile file(created(Codec::none));
  Writer writer(file, state_of(file.image()), 0, 1);
  writer.commit();
  EXPECT_EQ(check_molecules(file.image()), 0);
  EXPECT_EQ(writer.header().index_length, 8U);
  EXPECT_EQ(writer.header().schema_length, 0U);
  writer.write(SampleColumns(0, 5).run());
  writer.commit();
  EXPECT_EQ(check_molecules(file.image()), 5);
}

// The file with its last commit under another generation, in the slot of this number.
Image with_generation(Image image, uint64_t generation, size_t slot) {
  const auto both = std::span(image).first(2 * test::kSlotBytes);
  Header header = choose_header(both, image.size());
  header.generation = generation;
  std::ranges::fill(both, std::byte{0});
  store(both.data(), Bytes(Header{}.encode()).first(8));  // slot A says what the file is, even where it is damaged
  store(both.data() + slot * test::kSlotBytes, header.encode());
  return image;
}

constexpr uint64_t kLastGeneration = std::numeric_limits<uint64_t>::max();

TEST(Writer, RefusesAFileWithoutRoomForAGeneration) {
  FaultyFile made(created(Codec::none));
  play({Codec::none, {5}}, made, [](int64_t) {});
  for (const uint64_t generation : {kLastGeneration, kLastGeneration - 1}) {
    for (const size_t slot : {0, 1}) {
      FaultyFile file(with_generation(made.image(), generation, slot));
      const Image before = file.image();
      const std::string message =
          test::message_of<UnsupportedFormatError>([&] { Writer(file, state_of(file.image()), 0, 1); });
      EXPECT_NE(message.find("generation: expected at most 18446744073709551613"), std::string::npos) << message;
      EXPECT_EQ(file.image(), before);
    }
  }
}

TEST(Writer, RefusesTheCommitAfterTheLastGeneration) {
  FaultyFile made(created(Codec::none));
  play({Codec::none, {5}}, made, [](int64_t) {});
  for (const size_t slot : {0, 1}) {
    FaultyFile file(with_generation(made.image(), kLastGeneration - 2, slot));
    Writer writer(file, state_of(file.image()), 0, 1);
    int64_t n = 5;
    EXPECT_THROW(
        for (;; ++n) {
          writer.write(SampleColumns(n, 1).run());
          writer.commit();
          ASSERT_EQ(check_molecules(file.image()), n + 1);
        },
        UnsupportedFormatError);
    EXPECT_GT(n, 5);
    EXPECT_EQ(check_molecules(file.image()), n);
  }
}

TEST(Writer, ALongIndexIsCopiedInPieces) {
  FaultyFile file(created(Codec::none));
  Writer writer(file, state_of(file.image()), 0, 1);
  writer.write(SampleColumns(0, 70'000).run());
  writer.commit();
  writer.write(SampleColumns(70'000, 1).run());
  writer.commit();
  EXPECT_EQ(check_molecules(file.image()), 70'001);
}

}  // namespace
}  // namespace atompack::atp
