// The fuzz targets: each takes any bytes and returns. A broken promise of the core aborts the process.
#pragma once

#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/error.h"

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

// A structure and its neighbors, compared with those of a slow search where that is short. Layout: flags u8 (bits 0-2
// pbc, 3 full, 4 vectors, 5 self_interaction, 6 numbers of 8 bytes instead of 2), cutoff, cell, positions.
void find_neighbors(Bytes input);

// References to rows of variable length, and the file in whose heap they lie. Layout: type u8, base u8, number of
// references u8, references, file.
void read_vlen_rows(Bytes input);

// A chunk of a dataset. Layout: rows u16 (big-endian), element bytes u8, filters u8, wanted rows u8 u8, first byte u8,
// filter mask u8, the chunk.
void unpack_stored_chunk(Bytes input);

// A pickle: what is read of it can be looked at, written, and read again.
void read_pickle(Bytes input);

// A pickled structure of the torch cache.
void read_structure(Bytes input);

// A feature cache: all that is read of it on opening. Checksums count as right, where they are not the subject.
void read_cache_metadata(Bytes input);

// A shard of Atlas. Layout: flags u8 (bit 0: bare blocks, 1: a dictionary), blocks u8, index length u8, index.npy,
// dictionary length u16, dictionary, data.bin.
void read_shard(Bytes input);

// Both kinds of meta.json of Atlas shards.
void read_shard_meta(Bytes input);

// A dataset of shards, written and read back. Each byte is a choice.
void write_shards(Bytes input);

// The plan of a batch of examples. Layout: flags u8 (bit 0: jagged, 1: learns levels), a pickled list.
void plan_batch(Bytes input);

// An array file of one or two layers. Layout: base length u16 (0: none), base, sidecar.
void read_array_file(Bytes input);

// Changes of an array file, compared with arrays in memory. Each byte is a choice.
void write_array_file(Bytes input);

// The metadata of an ATLAS store, as JSON and as MessagePack.
void read_atlas_metadata(Bytes input);

// A container of a collection: all that is in it.
void read_collection_file(Bytes input);

// The same as read_array_file takes: all arrays as one column, compared with each array alone.
void read_columns(Bytes input);

// The first bytes of a stored unit, compared with all of it. Layout: codec u8, size of the front u16, the unit.
void decompress_front(Bytes input);

// A row of an ASE database, as JSON: what is read of it becomes a record.
void read_row(Bytes input);

// An ASE database in LMDB: all rows are found and read.
void read_row_list(Bytes input);

// The index of a file that is parsed when it is read.
void read_index(Bytes input);

#ifdef ATOMPACK_HAS_HTTP
// A URL, and where a redirect leads to from it. Layout: the URL, whose second half is the redirect too.
void read_address(Bytes input);

// An answer to a request for a range. Layout: request (choices.h), lines of the head with their lengths, pieces of the
// body with theirs.
void read_answer(Bytes input);
#endif

struct Target {
  std::string_view name;
  void (*run)(Bytes input);
};

inline constexpr Target kTargets[] = {
    {"atp_reader", &read_file},
    {"atp_record", &read_record},
    {"zstd_bound", &bound_zstd},
    {"lz4_bound", &bound_lz4},
    {"extxyz", &read_extxyz},
    {"neighbors", &find_neighbors},
    {"vlen_rows", &read_vlen_rows},
    {"hdf5_chunk", &unpack_stored_chunk},
    {"pickle", &read_pickle},
    {"structure", &read_structure},
    {"cache_metadata", &read_cache_metadata},
    {"atlas_shard", &read_shard},
    {"atlas_shard_meta", &read_shard_meta},
    {"array_format", &read_array_file},
    {"array_writer", &write_array_file},
    {"atlas_metadata", &read_atlas_metadata},
    {"column_slice", &read_columns},
    {"decompress_front", &decompress_front},
    {"atlas_shard_writer", &write_shards},
    {"example_plan", &plan_batch},
    {"lmdb_row", &read_row},
    {"lmdb_rows", &read_row_list},
    {"parsed_index", &read_index},
    {"atlas_collection", &read_collection_file},
#ifdef ATOMPACK_HAS_HTTP
    {"http_address", &read_address},
    {"http_answer", &read_answer},
#endif
};

// The input may end in a named error.
template <typename Action>
void allowing_damage(const Action& action) {
  try {
    action();
  } catch (const CorruptFileError&) {
  } catch (const UnsupportedFormatError&) {
  } catch (const UnsafePickleError&) {
  }
}

// Not assert(): it must hold in every kind of build.
void require(bool promise, std::string_view what);

}  // namespace atompack::fuzz
