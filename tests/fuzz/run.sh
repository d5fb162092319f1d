#!/bin/sh
# Builds the fuzz targets with clang and runs one after the other under ASan and UBSan.
#   tests/fuzz/run.sh [BUILD_FOLDER [SECONDS_EACH]]
# New inputs are kept in BUILD_FOLDER/corpus, findings in BUILD_FOLDER/findings; any finding makes the status non-zero.
# ATOMPACK_FIXTURES: the folder above atp/ (default: ../shared/fixtures). CXX: the compiler (default: clang++-19).
set -eu

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-/tmp/atompack_fuzz}
seconds=${2:-60}
seeds=$source_folder/tests/fuzz/corpus
fixtures=${ATOMPACK_FIXTURES:-$source_folder/../shared/fixtures}/atp

cmake -S "$source_folder" -B "$build" -DCMAKE_CXX_COMPILER="${CXX:-clang++-19}" -DATOMPACK_BUILD_EXTENSION=OFF \
  -DATOMPACK_BUILD_FUZZERS=ON -DATOMPACK_SANITIZE=address,undefined
cmake --build "$build" --parallel 2
mkdir -p "$build/findings"
seconds_each_input=5

# run TARGET MOST_INPUT_BYTES MOST_MEGABYTES_PER_ALLOCATION [FOLDER]: an input takes far less time than the time-out,
# and no more memory than its bytes can account for (zstd: 128 KiB for each block of four bytes).
run() {
  mkdir -p "$build/corpus/$1"
  echo "== $1"
  "$build/tests/fuzz/$1_fuzz" -max_total_time="$seconds" -max_len="$2" -malloc_limit_mb="$3" -rss_limit_mb=1024 \
    -timeout="$seconds_each_input" -print_final_stats=1 -artifact_prefix="$build/findings/$1-" "$build/corpus/$1" "$seeds/$1" ${4:+"$4"}
}

run atp_reader 16384 300 "$([ -d "$fixtures" ] && echo "$fixtures")"
run atp_record 4096 16
run zstd_bound 4096 16
run lz4_bound 4096 16
run extxyz 4096 64
seconds_each_input=2
run neighbors 2048 128
run vlen_rows 16384 16
run hdf5_chunk 4096 32
run pickle 4096 64 "$source_folder/tests/fixtures/pickle"
run structure 4096 300 "$source_folder/tests/fixtures/pickle/structures"
run object_header 4096 16
run atlas_shard 8192 64
run atlas_shard_meta 1024 16
run array_format 4096 300
run array_writer 1024 64
run atlas_metadata 2048 64
run column_slice 4096 300 "$seeds/array_format"
run decompress_front 4096 16
run atlas_shard_writer 1024 64
run example_plan 4096 64
