#include "formats/torch_cache/schema.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "codec/checksums.h"

namespace atompack::torch_cache {
namespace {

using nlohmann::json;
using enum AttributeKind;

constexpr std::string_view kChebyshev = "aenet.torch_featurize.featurize.ChebyshevDescriptor";

constexpr AttributeName kRoot[] = {{"energy_filter_semantics", text},
                                   {"energy_filter_enabled", flag},
                                   {"energy_filter_reference_mode", text},
                                   {"energy_filter_max_referenced_energy_per_atom", number},
                                   {"energy_filter_atomic_energies_json", text}};
constexpr AttributeName kManifest[] = {{"schema_version", integer},
                                       {"manifest_format", text},
                                       {"descriptor_class", text},
                                       {"config_json", text},
                                       {"config_sha256", text}};
constexpr AttributeName kCache[] = {
    {"schema_version", integer},         {"cache_format", text},  {"descriptor_compat_json", text},
    {"descriptor_compat_sha256", text},  {"storage_dtype", text}, {"contains_features", flag},
    {"contains_force_derivatives", flag}};
constexpr AttributeName kDerivatives[] = {{"schema_version", integer},      {"payload_format", text},
                                          {"descriptor_compat_json", text}, {"descriptor_compat_sha256", text},
                                          {"storage_dtype", text},          {"n_radial_features", integer},
                                          {"n_angular_features", integer},  {"multi", flag},
                                          {"contains_features", flag},      {"contains_positions", flag}};

// Attributes of one group, whose name is added to errors.
class Group {
 public:
  Group(std::string_view name, const Attributes& attributes) : name_(name), attributes_(attributes) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }

  template <typename T>
  const T& get(std::string_view name) const {
    const AttributeValue* const found = find(name);
    if (found == nullptr) fail(name, "a value", "none");
    return std::get<T>(*found);  // read_attributes() has checked the type
  }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }

  // A different version or format name cannot be read.
  template <typename T>
  void require(std::string_view name, const T& expected) const {
    if (const T& found = get<T>(name); found != expected) {
      throw UnsupportedFormatError(cat(place(name), ": expected ", expected, ", got ", found));
    }
  }

  void require_hash(std::string_view json_name, std::string_view hash_name) const {
    const std::string found = codec::sha256_hex(as_bytes(text(json_name)));
    if (found != text(hash_name)) fail(hash_name, cat(found, ", which is that of ", json_name), text(hash_name));
  }

  [[noreturn]] void fail(std::string_view name, std::string_view expected, std::string_view got) const {
    throw_corrupt(place(name), ": expected ", expected, ", got ", got);
  }

 private:
  std::string place(std::string_view name) const { return cat(name_, ": attribute '", name, "'"); }
  const AttributeValue* find(std::string_view name) const {
    for (const Attribute& attribute : attributes_) {
      if (attribute.name == name) return &attribute.value;
    }
    return nullptr;
  }

  std::string name_;
  const Attributes& attributes_;
};

json parse_object(const Group& group, std::string_view name) {
  json found = json::parse(group.text(name), nullptr, false);
  if (!found.is_object()) group.fail(name, "a JSON object", "something else");
  return found;
}

DType storage_dtype(const Group& group) {
  const std::string& found = group.text("storage_dtype");
  if (found == "float64") return DType::float64;
  if (found == "float32") return DType::float32;
  group.fail("storage_dtype", "float32 or float64", found);
}

// Order of polynomials, limited to what a real descriptor may have.
int64_t order_of(const Group& group, std::string_view json_name, const json& settings, const char* key) {
  constexpr int64_t kMax = 1 << 20;
  const auto found = settings.find(key);
  if (found == settings.end() || !found->is_number_integer()) group.fail(json_name, cat("an integer ", key), "none");
  const auto order = found->get<int64_t>();
  if (order < 0 || order > kMax) group.fail(json_name, cat(key, " from 0 to ", kMax), cat(order));
  return order;
}

size_t n_species(const Group& group, std::string_view json_name, const json& settings) {
  const auto found = settings.find("species");
  if (found == settings.end() || !found->is_array()) group.fail(json_name, "a list of species", "none");
  return found->size();
}

// FORMAT.md#descriptor
DerivativeSchema sizes_of(const Group& group, std::string_view json_name, const json& settings) {
  return {order_of(group, json_name, settings, "rad_order") + 1, order_of(group, json_name, settings, "ang_order") + 1,
          n_species(group, json_name, settings) > 1};
}

int64_t n_features_of(const DerivativeSchema& sizes) {
  return (sizes.n_radial + sizes.n_angular) * (sizes.multi ? 2 : 1);
}

bool is_chebyshev(const json& settings) {
  const auto found = settings.find("descriptor_class");
  return found != settings.end() && *found == kChebyshev;
}

Descriptor descriptor_of(const Group& group) {
  constexpr std::string_view kJson = "descriptor_compat_json";
  group.require_hash(kJson, "descriptor_compat_sha256");
  const json settings = parse_object(group, kJson);
  Descriptor found{group.text(kJson), group.text("descriptor_compat_sha256"), std::nullopt};
  if (!is_chebyshev(settings)) return found;
  const DerivativeSchema sizes = sizes_of(group, kJson, settings);
  if (settings.find("multi") == settings.end() || settings["multi"] != sizes.multi) {
    group.fail(kJson, cat("multi ", sizes.multi ? "true" : "false", " for its species"), "another");
  }
  found.n_features = n_features_of(sizes);
  return found;
}

// Returns the settings.
json check_manifest(const Group& group) {
  group.require("schema_version", int64_t{1});
  group.require<std::string>("manifest_format", "aenet.torch_training.descriptor_manifest.v1");
  group.require("descriptor_class", std::string(kChebyshev));
  const json settings = parse_object(group, "config_json");
  group.require_hash("config_json", "config_sha256");
  const int64_t expected = n_features_of(sizes_of(group, "config_json", settings));
  if (const auto found = settings.find("n_features"); found != settings.end() && *found != expected) {
    group.fail("config_json", cat("n_features ", expected, " for its orders and species"), found->dump());
  }
  return settings;
}

// Both must describe the same descriptor.
void check_agreement(const json& settings, const Descriptor& descriptor) {
  const json compat = json::parse(descriptor.compat_json);
  for (const char* const key : {"ang_cutoff", "ang_order", "min_cutoff", "rad_cutoff", "rad_order", "species"}) {
    const json manifest = settings.value(key, json());
    const json cache = compat.value(key, json());
    if (manifest != cache) {
      throw_corrupt("descriptor_manifest: ", key, ": expected ", cache.dump(-1, ' ', true), " as in the cache, got ",
                    manifest.dump(-1, ' ', true));
    }
  }
}

void check_cache(const Attributes& attributes, Schema& schema) {
  const Group group("torch_cache", attributes);
  group.require("schema_version", int64_t{2});
  group.require<std::string>("cache_format", "aenet.torch_training.cache.v2");
  schema.descriptor = descriptor_of(group);
  schema.storage_dtype = storage_dtype(group);
  schema.has_features = group.get<bool>("contains_features");
  if (group.get<bool>("contains_force_derivatives")) schema.derivatives = DerivativeSchema{};
}

int64_t count_of(const Group& group, std::string_view name) {
  constexpr int64_t kMax = 1 << 21;
  const auto found = group.get<int64_t>(name);
  if (found < 0 || found > kMax) group.fail(name, cat("a count from 0 to ", kMax), cat(found));
  return found;
}

// In version 1 all attributes must exist; version 2 has most of them in its own group, but those that exist must agree.
void check_identity(const Group& group, Schema& schema) {
  if (schema.is_legacy || group.has("schema_version")) group.require("schema_version", int64_t{1});
  if (schema.is_legacy || group.has("descriptor_compat_sha256")) {
    const Descriptor own = descriptor_of(group);
    if (schema.descriptor && schema.descriptor->sha256 != own.sha256) {
      group.fail("descriptor_compat_sha256", schema.descriptor->sha256 + " as in torch_cache", own.sha256);
    }
    schema.descriptor = own;
  }
  if (!schema.is_legacy) return;
  schema.storage_dtype = storage_dtype(group);
  static_cast<void>(group.get<bool>("contains_features"));
  static_cast<void>(group.get<bool>("contains_positions"));
}

}  // namespace

std::span<const AttributeName> root_names() { return kRoot; }
std::span<const AttributeName> manifest_names() { return kManifest; }
std::span<const AttributeName> cache_names() { return kCache; }
std::span<const AttributeName> force_derivative_names() { return kDerivatives; }

Schema check_schema(const Info& info) {
  Schema schema;
  std::optional<json> settings;
  if (info.manifest) settings = check_manifest(Group("descriptor_manifest", *info.manifest));
  if (info.cache) {
    check_cache(*info.cache, schema);
    if (settings) check_agreement(*settings, *schema.descriptor);
  }
  return schema;
}

void check_derivatives(const Attributes& attributes, Schema& schema) {
  const Group group("force_derivatives", attributes);
  group.require<std::string>("payload_format", "aenet.torch_training.local_derivatives.v1");
  check_identity(group, schema);
  const DerivativeSchema found{count_of(group, "n_radial_features"), count_of(group, "n_angular_features"),
                               group.get<bool>("multi")};
  const int64_t expected = schema.descriptor ? schema.descriptor->n_features.value_or(n_features_of(found)) : -1;
  if (n_features_of(found) != expected) {
    group.fail("n_radial_features", cat("counts that make ", expected, " features"), cat(n_features_of(found)));
  }
  schema.derivatives = found;
}

void check_text(const Attributes& attributes) {
  for (const auto& [name, value] : attributes) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text != nullptr && !is_utf8(as_bytes(*text))) {
      throw_corrupt("attribute '", name, "': expected UTF-8, got other bytes");
    }
  }
}

}  // namespace atompack::torch_cache
