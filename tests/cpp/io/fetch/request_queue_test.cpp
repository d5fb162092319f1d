#include "io/fetch/request_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <stdexcept>
#include <thread>

#include "base/bytes.h"
#include "base/error.h"
#include "message_of.h"

namespace atompack::io::fetch {
namespace {

OpenObject object_of(const std::shared_ptr<RequestQueue>& queue, uint64_t size) {
  OpenObject object;
  object.version = {size, "1", ""};
  object.reader = std::make_shared<QueuedReader>(std::make_shared<const OpenQueue>(queue), "s3://b/k", "1");
  return object;
}

TEST(RequestQueue, AThreadAnswersReads) {
  const auto queue = std::make_shared<RequestQueue>();
  std::thread answers([&] {
    const std::string content = "0123456789";
    for (auto taken = queue->take(8); !taken.empty(); taken = queue->take(8)) {
      for (const auto& request : taken) {
        EXPECT_EQ(request->url() + request->version(), "s3://b/k1");
        if (request->offset() == 9) {
          request->fail(EACCES, "no");
        } else if (request->offset() == 8) {
          request->finish("too long");
        } else {
          request->finish(content.substr(request->offset(), request->length()));
          request->fail(EIO, "answered already");
        }
      }
    }
  });
  {
    const OpenObject object = object_of(queue, 10);
    EXPECT_EQ(as_text(read_range(object, 2, 3)), "234");
    EXPECT_EQ(test::message_of<IoError>([&] { read_range(object, 9, 1); }), "s3://b/k: no");
    EXPECT_EQ(test::message_of<IoError>([&] { read_range(object, 8, 1); }), "s3://b/k: expected 1 bytes at 8, got 8");
    EXPECT_THROW(read_range(object, 8, 3), std::out_of_range);
  }
  answers.join();  // the queue is closed with its last reader
}

TEST(RequestQueue, FailsWhatIsDropped) {
  const auto queue = std::make_shared<RequestQueue>();
  const OpenObject object = object_of(queue, 10);
  std::thread closes([&] { EXPECT_EQ(queue->take(1).size(), 1U); });
  EXPECT_EQ(test::message_of<IoError>([&] { read_range(object, 0, 1); }), "s3://b/k: the store was closed");
  closes.join();
  queue->close();
  EXPECT_THROW(read_range(object, 0, 1), IoError);
  EXPECT_TRUE(queue->take(1).empty());
}

}  // namespace
}  // namespace atompack::io::fetch
