#include <map>
#include <memory>

#include "formats/atlas_store/store.h"
#include "io/memory_store.h"
#include "targets.h"

namespace atompack::fuzz {
namespace {

using namespace atlas_store;

template <typename Action>
void tolerate(const Action& action) {
  try {
    action();
  } catch (const DataError&) {
    return;  // the named end of what cannot be read; the rest may be
  }
}

}  // namespace

void read_collection_file(Bytes input) {
  tolerate([&] {
    const auto files = std::make_shared<io::MemoryStore>(
        std::map<std::string, io::OwnedBytes>{{std::string(kContainerName), {input, nullptr}}});
    const auto store = std::make_shared<const Store>(io::Location(std::string(kContainerName), files));
    Verification verification(store);
    for (uint32_t dataset = 0; dataset < store->metadata().n_numbers(); ++dataset) {
      require(store->find_dataset(store->dataset_name(dataset)) == dataset, "a dataset is found by its name");
      tolerate([&] { store->attributes(dataset); });
      for (const Entry& entry : store->metadata().arrays(dataset)) {
        tolerate([&] { store->attributes(entry.variable, dataset); });
        tolerate([&] { verification.check(entry.variable, dataset); });
      }
    }
    for (uint32_t variable = 0; variable < store->metadata().n_variables(); ++variable) {
      tolerate([&] { store->statistics(variable); });
    }
  });
}

}  // namespace atompack::fuzz
