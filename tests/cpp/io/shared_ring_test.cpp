#include "io/shared_ring.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "byte_string.h"
#include "fork.h"
#include "io/file.h"
#include "io/huge_pages.h"

namespace atompack::io {
namespace {

TEST(SharedRing, SlotsAreClaimedAndFreed) {
  const auto ring = SharedRing::create(4096);
  std::vector<uint32_t> claimed;
  while (const auto slot = ring->claim()) claimed.push_back(*slot);
  EXPECT_EQ(claimed.size(), SharedRing::kSlots);
  EXPECT_EQ(ring->slot(1) - ring->slot(0), 4096);
  ring->release(claimed[3]);
  EXPECT_EQ(ring->claim(), claimed[3]);
  EXPECT_EQ(ring->claim(), std::nullopt);
}

TEST(SharedRing, ASlotIsInUseUntilBothSidesAreDone) {
  const auto maker = SharedRing::create(4096);
  EXPECT_FALSE(maker->is_attached());
  const auto other = SharedRing::attach(maker->address());
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(maker->is_attached());
  EXPECT_EQ(other->slot_bytes(), 4096U);

  const uint32_t slot = maker->claim().value();
  std::memcpy(maker->slot(slot), "hello", 6);
  const RingTicket ticket = maker->issue(slot);
  maker->release(slot);
  EXPECT_NE(maker->claim(), slot);
  ASSERT_TRUE(other->redeem(ticket));
  EXPECT_FALSE(other->redeem(ticket));
  EXPECT_STREQ(reinterpret_cast<const char*>(other->slot(slot)), "hello");
  other->release(slot);
  EXPECT_EQ(maker->claim(), slot);
  EXPECT_FALSE(other->redeem(ticket));
}

TEST(SharedRing, TicketsThatNobodyIssuedAreRefused) {
  const auto ring = SharedRing::create(4096);
  const uint32_t slot = ring->claim().value();
  const RingTicket ticket = ring->issue(slot);
  EXPECT_FALSE(ring->redeem({ticket.ring, SharedRing::kSlots, ticket.number}));
  EXPECT_FALSE(ring->redeem({ticket.ring, slot, ticket.number + 1}));
  EXPECT_FALSE(ring->redeem({ticket.ring, slot, 0}));
  EXPECT_TRUE(ring->redeem(ticket));
}

TEST(SharedRing, WhatIsGoneOrAnotherCannotBeAttached) {
  RingAddress address{};
  {
    const auto ring = SharedRing::create(4096);
    address = ring->address();
    EXPECT_EQ(SharedRing::attach({address.process, address.fd, address.id + 1}), nullptr);
  }
  EXPECT_EQ(SharedRing::attach(address), nullptr);
  EXPECT_EQ(SharedRing::attach({address.process, 0, address.id}), nullptr);
  EXPECT_EQ(SharedRing::attach({0, address.fd, address.id}), nullptr);
}

TEST(SharedRing, AForkedChildFreesNothing) {
  const auto ring = SharedRing::create(4096);
  const uint32_t slot = ring->claim().value();
  EXPECT_TRUE(test::holds_in_child([&] {
    ring->release(slot);
    return true;
  }));
  EXPECT_NE(ring->claim(), slot);
}

TEST(SharedRing, OutlivesTheProcessThatMadeIt) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = test::start_child([&] {
    const auto ring = SharedRing::create(4096);
    const uint32_t slot = ring->claim().value();
    std::memcpy(ring->slot(slot), "kept", 5);
    const RingTicket ticket = ring->issue(slot);
    const bool told = ::write(pipe[1], &ticket, sizeof(ticket)) == sizeof(ticket);
    while (told && !ring->is_attached()) ::usleep(100);
    return told;
  });
  RingTicket ticket{};
  ASSERT_EQ(::read(pipe[0], &ticket, sizeof(ticket)), static_cast<ssize_t>(sizeof(ticket)));
  const auto ring = SharedRing::attach(ticket.ring);
  EXPECT_TRUE(test::succeeds(child));
  ::close(pipe[0]);
  ::close(pipe[1]);
  ASSERT_NE(ring, nullptr);
  ASSERT_TRUE(ring->redeem(ticket));
  EXPECT_STREQ(reinterpret_cast<const char*>(ring->slot(ticket.slot)), "kept");
}

TEST(SharedMemory, HasTheSizeAskedForAndBeginsAsZeros) {
  const UniqueFd fd = create_shared_memory(10000);
  EXPECT_EQ(identify(fd.get(), "memfd").size, 10000U);
  std::vector<std::byte> bytes(20000, std::byte{1});
  bytes.resize(read_at(fd.get(), 0, bytes, "memfd"));
  EXPECT_EQ(bytes, std::vector<std::byte>(10000));
}

TEST(SharedMemory, MayBeEmpty) { EXPECT_EQ(identify(create_shared_memory(0).get(), "memfd").size, 0U); }

TEST(SharedMemory, TooMuchIsASystemError) {
  try {
    create_shared_memory(std::numeric_limits<uint64_t>::max() / 2 + 1);  // negative as a file size
    FAIL();
  } catch (const IoError& error) {
    EXPECT_EQ(error.code(), EINVAL);
    EXPECT_STREQ(error.what(), "memfd: 9223372036854775808 bytes of shared memory: Invalid argument");
  }
}

TEST(HugePages, LeaveWhatIsInTheMemory) {
  constexpr size_t kBytes = (size_t{9} << 20) + 123;
  std::vector<char> memory(kBytes, 'x');
  for (const size_t begin : {size_t{0}, size_t{1}, size_t{4097}}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4096}, size_t{2} << 20, kBytes - begin}) {
      prefer_huge_pages(memory.data() + begin, bytes);
    }
  }
  EXPECT_EQ(memory, std::vector<char>(kBytes, 'x'));
  std::memset(memory.data(), 'y', kBytes);
  EXPECT_EQ(memory, std::vector<char>(kBytes, 'y'));
}

TEST(HugePages, OfNothing) { prefer_huge_pages(nullptr, 0); }

}  // namespace
}  // namespace atompack::io
