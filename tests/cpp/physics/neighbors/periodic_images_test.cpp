#include "physics/neighbors/periodic_images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "message_of.h"
#include "physics/neighbors/periodicity.h"

namespace atompack::physics {
namespace {

Lattice box(double x, double y, double z, const std::array<bool, 3>& periodic) {
  return Lattice({{{x, 0, 0}, {0, y, 0}, {0, 0, z}}}, periodic);
}

Images gathered(std::span<const double> positions, const Lattice& lattice, double cutoff) {
  Images images;
  images.gather(positions, lattice, cutoff);
  return images;
}

size_t n_candidates(const Images& images, size_t atom) {
  size_t n = 0;
  images.visit_near(atom, [&](const Range& range) { n += range.size(); });
  return n;
}

TEST(Images, AreThoseThatCanBeNear) {
  const std::vector<double> one{1, 1, 1};
  EXPECT_EQ(gathered(one, Lattice({}, {}), 3).size(), 1U);
  EXPECT_EQ(gathered(one, box(2, 2, 2, {true, false, false}), 3).size(), 3U);
  EXPECT_EQ(gathered(one, box(2, 2, 2, kAll), 3).size(), 27U);
  EXPECT_EQ(gathered(one, box(2, 2, 2, kAll), 4.5).size(), 125U);
  const std::vector<double> two{0.1, 0.1, 0.1, 5, 5, 5};
  EXPECT_EQ(gathered(two, box(10, 10, 10, kAll), 3).size(), 2U);
  EXPECT_EQ(gathered(two, box(6, 20, 20, kAll), 3).size(), 4U);  // one of each atom, on the other one's side
}

TEST(Images, OfAtomsOutsideTheCellAreCountedFromWhereTheyAre) {
  const Images images = gathered(std::vector<double>{-0.5, 8.5, 0.5}, box(2, 4, 1, kAll), 0.4);
  ASSERT_EQ(images.size(), 1U);
  EXPECT_EQ(images.cells(0), (Vector3{1, -2, 0}));
  EXPECT_EQ(images.image(0).cells, (std::array<float, 3>{1, -2, 0}));
  EXPECT_EQ(images.image(0).atom, 0U);
  EXPECT_EQ(images.place(0), 0U);
}

// What is compared roughly must not lose what is near, nor be sure of what is too far.
TEST(Images, TheLimitsCoverTheRounding) {
  const std::vector<double> positions{1e6, 1e6, 1e6, 1e6 + 0.6, 1e6 + 0.8, 1e6, 0, 0, 0};
  const Images images = gathered(positions, Lattice({}, {}), 1.0000001);
  const auto a = images.point(0), b = images.point(1);
  const float square = std::pow(b[0] - a[0], 2.0F) + std::pow(b[1] - a[1], 2.0F) + std::pow(b[2] - a[2], 2.0F);
  EXPECT_LE(square, images.square_limits().possible);
  EXPECT_GT(square, images.square_limits().sure);
  EXPECT_GT(images.square_limits().possible, 1);
  const auto [sure, possible] = gathered(std::vector<double>{0, 0, 0, 9, 9, 9}, Lattice({}, {}), 1).square_limits();
  EXPECT_TRUE(0.99998F < sure && sure < 1 && 1 < possible && possible < 1.00002F);
  const std::vector<double> far{1e8, 0, 0, 0, 0, 0};
  EXPECT_LT(gathered(far, Lattice({}, {}), 1).square_limits().sure, 0) << "floats are 8 apart there";
}

TEST(Images, TellWhichOfThemIsTheAtomItself) {
  std::mt19937 random;
  std::uniform_real_distribution<double> uniform(-9, 9);
  std::vector<double> positions(60);
  for (double& x : positions) x = uniform(random);
  const Images images = gathered(positions, box(3, 4, 5, kAll), 5);
  for (size_t atom = 0; atom < 20; ++atom) {
    const Image& image = images.image(images.place(atom));
    EXPECT_EQ(image.atom, atom);
    for (size_t d = 0; d < 3; ++d) EXPECT_EQ(image.cells[d], images.cells(atom)[d]);
  }
}

// Not many more than there are neighbors: else the search would be slow and refuse sound structures.
TEST(Images, CandidatesAreFew) {
  std::mt19937 random;
  std::uniform_real_distribution<double> uniform(0, 60);
  std::vector<double> positions(6000);
  for (double& x : positions) x = uniform(random);
  const Images images = gathered(positions, box(60, 60, 60, kAll), 5);
  double n = 0;
  for (size_t atom = 0; atom < 2000; ++atom) n += static_cast<double>(n_candidates(images, atom));
  const double density = 2000.0 / (60 * 60 * 60), sphere = 4.0 / 3 * 3.1416 * 125;
  EXPECT_GT(n / 2000, density * sphere);
  EXPECT_LT(n / 2000, 6 * density * sphere);
}

TEST(Images, AreRefusedWhereTheyHaveNoEnd) {
  const auto is_refused = [](std::span<const double> positions, const Lattice& lattice, std::string_view what) {
    return test::refuses<FieldError>(what, [&] { gathered(positions, lattice, 5); });
  };
  EXPECT_TRUE(is_refused(std::vector<double>{0, 0, 0}, box(1e-3, 1e-3, 1e-3, kAll),
                         "neighbors: expected at most 1.04864e+06 images for 1 atoms, got "));
  EXPECT_TRUE(is_refused(std::vector<double>(60000, 1.0), Lattice({}, {}),
                         "expected at most 1.64889e+08 candidate pairs for 20000 atoms, got 4e+08"));
  EXPECT_TRUE(is_refused(std::vector<double>(60000, 1.0), box(50, 50, 50, kAll), "for 20000 atoms"));
}

}  // namespace
}  // namespace atompack::physics
