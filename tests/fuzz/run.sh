#!/bin/sh
# Builds the fuzz targets with clang and runs one after the other under ASan and UBSan.
#   tests/fuzz/run.sh [BUILD_FOLDER [SECONDS_EACH [TARGET...]]]
#   tests/fuzz/run.sh BUILD_FOLDER merge [TARGET...]
# New inputs are kept in BUILD_FOLDER/corpus, findings in BUILD_FOLDER/findings; any finding makes the status non-zero.
# `merge` adds to tests/fuzz/corpus those kept inputs that reach new code, up to a size that suits a repository.
# ATOMPACK_FIXTURES: the folder above atp/ (default: tests/fixtures). CXX: the compiler (default: clang++-19).
set -eu

source_folder=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-/tmp/atompack_fuzz}
seconds=${2:-60}
wanted=
if [ $# -gt 2 ]; then
  shift 2
  wanted=" $* "
fi
seeds=$source_folder/tests/fuzz/corpus
fixtures=${ATOMPACK_FIXTURES:-$source_folder/tests/fixtures}/atp

cmake -S "$source_folder" -B "$build" -DCMAKE_CXX_COMPILER="${CXX:-clang++-19}" -DATOMPACK_BUILD_EXTENSION=OFF \
  -DATOMPACK_BUILD_FUZZERS=ON -DATOMPACK_SANITIZE=address,undefined
cmake --build "$build" --parallel 2
mkdir -p "$build/findings"
seconds_each_input=5

# merge FOLDER...: puts found inputs into the target's corpus, the smallest first, up to `most_files` and `most_corpus_bytes`.
# Together they reach what the hand-made ones and those of the folders do not. Only found ones are named by their hash; those
# of earlier merges are chosen again.
most_files=64 most_corpus_bytes=16384 is_hash='^[0-9a-f]{40}$'
merge() {
  work=$(mktemp -d)
  mkdir "$work/known" "$work/found"
  find "$@" -type f | while IFS= read -r file; do
    case $(basename "$file" | grep -Ec "$is_hash") in
      0) cp "$file" "$work/known/hand-made-$(ls "$work/known" | wc -l)" ;;
      *) cp "$file" "$work/found" ;;
    esac
  done
  "$build/tests/fuzz/${target}_fuzz" -set_cover_merge=1 -max_len="$most_bytes" -malloc_limit_mb="$most_megabytes" \
    -rss_limit_mb=1024 -timeout="$seconds_each_input" -artifact_prefix="$build/findings/$target-" \
    "$work/known" "$work/found" "$build/corpus/$target"
  mkdir -p "$seeds/$target"
  find "$seeds/$target" -type f | grep -E "/${is_hash#^}" | xargs -r rm
  n_files=0 n_bytes=0
  for name in $(ls -Sr "$work/known" | grep -E "$is_hash"); do
    size=$(wc -c <"$work/known/$name")
    [ $((n_files + 1)) -le $most_files ] && [ $((n_bytes + size)) -le $most_corpus_bytes ] || break
    n_files=$((n_files + 1)) n_bytes=$((n_bytes + size))
    cp "$work/known/$name" "$seeds/$target"
  done
  rm -r "$work"
  rmdir "$seeds/$target" 2>/dev/null || true # nothing was found
  echo "$target: $n_files inputs, $n_bytes bytes"
}

# run TARGET MOST_INPUT_BYTES MOST_MEGABYTES_PER_ALLOCATION [FOLDER]: an input takes far less time than the time-out,
# and no more memory than its bytes can account for (zstd: 128 KiB for each block of four bytes). It begins with the
# target's own corpus and the folder, as far as they are there.
run() {
  case $wanted in '' | *" $1 "*) ;; *) return 0 ;; esac
  target=$1 most_bytes=$2 most_megabytes=$3 more=${4:-}
  set --
  for folder in "$seeds/$target" "$more"; do
    [ ! -d "$folder" ] || set -- "$@" "$folder"
  done
  mkdir -p "$build/corpus/$target"
  echo "== $target"
  if [ "$seconds" = merge ]; then
    merge "$@"
    return
  fi
  "$build/tests/fuzz/${target}_fuzz" -max_total_time="$seconds" -max_len="$most_bytes" -malloc_limit_mb="$most_megabytes" \
    -rss_limit_mb=1024 -timeout="$seconds_each_input" -print_final_stats=1 -artifact_prefix="$build/findings/$target-" \
    "$build/corpus/$target" "$@"
}

run atp_reader 16384 300 "$fixtures"
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
run cache_metadata 65536 64 "$source_folder/tests/fixtures/cache_forms"
run atlas_shard 8192 64
run atlas_shard_meta 1024 16
run array_format 4096 300
run array_writer 1024 64
run atlas_metadata 2048 64
run column_slice 4096 300 "$seeds/array_format"
run decompress_front 4096 16
run atlas_shard_writer 1024 64
run example_plan 4096 64
run lmdb_row 4096 64
run lmdb_rows 16384 64
run parsed_index 2048 64
if [ -x "$build/tests/fuzz/http_answer_fuzz" ]; then # with libcurl
  run http_address 1024 16
  run http_answer 4096 16
fi
