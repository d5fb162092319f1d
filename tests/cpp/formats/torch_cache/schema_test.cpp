#include "formats/torch_cache/schema.h"

#include <gtest/gtest.h>

#include "codec/checksums.h"
#include "message_of.h"

namespace atompack::torch_cache {
namespace {

using test::corrupt;

// The example of FORMAT.md#descriptor, with its hash.
constexpr const char* kCompat =
    R"({"ang_cutoff":1.5,"ang_order":1,"descriptor_class":"aenet.torch_featurize.featurize.ChebyshevDescriptor",)"
    R"("min_cutoff":0.55,"multi":true,"rad_cutoff":4.0,"rad_order":2,"species":["O","H"]})";
constexpr const char* kCompatHash = "517a1e0e4df3c6bc982a3f463a0e31ebbf08042240e02bbc3ef2ae84b0eaa702";
constexpr const char* kConfig =
    R"({"ang_cutoff":1.5,"ang_order":1,"device":"cpu","dtype":"float64","min_cutoff":0.55,"n_features":10,)"
    R"("rad_cutoff":4.0,"rad_order":2,"species":["O","H"]})";

std::string hash_of(const std::string& text) { return codec::sha256_hex(as_bytes(text)); }

Attributes cache(bool features = true, bool derivatives = false) {
  return {{"schema_version", int64_t{2}},
          {"cache_format", "aenet.torch_training.cache.v2"},
          {"descriptor_compat_json", kCompat},
          {"descriptor_compat_sha256", kCompatHash},
          {"storage_dtype", "float32"},
          {"contains_features", features},
          {"contains_force_derivatives", derivatives}};
}

Attributes manifest(const std::string& config = kConfig) {
  return {{"schema_version", int64_t{1}},
          {"manifest_format", "aenet.torch_training.descriptor_manifest.v1"},
          {"descriptor_class", "aenet.torch_featurize.featurize.ChebyshevDescriptor"},
          {"config_json", config},
          {"config_sha256", hash_of(config)}};
}

Attributes derivatives() {
  return {{"schema_version", int64_t{1}},      {"payload_format", "aenet.torch_training.local_derivatives.v1"},
          {"descriptor_compat_json", kCompat}, {"descriptor_compat_sha256", kCompatHash},
          {"storage_dtype", "float64"},        {"n_radial_features", int64_t{3}},
          {"n_angular_features", int64_t{2}},  {"multi", true},
          {"contains_features", false},        {"contains_positions", false}};
}

Attributes with(Attributes attributes, std::string_view name, AttributeValue value) {
  for (Attribute& attribute : attributes) {
    if (attribute.name == name) attribute.value = std::move(value);
  }
  return attributes;
}

Attributes without(Attributes attributes, std::string_view name) {
  std::erase_if(attributes, [&](const Attribute& attribute) { return attribute.name == name; });
  return attributes;
}

Attributes with_compat(Attributes attributes, const std::string& json) {
  return with(with(std::move(attributes), "descriptor_compat_json", json), "descriptor_compat_sha256", hash_of(json));
}

Info info(const Attributes& cache, std::optional<Attributes> manifest = std::nullopt) {
  return {{}, std::move(manifest), cache, std::nullopt};
}

TEST(Schema, OfAnotherDescriptorTheNumberOfFeaturesIsNotKnown) {
  const Schema schema = check_schema(info(with_compat(cache(), R"({"descriptor_class":"mine"})")));
  ASSERT_TRUE(schema.descriptor);
  EXPECT_FALSE(schema.descriptor->n_features);
}

TEST(Schema, EveryAttributeOfTheCacheMustBeThere) {
  for (const Attribute& attribute : cache()) {
    EXPECT_EQ(corrupt([&] { check_schema(info(without(cache(), attribute.name))); }),
              cat("torch_cache: attribute '", attribute.name, "': expected a value, got none"));
  }
  for (const Attribute& attribute : manifest()) {
    EXPECT_EQ(corrupt([&] { check_schema(info(cache(), without(manifest(), attribute.name))); }),
              cat("descriptor_manifest: attribute '", attribute.name, "': expected a value, got none"));
  }
}

TEST(Schema, OfVersion1AllAttributesOfDerivativesMustBeThere) {
  for (const Attribute& attribute : derivatives()) {
    Schema legacy;
    legacy.is_legacy = true;
    EXPECT_EQ(corrupt([&] { check_derivatives(without(derivatives(), attribute.name), legacy); }),
              cat("force_derivatives: attribute '", attribute.name, "': expected a value, got none"));
  }
}

TEST(Schema, OfVersion2SomeMayBeMissing) {
  for (const char* const name :
       {"schema_version", "descriptor_compat_sha256", "storage_dtype", "contains_features", "contains_positions"}) {
    Schema schema = check_schema(info(cache(true, true)));
    EXPECT_NO_THROW(check_derivatives(without(derivatives(), name), schema)) << name;
  }
}

TEST(Schema, JsonThatSaysNothing) {
  for (const char* const json : {"", "{", "[]", "7", "\xff", "{}x"}) {
    EXPECT_EQ(corrupt([&] { check_schema(info(with_compat(cache(), json))); }),
              "torch_cache: attribute 'descriptor_compat_json': expected a JSON object, got something else");
  }
  for (const char* const json : {R"({"rad_order":1})", R"({"rad_order":-1,"ang_order":1,"species":[]})",
                                 R"({"rad_order":1e3,"ang_order":1,"species":[]})",
                                 R"({"rad_order":99999999999999999999,"ang_order":1,"species":[]})",
                                 R"({"rad_order":1,"ang_order":1,"species":{}})"}) {
    EXPECT_THROW(check_schema(info(cache(), manifest(json))), CorruptFileError) << json;
  }
  std::string deep(100000, '[');
  EXPECT_THROW(check_schema(info(with_compat(cache(), deep))), CorruptFileError);
}

TEST(Schema, CountsMustFitTheDescriptor) {
  for (const auto& [name, value] : {std::pair<const char*, AttributeValue>{"n_radial_features", int64_t{4}},
                                    {"n_angular_features", int64_t{1}},
                                    {"multi", false},
                                    {"n_radial_features", int64_t{-1}},
                                    {"n_radial_features", INT64_MAX}}) {
    Schema schema = check_schema(info(cache(true, true)));
    EXPECT_THROW(check_derivatives(with(derivatives(), name, value), schema), CorruptFileError) << name;
  }
}

TEST(Schema, ManifestAndCacheMustAgree) {
  std::string config = kConfig;
  config.replace(config.find("4.0"), 3, "4.5");
  EXPECT_EQ(corrupt([&] { check_schema(info(cache(), manifest(config))); }),
            "descriptor_manifest: rad_cutoff: expected 4.0 as in the cache, got 4.5");
  config = kConfig;
  config.replace(config.find("10"), 2, "11");
  EXPECT_EQ(corrupt([&] { check_schema(info(cache(), manifest(config))); }),
            "descriptor_manifest: attribute 'config_json': expected n_features 10 for its orders and species, got 11");
}

TEST(Schema, TextIsUtf8) {
  EXPECT_NO_THROW(check_text({{"name", std::string("caf\xC3\xA9")}}));
  EXPECT_EQ(test::corrupt([] { check_text({{"name", std::string("caf\xE9")}}); }),
            "attribute 'name': expected UTF-8, got other bytes");
}

}  // namespace
}  // namespace atompack::torch_cache
