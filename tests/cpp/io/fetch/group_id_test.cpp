#include "io/fetch/group_id.h"

#include <gtest/gtest.h>

#include <set>

namespace atompack::io::fetch {
namespace {

constexpr std::string_view kUrl = "https://host/folder/key";
const ObjectVersion kVersion{.size = 5, .etag = "\"e\"", .modified = "Mon"};

TEST(GroupId, TheKeyIsOfAddressAndVersion) {
  const std::set<std::optional<ObjectKey>> keys = {
      key_of(kUrl, kVersion),
      key_of("https://host/folder/key2", kVersion),
      key_of("http://host/folder/key", kVersion),
      key_of(kUrl, {.size = 6, .etag = "\"e\"", .modified = "Mon"}),
      key_of(kUrl, {.size = 5, .etag = "\"f\"", .modified = "Mon"}),
      key_of(kUrl, {.size = 5, .etag = "\"e\"", .modified = "Tue"}),
      key_of(kUrl, {.size = 5, .etag = "\"e\"Mon", .modified = ""}),
  };
  EXPECT_EQ(keys.size(), 7U);
  EXPECT_FALSE(keys.contains(std::nullopt));
  EXPECT_EQ(key_of(kUrl, kVersion), key_of(kUrl, kVersion));
}

TEST(GroupId, TheKeyIsThatOfOtherSessionsToo) {
  const auto key = key_of(kUrl, kVersion);
  ASSERT_TRUE(key);
  // sha256 of "atompack pages 1", the URL, 5, "e" with its quotes and Mon, with a NUL between them
  EXPECT_EQ(file_name({*key, 0}).substr(0, 64), "934f5784dded50181404f781f591dca8cb2b265d351613cdeb72082c745c9ec3");
}

TEST(GroupId, SecretsOfTheUrlDoNotCount) {
  const auto key = key_of(kUrl, kVersion);
  EXPECT_EQ(key_of("https://host/folder/key?X-Amz-Signature=abc", kVersion), key);
  EXPECT_EQ(key_of("https://user:pass@host/folder/key", kVersion), key);
  EXPECT_EQ(key_of("https://user:p@ss@host/folder/key?a=b@c/d", kVersion), key);
  EXPECT_NE(key_of("https://host/folder@1/key", kVersion), key_of("https://host/folder@2/key", kVersion));
  EXPECT_NE(key_of("https://host/a@b/key", kVersion), key_of("https://b/key", kVersion));
}

TEST(GroupId, AVersionMustTellChanges) {
  EXPECT_EQ(key_of(kUrl, {.size = 5, .etag = "", .modified = ""}), std::nullopt);
  EXPECT_EQ(key_of(kUrl, {.size = 5, .etag = "W/\"1\"", .modified = ""}), std::nullopt);
  EXPECT_EQ(key_of(kUrl, {.size = 5, .etag = "W/\"1\"", .modified = "Mon"}), std::nullopt);
  EXPECT_EQ(key_of(kUrl, {.size = 5, .etag = "", .modified = "Mon"}), std::nullopt);
}

TEST(GroupId, NamesAreReadBack) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{9}, uint64_t{0x1a}, ~uint64_t{0}}) {
    const GroupId group{{1, ~uint64_t{0}, 0, 0xabcdef}, number};
    const std::string name = file_name(group);
    ASSERT_TRUE(parse_file_name(name)) << name;
    EXPECT_EQ(*parse_file_name(name), group);
  }
  EXPECT_EQ(file_name({{1, 2, 3, 0xabc}, 0x1f}),
            "0000000000000001000000000000000200000000000000030000000000000abc-1f.pages");
}

TEST(GroupId, OtherNamesAreRefused) {
  const std::string key(64, '0');
  ASSERT_TRUE(parse_file_name(key + "-0.pages"));
  for (const std::string& name :
       {std::string(), std::string("account.lock"), key, key + ".pages", key + "-.pages", key + "-00.pages",
        key + "-0.page", key + "-0.pages2", key + "-+1.pages", key + "-A.pages", key + "-0x1.pages", key + "-g.pages",
        key + "_0.pages", key + "-11111111111111111.pages", "0" + key + "-0.pages", key.substr(1) + "-0.pages",
        std::string(64, 'G') + "-0.pages", std::string(64, 'A') + "-0.pages", "." + key.substr(1) + "-0.pages"}) {
    EXPECT_EQ(parse_file_name(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace atompack::io::fetch
