#include "collate/arena.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace atompack::collate {
namespace {

using Message = std::vector<int64_t>;

// In a slot: this process attaches to its own ring, as a receiver does.
ArenaTensors made_in_slot() {
  const std::vector<TensorSpec> specs{{DType::float32, {2, 3}}, {DType::int64, {4}}, {DType::boolean, {}}};
  ArenaTensors made = allocate_tensors(specs, ArenaKind::shared);
  if (const auto address = ring_to_attach()) {
    EXPECT_TRUE(attach_ring(*address));
    made = allocate_tensors(specs, ArenaKind::shared);
  }
  for (const at::Tensor& view : made.views) view.fill_(1);
  made.views[0][1][2] = 7.5;
  return made;
}

void expect_equal(const std::vector<at::Tensor>& received, const std::vector<at::Tensor>& sent) {
  ASSERT_EQ(received.size(), sent.size());
  for (size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(received[i].equal(sent[i])) << i;
}

TEST(SentTensors, AreMadeAgainOverTheSameMemory) {
  const ArenaTensors made = made_in_slot();
  const SentTensors sent = send_tensors(made.arena, made.views);
  EXPECT_TRUE(sent.has_arena);
  EXPECT_TRUE(sent.outside.empty());
  const ArenaTensors received = receive_tensors(sent.message, std::nullopt);
  EXPECT_EQ(received.arena.numel(), made.arena.numel());
  expect_equal(received.views, made.views);
  made.views[1][0] = 5;
  EXPECT_EQ(received.views[1][0].item<int64_t>(), 5);
  EXPECT_THROW(receive_tensors(sent.message, std::nullopt), InternalError);  // used already
}

TEST(SentTensors, OutsideOfTheArenaAreNamed) {
  const ArenaTensors made = made_in_slot();
  const std::vector<at::Tensor> tensors{made.views[0], at::ones({2}), made.views[1], made.views[0].t()};
  const SentTensors sent = send_tensors(made.arena, tensors);
  EXPECT_EQ(sent.outside, (std::vector<size_t>{1, 3}));
  const ArenaTensors received = receive_tensors(sent.message, std::nullopt);
  ASSERT_EQ(received.views.size(), 4U);
  EXPECT_FALSE(received.views[1].defined());
  EXPECT_FALSE(received.views[3].defined());
  expect_equal({received.views[0], received.views[2]}, {made.views[0], made.views[1]});

  const SentTensors without = send_tensors(made.arena, std::vector<at::Tensor>{at::ones({2})});
  EXPECT_FALSE(without.has_arena);  // nothing would free the slot
  EXPECT_FALSE(receive_tensors(without.message, std::nullopt).arena.defined());
}

TEST(SentTensors, TheArenaMayTravelByItself) {
  const ArenaTensors made = allocate_tensors(std::vector<TensorSpec>{{DType::float64, {3}}}, ArenaKind::heap);
  made.views[0].fill_(2);
  const SentTensors sent = send_tensors(made.arena, made.views);
  EXPECT_FALSE(sent.has_arena);
  expect_equal(receive_tensors(sent.message, made.arena.clone()).views, made.views);
}

TEST(SentTensors, EveryDamageIsRefused) {
  const ArenaTensors made = allocate_tensors(std::vector<TensorSpec>{{DType::float64, {3}}}, ArenaKind::heap);
  const Message message = send_tensors(made.arena, made.views).message;
  const std::optional arena(made.arena);
  for (size_t length = 0; length < message.size(); ++length) {
    if (length == message.size() - 4) continue;  // a message without tensors
    EXPECT_THROW(receive_tensors(std::span(message).first(length), arena), InternalError) << length;
  }
  for (size_t place = message.size() - 4; place < message.size(); ++place) {
    for (const int64_t value : {int64_t{-2}, int64_t{1000}, INT64_MIN, INT64_MAX}) {
      Message damaged = message;
      damaged[place] = value;
      EXPECT_THROW(receive_tensors(damaged, arena), InternalError) << place << " " << value;
    }
  }
}

}  // namespace
}  // namespace atompack::collate
