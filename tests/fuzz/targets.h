// The fuzz targets: each takes any bytes and returns. A broken promise of the core ends the process.
#pragma once

#include <span>
#include <string_view>

#include "base/bytes.h"

namespace atompack::fuzz {

// A whole .atp file: opened, every molecule read.
void read_file(Bytes input);

// A schema blob and one record of it. Layout: flags u8 (bit 0: format 3), schema length u16, schema, record.
void read_record(Bytes input);

// A stored unit: what it decompresses to stays below the bound found without decompressing it.
void bound_zstd(Bytes input);
void bound_lz4(Bytes input);

// A whole extended XYZ file: read in blocks of any size, written, and read again.
void read_extxyz(Bytes input);

// A pickle: what is read of it can be looked at, written, and read again.
void read_pickle(Bytes input);

// A pickled structure of the torch cache.
void read_structure(Bytes input);

struct Target {
  std::string_view name;
  void (*run)(Bytes input);
};

inline constexpr Target kTargets[] = {
    {"atp_reader", &read_file}, {"atp_record", &read_record}, {"zstd_bound", &bound_zstd},    {"lz4_bound", &bound_lz4},
    {"extxyz", &read_extxyz},   {"pickle", &read_pickle},     {"structure", &read_structure},
};

// Not assert(): it must hold in every kind of build.
void require(bool promise, std::string_view what);

}  // namespace atompack::fuzz
