#include "model/element.h"

#include <array>
#include <cstddef>

namespace atompack {
namespace {

constexpr std::array<std::string_view, kLastElement + 1> kSymbols = {
    "X",  "H",  "He", "Li", "Be", "B",  "C",  "N",  "O",  "F",  "Ne", "Na", "Mg", "Al", "Si", "P",  "S",
    "Cl", "Ar", "K",  "Ca", "Sc", "Ti", "V",  "Cr", "Mn", "Fe", "Co", "Ni", "Cu", "Zn", "Ga", "Ge", "As",
    "Se", "Br", "Kr", "Rb", "Sr", "Y",  "Zr", "Nb", "Mo", "Tc", "Ru", "Rh", "Pd", "Ag", "Cd", "In", "Sn",
    "Sb", "Te", "I",  "Xe", "Cs", "Ba", "La", "Ce", "Pr", "Nd", "Pm", "Sm", "Eu", "Gd", "Tb", "Dy", "Ho",
    "Er", "Tm", "Yb", "Lu", "Hf", "Ta", "W",  "Re", "Os", "Ir", "Pt", "Au", "Hg", "Tl", "Pb", "Bi", "Po",
    "At", "Rn", "Fr", "Ra", "Ac", "Th", "Pa", "U",  "Np", "Pu", "Am", "Cm", "Bk", "Cf", "Es", "Fm", "Md",
    "No", "Lr", "Rf", "Db", "Sg", "Bh", "Hs", "Mt", "Ds", "Rg", "Cn", "Nh", "Fl", "Mc", "Lv", "Ts", "Og"};

// 0 to 25 for letters of either case, otherwise larger.
constexpr size_t letter(char c) { return static_cast<size_t>(static_cast<unsigned char>(c) | 0x20) - 'a'; }

constexpr size_t place_of(std::string_view symbol) {
  return letter(symbol[0]) * 27 + (symbol.size() == 2 ? letter(symbol[1]) + 1 : 0);
}

constexpr uint8_t kNone = 255;

constexpr auto kNumbers = [] {
  std::array<uint8_t, size_t{26} * 27> numbers{};
  numbers.fill(kNone);
  for (size_t z = 0; z < kSymbols.size(); ++z) numbers[place_of(kSymbols[z])] = static_cast<uint8_t>(z);
  return numbers;
}();

bool is_letters(std::string_view symbol) {
  return letter(symbol[0]) < 26 && (symbol.size() == 1 || letter(symbol[1]) < 26);
}

}  // namespace

std::optional<uint8_t> atomic_number(std::string_view symbol) {
  if (symbol.empty() || symbol.size() > 2 || !is_letters(symbol)) return std::nullopt;
  const uint8_t number = kNumbers[place_of(symbol)];
  return number == kNone ? std::nullopt : std::optional(number);
}

std::string_view symbol_of(uint8_t number) { return kSymbols[number]; }

}  // namespace atompack
