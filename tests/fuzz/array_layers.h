// An array file out of an input. Layout: base length u16 (0: none), base, sidecar.
#pragma once

#include <vector>

#include "formats/array_file/layer/layers.h"

namespace atompack::fuzz {

inline array_file::Layers array_layers(Bytes input) {
  ByteCursor cursor(input);
  const auto base_bytes = cursor.read_le<uint16_t>("base length");
  std::vector<array_file::Layer> layers;
  if (base_bytes > 0)
    layers.emplace_back(std::make_shared<io::MemoryBytes>(cursor.take(base_bytes, "base"), "base.af"));
  layers.emplace_back(std::make_shared<io::MemoryBytes>(cursor.take(cursor.remaining(), "sidecar"), "base.1.af"));
  return array_file::Layers(std::move(layers));
}

}  // namespace atompack::fuzz
