# The fuzz targets as a plain program that replays files: part of the unit tests, any compiler.
set(FUZZ_FOLDER ${PROJECT_SOURCE_DIR}/tests/fuzz)
add_executable(atompack_fuzz_replay
  ${FUZZ_FOLDER}/replay.cpp
  ${FUZZ_FOLDER}/require.cpp
  ${FUZZ_FOLDER}/atlas_collection_fuzz.cpp
  ${FUZZ_FOLDER}/atlas_metadata_fuzz.cpp
  ${FUZZ_FOLDER}/atlas_shards_fuzz.cpp
  ${FUZZ_FOLDER}/array_format_fuzz.cpp
  ${FUZZ_FOLDER}/array_writer_fuzz.cpp
  ${FUZZ_FOLDER}/atp_reader_fuzz.cpp
  ${FUZZ_FOLDER}/atp_record_fuzz.cpp
  ${FUZZ_FOLDER}/codec_bound_fuzz.cpp
  ${FUZZ_FOLDER}/column_slice_fuzz.cpp
  ${FUZZ_FOLDER}/decompress_front_fuzz.cpp
  ${FUZZ_FOLDER}/example_plan_fuzz.cpp
  ${FUZZ_FOLDER}/extxyz_fuzz.cpp
  ${FUZZ_FOLDER}/lmdb_fuzz.cpp
  ${FUZZ_FOLDER}/neighbors_fuzz.cpp
  ${FUZZ_FOLDER}/torch_cache_fuzz.cpp
  ${FUZZ_FOLDER}/pickle_fuzz.cpp
  ${FUZZ_FOLDER}/shard_writer_fuzz.cpp
  ${FUZZ_FOLDER}/structure_fuzz.cpp
)
target_include_directories(atompack_fuzz_replay PRIVATE ${PROJECT_SOURCE_DIR}/tests/cpp)
target_compile_options(atompack_fuzz_replay PRIVATE -Wall -Wextra -O0)
target_link_libraries(atompack_fuzz_replay PRIVATE atompack_plan atompack_hdf5)
if(TARGET atompack_http)
  target_sources(atompack_fuzz_replay PRIVATE ${FUZZ_FOLDER}/http_fuzz.cpp)
  target_compile_definitions(atompack_fuzz_replay PRIVATE ATOMPACK_HAS_HTTP)
  target_link_libraries(atompack_fuzz_replay PRIVATE atompack_http atompack_core)
endif()
add_test(NAME fuzz_replay
  COMMAND atompack_fuzz_replay ${PROJECT_SOURCE_DIR}/tests/fixtures ${FUZZ_FOLDER}/corpus
          ${PROJECT_SOURCE_DIR}/tests/fixtures/pickle)
