#include "model/sources/augmented.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/bytes.h"
#include "model/fields.h"

namespace atompack {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;  // rows

constexpr std::string_view kNoiseKey = "noise";

// Independent streams of random numbers of one molecule.
enum class Stream : uint64_t { rotation = 1, strain, noise };

// Layers of equal area under exp(-x^2 / 2) for x > 0; the lowest includes the tail beyond kTail.
class Ziggurat {
 public:
  static constexpr size_t kLayers = 128;
  static constexpr double kTail = 3.442619855899;

  Ziggurat() {
    constexpr double kArea = 9.91256303526217e-3;
    double height = density(kTail);
    widths_[0] = kArea / height;
    widths_[1] = kTail;
    for (size_t layer = 2; layer < kLayers; ++layer) {
      height += kArea / widths_[layer - 1];
      widths_[layer] = std::sqrt(-2 * std::log(height));
    }
  }

  static double density(double x) { return std::exp(-x * x / 2); }
  double width(size_t layer) const { return widths_[layer]; }

 private:
  std::array<double, kLayers + 1> widths_{};  // the last is 0
};

// The generator splitmix64.
class Random {
 public:
  Random(const Augmentation& options, int64_t molecule, Stream stream) {
    for (const uint64_t part :
         {options.seed, options.epoch, static_cast<uint64_t>(molecule), static_cast<uint64_t>(stream)}) {
      state_ = next() ^ part;
    }
    state_ = next();
  }

  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // From the normal distribution, by the ziggurat method of Marsaglia and Tsang.
  double normal() {
    static const Ziggurat ziggurat;
    while (true) {
      const uint64_t word = next();
      const size_t layer = word % Ziggurat::kLayers;
      const double x = (static_cast<double>(word >> 11) * 0x1p-52 - 1) * ziggurat.width(layer);
      const double inner = ziggurat.width(layer + 1);
      if (std::abs(x) < inner) return x;
      if (layer == 0) {
        double beyond, other;
        do {
          beyond = -std::log(1 - uniform()) / Ziggurat::kTail;
          other = -std::log(1 - uniform());
        } while (2 * other < beyond * beyond);
        return x < 0 ? -Ziggurat::kTail - beyond : Ziggurat::kTail + beyond;
      }
      const double low = Ziggurat::density(ziggurat.width(layer)), high = Ziggurat::density(inner);
      if (low + uniform() * (high - low) < Ziggurat::density(x)) return x;
    }
  }

 private:
  uint64_t next() {
    uint64_t word = state_ += 0x9E3779B97F4A7C15;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
  }

  uint64_t state_ = 0;
};

constexpr Matrix kIdentity{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

Vector times(const Matrix& matrix, const Vector& vector) {
  Vector made;
  for (size_t i = 0; i < 3; ++i) {
    made[i] = matrix[i][0] * vector[0] + matrix[i][1] * vector[1] + matrix[i][2] * vector[2];
  }
  return made;
}

Matrix transposed(const Matrix& matrix) {
  Matrix made;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) made[i][j] = matrix[j][i];
  }
  return made;
}

// Multiplies each row of `rows` by the matrix: `rows` times its transpose.
Matrix turn_rows(const Matrix& matrix, const Matrix& rows) {
  return {times(matrix, rows[0]), times(matrix, rows[1]), times(matrix, rows[2])};
}

// All rotations are equally likely: that of a random unit quaternion, after Shoemake (1992).
Matrix draw_rotation(Rotation rotation, Random random) {
  if (rotation == Rotation::none) return kIdentity;
  const double split = random.uniform();
  const double first = 2 * std::numbers::pi * random.uniform(), second = 2 * std::numbers::pi * random.uniform();
  const double x = std::sqrt(1 - split) * std::sin(first), y = std::sqrt(1 - split) * std::cos(first);
  const double z = std::sqrt(split) * std::sin(second), w = std::sqrt(split) * std::cos(second);
  Matrix made{{{1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)},
               {2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)},
               {2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)}}};
  if (rotation == Rotation::all && random.uniform() < 0.5) {
    for (Vector& row : made) {
      for (double& value : row) value = -value;
    }
  }
  return made;
}

// The identity plus a symmetric strain.
Matrix draw_stretch(double largest, Random random) {
  Matrix made = kIdentity;
  if (largest == 0) return made;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = i; j < 3; ++j) {
      const double strain = largest * (2 * random.uniform() - 1);
      made[i][j] += strain;
      if (i != j) made[j][i] += strain;
    }
  }
  return made;
}

// Calls change(row, values) for rows of values that are converted to double and back.
template <typename Row, typename Stored, typename Change>
void change_stored_rows(Bytes from, std::byte* to, const Change& change) {
  constexpr size_t kValues = sizeof(Row) / sizeof(double);
  const std::byte* at = from.data();
  for (size_t row = 0; row < from.size() / (kValues * sizeof(Stored)); ++row) {
    std::array<double, kValues> values;
    for (double& value : values) {
      value = load_le<Stored>(at);
      at += sizeof(Stored);
    }
    Row made = std::bit_cast<Row>(values);
    change(row, made);
    for (const double value : std::bit_cast<std::array<double, kValues>>(made))
      to = store_le(to, static_cast<Stored>(value));
  }
}

template <typename Row, typename Change>
void change_rows(Bytes from, DType dtype, std::byte* to, const Change& change) {
  if (dtype == DType::float64) return change_stored_rows<Row, double>(from, to, change);
  if (dtype == DType::float32) return change_stored_rows<Row, float>(from, to, change);
  throw InternalError(cat("not a floating-point type: ", name_of(dtype)));
}

// Memory of the moved values of one molecule, reused for the next.
struct Buffers {
  std::vector<std::vector<std::byte>> values;
  std::vector<double> noise;  // (atoms, 3)
};

class Mover final : public MoleculeVisitor {
 public:
  Mover(const Augmentation& options, int64_t molecule, const MoleculeSchema& schema, MoleculeVisitor& visitor,
        Buffers& buffers)
      : options_(options),
        molecule_(molecule),
        schema_(schema),
        visitor_(visitor),
        buffers_(buffers),
        rotation_(draw_rotation(options.rotation, {options, molecule, Stream::rotation})),
        moves_cell_(options.rotation != Rotation::none || options.strain != 0) {
    const Matrix stretch = draw_stretch(options.strain, {options, molecule, Stream::strain});
    deformation_ = transposed(turn_rows(rotation_, transposed(stretch)));
  }

  void geometry(const Geometry& geometry) override {
    if (options_.noise != 0) draw_noise(static_cast<size_t>(geometry.n_atoms));
    Geometry moved = geometry;
    moved.positions =
        change<Vector>(geometry.positions, geometry.positions_dtype, [this](size_t atom, Vector& position) {
          if (moves_cell_) position = times(deformation_, position);
          if (options_.noise == 0) return;
          for (size_t axis = 0; axis < 3; ++axis) position[axis] += buffers_.noise[3 * atom + axis];
        });
    visitor_.geometry(moved);
    if (options_.keeps_noise) pass_noise(static_cast<size_t>(geometry.n_atoms));
  }

  void field(const FieldView& view, Bytes data) override {
    const bool is_cell = view.scope == Scope::builtin && view.key == "cell";
    const bool moves = is_cell ? moves_cell_ : options_.rotation != Rotation::none;
    const Turning turning = moves ? turning_of(view) : Turning::scalar;
    if (turning == Turning::scalar || view.fault != nullptr || view.type.kind == ValueKind::none) {
      return visitor_.field(view, data);
    }
    check(view, turning == Turning::tensor ? 2 : 1);
    if (turning == Turning::tensor) {
      return visitor_.field(view, change<Matrix>(data, view.type.dtype, [this](size_t, Matrix& tensor) {
                              tensor = transposed(turn_rows(rotation_, transposed(turn_rows(rotation_, tensor))));
                            }));
    }
    const Matrix& matrix = is_cell ? deformation_ : rotation_;
    visitor_.field(
        view, change<Vector>(data, view.type.dtype, [&](size_t, Vector& vector) { vector = times(matrix, vector); }));
  }

 private:
  Turning turning_of(const FieldView& view) const {
    if (view.scope == Scope::builtin) {
      const BuiltinField* const known = find_builtin(view.key);
      return known == nullptr ? Turning::scalar : known->rotation;
    }
    const auto names = [&](const std::vector<Augmentation::Name>& all) {
      return std::ranges::any_of(all,
                                 [&](const auto& name) { return name.first == view.scope && name.second == view.key; });
    };
    if (names(options_.vectors)) return Turning::vector;
    return names(options_.tensors) ? Turning::tensor : Turning::scalar;
  }

  // Checks that the given number of last axes of a row have three components each.
  static void check(const FieldView& view, size_t n_axes) {
    const std::span<const int64_t> dims = view.row_shape.dims();
    const bool has_axes =
        dims.size() >= n_axes && std::ranges::all_of(dims.last(n_axes), [](int64_t dim) { return dim == 3; });
    const bool is_float = view.type.dtype == DType::float32 || view.type.dtype == DType::float64;
    if (has_axes && is_float && view.type.kind == ValueKind::numeric) return;
    const std::string_view expected = n_axes == 1 ? "(3,)" : "(3, 3)";
    throw FieldError(cat("augment: expected float32 or float64 of shape ", expected, ", got ",
                         view.type.kind == ValueKind::numeric ? name_of(view.type.dtype) : "strings", " of shape ",
                         view.row_shape))
        .at_field(view.key);
  }

  std::byte* new_buffer(size_t bytes) {
    if (n_used_ == buffers_.values.size()) buffers_.values.emplace_back();
    std::vector<std::byte>& buffer = buffers_.values[n_used_++];
    if (buffer.size() < bytes) buffer.resize(bytes);
    return buffer.data();
  }

  template <typename Row, typename Change>
  Bytes change(Bytes from, DType dtype, const Change& change) {
    std::byte* const to = new_buffer(from.size());
    change_rows<Row>(from, dtype, to, change);
    return {to, from.size()};
  }

  void draw_noise(size_t n_atoms) {
    Random random(options_, molecule_, Stream::noise);
    buffers_.noise.resize(3 * n_atoms);
    for (double& value : buffers_.noise) value = options_.noise * random.normal();
  }

  void pass_noise(size_t n_atoms) {
    if (options_.noise == 0) buffers_.noise.assign(3 * n_atoms, 0);
    const size_t bytes = 3 * n_atoms * item_bytes(schema_.positions);
    std::byte* to = new_buffer(bytes);
    const Bytes data{to, bytes};
    for (const double value : buffers_.noise) {
      to = schema_.positions == DType::float64 ? store_le(to, value) : store_le(to, static_cast<float>(value));
    }
    const auto declaration = static_cast<int32_t>(std::ssize(schema_.fields)) - 1;
    const FieldDeclaration& declared = schema_.fields.back();
    visitor_.field({Scope::atom_property, kNoiseKey, declared.type, *declared.row_shape, declaration}, data);
  }

  const Augmentation& options_;
  int64_t molecule_;
  const MoleculeSchema& schema_;
  MoleculeVisitor& visitor_;
  Buffers& buffers_;
  size_t n_used_ = 0;  // buffers
  Matrix rotation_, deformation_;
  bool moves_cell_;
};

}  // namespace

AugmentedSource::AugmentedSource(std::shared_ptr<const MoleculeSource> all, Augmentation options)
    : ForwardingSource(std::move(all)),
      options_(std::move(options)),
      schemas_(source().schemas().begin(), source().schemas().end()) {
  if (!options_.keeps_noise) return;
  // At the end, so that the other declarations keep their numbers.
  for (MoleculeSchema& schema : schemas_) {
    const FieldType type{Level::atom, ValueKind::numeric, schema.positions};
    const bool is_known = std::ranges::any_of(schema.fields, [](const FieldDeclaration& field) {
      return field.scope == Scope::atom_property && field.key == kNoiseKey;
    });
    if (is_known) {
      throw FieldError("augment: keep_noise: expected no property of this name, got one: rename it by key_map=")
          .at_field(kNoiseKey);
    }
    schema.fields.push_back({Scope::atom_property, std::string(kNoiseKey), type, Shape{3}});
  }
}

void AugmentedSource::visit(int64_t index, Bytes record, MoleculeVisitor& visitor) const {
  thread_local Buffers buffers;
  Mover mover(options_, number(index), schemas_[static_cast<size_t>(schema_of(index))], visitor, buffers);
  source().visit(index, record, mover);
}

}  // namespace atompack
