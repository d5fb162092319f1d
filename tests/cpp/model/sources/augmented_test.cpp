#include "model/sources/augmented.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "message_of.h"
#include "model/fields.h"
#include "model/memory_source.h"

namespace atompack {
namespace {

using test::MemoryField;
using test::MemoryMolecule;
using test::MemorySource;

constexpr size_t kAtoms = 4;
constexpr FieldType kOfAtoms{Level::atom, ValueKind::numeric, DType::float32};
constexpr FieldType kOfMolecules{Level::molecule, ValueKind::numeric, DType::float64};

// A value of each builtin field of numbers, and properties that look the same.
std::shared_ptr<MemorySource> molecules(size_t n) {
  std::mt19937 random(1);
  std::vector<MemoryMolecule> made(n);
  MoleculeSchema schema{DType::float64, {}};
  for (MemoryMolecule& molecule : made) {
    molecule.positions = test::random_numbers(3 * kAtoms, random);
    molecule.numbers.assign(kAtoms, 8);
    const auto add = [&](Scope scope, std::string key, const FieldType& type, const Shape& shape) {
      size_t values = type.level == Level::atom ? kAtoms : 1;
      for (const int64_t dim : shape.dims()) values *= static_cast<size_t>(dim);
      molecule.fields.push_back({scope, std::move(key), type, shape, test::random_numbers(values, random)});
    };
    for (const BuiltinField& field : kBuiltinFields) {
      if (field.kind != ValueKind::numeric || field.dtype == DType::boolean) continue;
      add(Scope::builtin, std::string(field.key), {field.level, field.kind, field.dtype}, Shape(field.row.dims()));
    }
    for (const std::string name : {"field", "other"}) add(Scope::molecule_property, name, kOfMolecules, {3});
    for (const std::string name : {"magmom", "other"}) add(Scope::atom_property, name, kOfAtoms, {3});
    add(Scope::molecule_property, "alpha", kOfMolecules, {3, 3});
  }
  for (const MemoryField& field : made.front().fields) {
    schema.fields.push_back({field.scope, field.key, field.type, field.row_shape});
  }
  return std::make_shared<MemorySource>(std::move(made), std::vector{schema});
}

// Keeps all values of a molecule, as double.
class DoubleRecorder final : public MoleculeVisitor {
 public:
  void geometry(const Geometry& geometry) override {
    positions = numbers(geometry.positions, geometry.positions_dtype);
  }
  void field(const FieldView& view, Bytes data) override {
    fields[{view.scope, std::string(view.key)}] = numbers(data, view.type.dtype);
    declarations[std::string(view.key)] = view.declaration;
  }

  std::vector<double> positions;
  std::map<std::pair<Scope, std::string>, std::vector<double>> fields;
  std::map<std::string, int32_t> declarations;

 private:
  static std::vector<double> numbers(Bytes data, DType dtype) {
    std::vector<double> all;
    for (size_t at = 0; at < data.size(); at += item_bytes(dtype)) {
      all.push_back(dtype == DType::float32 ? load_le<float>(&data[at]) : load_le<double>(&data[at]));
    }
    return all;
  }
};

DoubleRecorder seen(const MoleculeSource& source, int64_t index) {
  DoubleRecorder recorder;
  source.visit(index, {}, recorder);
  return recorder;
}

using Matrix = std::array<std::array<double, 3>, 3>;

// The matrix that turns the columns of `from` to those of `to`, both three vectors as rows.
Matrix between(const std::vector<double>& from, const std::vector<double>& to) {
  const auto minor = [&](size_t i, size_t j) {
    const size_t a = (i + 1) % 3, b = (i + 2) % 3, c = (j + 1) % 3, d = (j + 2) % 3;
    return from[3 * a + c] * from[3 * b + d] - from[3 * a + d] * from[3 * b + c];
  };
  const double volume = from[0] * minor(0, 0) + from[1] * minor(0, 1) + from[2] * minor(0, 2);
  Matrix made{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      for (size_t k = 0; k < 3; ++k) made[i][j] += to[3 * k + i] * minor(k, j) / volume;
    }
  }
  return made;
}

double determinant(const Matrix& m) {
  return m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
         m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
}

std::vector<double> turned(const Matrix& matrix, const std::vector<double>& values, Turning turning) {
  std::vector<double> made(values.size());
  for (size_t row = 0; turning == Turning::vector && row < values.size() / 3; ++row) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) made[3 * row + i] += matrix[i][j] * values[3 * row + j];
    }
  }
  for (size_t i = 0; turning == Turning::tensor && i < 9; ++i) {
    for (size_t k = 0; k < 9; ++k) made[i] += matrix[i / 3][k / 3] * values[k] * matrix[i % 3][k % 3];
  }
  return turning == Turning::scalar ? values : made;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << what;
}

const Augmentation kTurn{.rotation = Rotation::all,
                         .vectors = {{Scope::molecule_property, "field"}, {Scope::atom_property, "magmom"}},
                         .tensors = {{Scope::molecule_property, "alpha"}},
                         .seed = 3};

TEST(AugmentedSource, EveryFieldTurnsAsTheTableSays) {
  const auto plain = molecules(12);
  const AugmentedSource source(plain, kTurn);
  int n_proper = 0;
  for (int64_t i = 0; i < plain->size(); ++i) {
    const DoubleRecorder before = seen(*plain, i), after = seen(source, i);
    const Matrix rotation = between(before.positions, after.positions);
    EXPECT_NEAR(std::abs(determinant(rotation)), 1, 1e-9);
    n_proper += determinant(rotation) > 0;
    expect_near(after.positions, turned(rotation, before.positions, Turning::vector), "positions");
    for (const auto& [name, values] : before.fields) {
      const BuiltinField* const known = name.first == Scope::builtin ? find_builtin(name.second) : nullptr;
      const bool is_vector = name.second == "field" || name.second == "magmom";
      const Turning own = is_vector ? Turning::vector : name.second == "alpha" ? Turning::tensor : Turning::scalar;
      const Turning turning = known == nullptr ? own : known->rotation;
      expect_near(after.fields.at(name), turned(rotation, values, turning), name.second);
    }
  }
  EXPECT_GT(n_proper, 0);
  EXPECT_LT(n_proper, 12);
}

TEST(AugmentedSource, NothingMovesWithoutOptions) {
  const auto plain = molecules(2);
  const DoubleRecorder before = seen(*plain, 1),
                       after = seen(AugmentedSource(plain, {.vectors = {}, .tensors = {}, .seed = 1}), 1);
  EXPECT_EQ(after.positions, before.positions);
  EXPECT_EQ(after.fields, before.fields);
}

TEST(AugmentedSource, StrainMovesPositionsAndCell) {
  const auto plain = molecules(3);
  const AugmentedSource source(plain, {.strain = 0.1, .vectors = {}, .tensors = {}, .seed = 1});
  for (int64_t i = 0; i < plain->size(); ++i) {
    const DoubleRecorder before = seen(*plain, i), after = seen(source, i);
    const Matrix deformation = between(before.positions, after.positions);
    for (size_t row = 0; row < 3; ++row) {
      for (size_t column = 0; column < 3; ++column) {
        EXPECT_NEAR(deformation[row][column], deformation[column][row], 1e-9);
        EXPECT_LT(std::abs(deformation[row][column] - (row == column)), 0.1 + 1e-9);
      }
    }
    for (const auto& [name, values] : before.fields) {
      const Turning turning = name.second == "cell" ? Turning::vector : Turning::scalar;
      expect_near(after.fields.at(name), turned(deformation, values, turning), name.second);
    }
  }
}

TEST(AugmentedSource, NoiseIsKeptAsTheLastField) {
  const auto plain = molecules(2);
  const AugmentedSource source(plain, {.noise = 0.2, .keeps_noise = true, .vectors = {}, .tensors = {}, .seed = 1});
  const auto& fields = source.schemas().front().fields;
  EXPECT_EQ(fields.back().key, "noise");
  EXPECT_EQ(fields.size(), plain->schemas().front().fields.size() + 1);
  const DoubleRecorder before = seen(*plain, 0), after = seen(source, 0);
  EXPECT_EQ(after.declarations.at("noise"), std::ssize(fields) - 1);
  const std::vector<double>& noise = after.fields.at({Scope::atom_property, "noise"});
  ASSERT_EQ(noise.size(), 3 * kAtoms);
  for (size_t i = 0; i < noise.size(); ++i) EXPECT_EQ(after.positions[i], before.positions[i] + noise[i]);
  EXPECT_THROW(
      AugmentedSource(std::make_shared<AugmentedSource>(source), {.keeps_noise = true, .vectors = {}, .tensors = {}}),
      FieldError);
}

TEST(AugmentedSource, DrawsDependOnSeedEpochAndNumber) {
  const auto plain = molecules(2);
  const auto moved = [&](uint64_t seed, uint64_t epoch, int64_t index) {
    return seen(AugmentedSource(
                    plain,
                    {.noise = 1, .keeps_noise = true, .vectors = {}, .tensors = {}, .seed = seed, .epoch = epoch}),
                index)
        .fields.at({Scope::atom_property, "noise"});
  };
  EXPECT_EQ(moved(1, 2, 0), moved(1, 2, 0));
  EXPECT_NE(moved(1, 2, 0), moved(1, 2, 1));
  EXPECT_NE(moved(1, 2, 0), moved(1, 3, 0));
  EXPECT_NE(moved(1, 2, 0), moved(2, 2, 0));
  EXPECT_NE(moved(1, 2, 0), moved(2, 1, 0));
}

TEST(AugmentedSource, RefusesWhatCannotTurn) {
  const auto plain = molecules(1);
  Augmentation options = kTurn;
  options.tensors.emplace_back(Scope::molecule_property, "other");
  const AugmentedSource source(plain, options);
  const std::string message = test::message_of<FieldError>([&] { seen(source, 0); });
  EXPECT_NE(message.find("expected float32 or float64 of shape (3, 3), got float64 of shape (3,)"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace atompack
