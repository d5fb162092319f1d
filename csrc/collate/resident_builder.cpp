#include "collate/resident_builder.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/checked_math.h"
#include "collate/torch_threads.h"

namespace atompack::collate {
namespace {

constexpr uint64_t kRecordAlignment = 8;
constexpr std::string_view kBlockName = "size of the resident molecules";

uint64_t aligned_size(uint64_t bytes) {
  return checked_add(bytes, kRecordAlignment - 1, kBlockName) / kRecordAlignment * kRecordAlignment;
}

CorruptFileError changed_record() { return CorruptFileError("the file was overwritten while it was read"); }

}  // namespace

// Visits one molecule after the other: learns the form and the size of its record, and writes it if there is memory.
// For one thread.
class ResidentBuilder::Recorder final : public MoleculeVisitor {
 public:
  explicit Recorder(ResidentBuilder& builder) : builder_(builder), known_(builder.tables_->schemas.size()) {
    for (size_t schema = 0; schema < known_.size(); ++schema) {
      known_[schema].resize(builder.tables_->schemas[schema].fields.size());
    }
  }

  // Reads a molecule of the source; `memory` has room for its record, or none.
  void read(int64_t number, std::span<std::byte> memory) {
    const MoleculeSource& source = *builder_.source_;
    const MoleculeExtent extent = source.extent(number);
    entry_ = {.number = source.number(number),
              .n_atoms = static_cast<uint32_t>(extent.n_atoms),
              .n_edges = static_cast<uint32_t>(extent.n_edges),
              .n_triplets = static_cast<uint32_t>(extent.n_triplets)};
    form_.schema = source.schema_of(number);
    form_.fields.clear();
    memory_ = memory;
    size_ = 0;
    source.visit(number, decode(source, number, extent, scratch_), *this);
    entry_.offset = size_;
    if (form_ != last_form_ || !has_last_) {
      last_form_number_ = builder_.add_form(form_);
      last_form_ = form_;
      has_last_ = true;
    }
    entry_.form = last_form_number_;
  }

  const ResidentEntry& entry() const { return entry_; }

  void geometry(const Geometry& geometry) override {
    if (geometry.n_atoms != static_cast<int64_t>(entry_.n_atoms)) throw changed_record();
    form_.positions = geometry.positions_dtype;
    form_.numbers = geometry.numbers_dtype;
    put(geometry.positions);
    put(geometry.numbers);
  }

  void field(const FieldView& view, Bytes data) override {
    if (!builder_.is_selected(form_.schema, view)) return;
    if (view.fault != nullptr) throw *view.fault;
    const bool is_fixed = builder_.has_fixed_shape(form_.schema, view);
    form_.fields.push_back(number_of(view, is_fixed));
    if (view.type.kind == ValueKind::none) return;
    if (view.type.kind == ValueKind::string) {
      put_number(data.size());
    } else if (!is_fixed) {
      put_number(static_cast<uint64_t>(view.row_shape.rank()));
      for (const int64_t dim : view.row_shape.dims()) put_number(static_cast<uint64_t>(dim));
    }
    put(data);
  }

 private:
  // Number of a declared field, remembered without a lock.
  struct Known {
    FieldType type;
    bool is_fixed = false;
    int32_t number = -1;
  };

  int32_t number_of(const FieldView& view, bool is_fixed) {
    if (view.declaration < 0) return builder_.add_field(form_.schema, view);
    Known& known = known_[static_cast<size_t>(form_.schema)][static_cast<size_t>(view.declaration)];
    if (known.number < 0 || known.type != view.type || known.is_fixed != is_fixed) {
      known = {view.type, is_fixed, builder_.add_field(form_.schema, view)};
    }
    return known.number;
  }

  void put_number(uint64_t number) { put(std::as_bytes(std::span(&number, 1))); }

  void put(Bytes bytes) {
    if (!memory_.empty()) {
      if (bytes.size() > memory_.size() - size_) throw changed_record();
      atompack::store(memory_.data() + size_, bytes);
    }
    size_ += bytes.size();
  }

  ResidentBuilder& builder_;
  ResidentForm form_, last_form_;
  bool has_last_ = false;
  uint32_t last_form_number_ = 0;
  ResidentEntry entry_;
  std::span<std::byte> memory_;
  uint64_t size_ = 0;
  std::vector<std::byte> scratch_;
  std::vector<std::vector<Known>> known_;  // by schema and declaration
};

ResidentBuilder::ResidentBuilder(std::shared_ptr<const MoleculeSource> source, std::vector<int64_t> numbers,
                                 std::vector<std::shared_ptr<const plan::Request>> requests, std::string path)
    : source_(std::move(source)),
      numbers_(std::move(numbers)),
      requests_(std::move(requests)),
      entries_(numbers_.size()),
      tables_(std::make_shared<ResidentTables>()) {
  tables_->path = std::move(path);
  for (const MoleculeSchema& schema : source_->schemas()) {
    tables_->schemas.push_back(schema);
    std::vector<bool>& selected = selected_.emplace_back();
    for (const FieldDeclaration& field : schema.fields) {
      selected.push_back(std::ranges::any_of(
          requests_, [&](const auto& request) { return request->selects({field.scope, field.key}); }));
    }
  }
}

bool ResidentBuilder::is_selected(int32_t schema, const FieldView& view) const {
  if (view.declaration >= 0) return selected_[static_cast<size_t>(schema)][static_cast<size_t>(view.declaration)];
  const plan::FieldId id{view.scope, std::string(view.key)};
  return std::ranges::any_of(requests_, [&](const auto& request) { return request->selects(id); });
}

bool ResidentBuilder::has_fixed_shape(int32_t schema, const FieldView& view) const {
  if (view.declaration < 0) return false;
  const auto& fields = tables_->schemas[static_cast<size_t>(schema)].fields;
  const std::optional<Shape>& declared = fields[static_cast<size_t>(view.declaration)].row_shape;
  return declared && *declared == view.row_shape;
}

int32_t ResidentBuilder::add_field(int32_t schema, const FieldView& view) {
  const bool is_fixed = has_fixed_shape(schema, view);
  const auto& [level, kind, dtype, is_atom_index] = view.type;
  const std::lock_guard lock(mutex_);
  const auto next = static_cast<int32_t>(tables_->fields.size());
  const FieldKey key(schema, view.declaration, view.scope, view.key, level, kind, dtype, is_atom_index, is_fixed);
  const auto [found, is_new] = fields_.try_emplace(key, next);
  if (is_new) {
    ResidentField& field = tables_->fields.emplace_back();
    field = {schema, view.scope, std::string(view.key), view.type, std::nullopt, view.declaration};
    if (is_fixed) field.row_shape.emplace(view.row_shape.dims().begin(), view.row_shape.dims().end());
  }
  return found->second;
}

uint32_t ResidentBuilder::add_form(const ResidentForm& form) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = forms_.try_emplace(form, static_cast<uint32_t>(tables_->forms.size()));
  if (is_new) tables_->forms.push_back(form);
  return found->second;
}

template <typename Step>
void ResidentBuilder::for_each_molecule(int64_t first, int64_t last, const Step& step) {
  source_->prepare(std::span(numbers_).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
  if (source_->window() > 0) {
    source_->announce(std::span(numbers_).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
  }
  const int64_t n_ranges = std::clamp<int64_t>((last - first) / 64, 1, usable_threads(requests_.front()->max_threads));
  for_each_range(n_ranges, [&](int64_t range) {
    Recorder recorder(*this);
    const int64_t end = first + (last - first) * (range + 1) / n_ranges;
    for (int64_t i = first + (last - first) * range / n_ranges; i < end; ++i) step(recorder, static_cast<size_t>(i));
  });
}

void ResidentBuilder::measure(int64_t first, int64_t last) {
  for_each_molecule(first, last, [&](Recorder& recorder, size_t i) {
    recorder.read(numbers_[i], {});
    entries_[i] = recorder.entry();
  });
}

uint64_t ResidentBuilder::bytes() const {
  uint64_t sum = (entries_.size() + 1) * sizeof(ResidentEntry);
  for (const ResidentEntry& entry : entries_) sum = checked_add(sum, aligned_size(entry.offset), kBlockName);
  return sum;
}

void ResidentBuilder::copy(int64_t first, int64_t last, std::span<std::byte> memory) {
  if (memory.size() < bytes()) throw InternalError(cat("block of ", memory.size(), " bytes: expected ", bytes()));
  std::vector<ResidentEntry> placed(entries_.begin() + first, entries_.begin() + last);
  uint64_t offset = (entries_.size() + 1) * sizeof(ResidentEntry);
  for (size_t i = 0; i < static_cast<size_t>(first); ++i) offset += aligned_size(entries_[i].offset);
  for (ResidentEntry& entry : placed) offset += aligned_size(std::exchange(entry.offset, offset));
  ResidentEntry end;
  end.offset = offset;
  for_each_molecule(first, last, [&](Recorder& recorder, size_t i) {
    const uint64_t expected = entries_[i].offset;
    recorder.read(numbers_[i], memory.subspan(placed[i - static_cast<size_t>(first)].offset, expected));
    const bool is_same = recorder.entry().offset == expected && recorder.entry().form == entries_[i].form;
    if (!is_same) source_->located(numbers_[i], [] { throw changed_record(); });
  });
  auto* const entries = reinterpret_cast<ResidentEntry*>(memory.data());
  std::ranges::copy(placed, entries + first);
  if (last == size()) entries[last] = end;
}

at::Tensor count_stored_rows(const MoleculeSource& source, std::span<const int64_t> numbers) {
  at::Tensor counts = at::empty({std::ssize(numbers), 3}, at::TensorOptions(at::kLong));
  auto* to = counts.mutable_data_ptr<int64_t>();
  for (const int64_t number : numbers) {
    const MoleculeExtent extent = source.extent(number);
    for (const int64_t count : {extent.n_atoms, extent.n_edges, extent.n_triplets}) *to++ = count;
  }
  return counts;
}

}  // namespace atompack::collate
