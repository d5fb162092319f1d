# Feature caches, on libhdf5: the one part of the core that needs it.
# Debian's name for the serial build, and everyone else's.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial hdf5)

add_library(atompack_hdf5 STATIC
  csrc/torch_cache/builder.cpp
  csrc/torch_cache/chunk.cpp
  csrc/torch_cache/collection.cpp
  csrc/torch_cache/contents.cpp
  csrc/torch_cache/encoder.cpp
  csrc/torch_cache/entry_record.cpp
  csrc/torch_cache/h5_attributes.cpp
  csrc/torch_cache/h5_dataset.cpp
  csrc/torch_cache/h5_file.cpp
  csrc/torch_cache/h5_handle.cpp
  csrc/torch_cache/h5_writing.cpp
  csrc/torch_cache/heap.cpp
  csrc/torch_cache/index.cpp
  csrc/torch_cache/journal.cpp
  csrc/torch_cache/object_header.cpp
  csrc/torch_cache/reader.cpp
  csrc/torch_cache/schema.cpp
  csrc/torch_cache/source.cpp
  csrc/torch_cache/tables.cpp
  csrc/torch_cache/vlen_column.cpp
)
target_compile_options(atompack_hdf5 PRIVATE -Wall -Wextra -Werror -fvisibility=hidden)
# Later versions keep the functions of 1.10 under this name.
target_compile_definitions(atompack_hdf5 PRIVATE H5_USE_110_API)
target_link_libraries(atompack_hdf5 PUBLIC atompack_core PRIVATE PkgConfig::HDF5)
atompack_unite(atompack_hdf5 14)
