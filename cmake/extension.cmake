# The extension module _C: collate and bindings on top of the core, against the torch of the running Python.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)

execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import torch; print(torch.utils.cmake_prefix_path, torch.__version__, sep=';')"
  OUTPUT_VARIABLE TORCH_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET TORCH_FACTS 0 TORCH_PREFIX)
list(GET TORCH_FACTS 1 TORCH_VERSION)
find_package(Torch REQUIRED PATHS ${TORCH_PREFIX} NO_DEFAULT_PATH)
find_library(TORCH_PYTHON torch_python PATHS ${TORCH_PREFIX}/../../lib NO_DEFAULT_PATH REQUIRED)
find_package(OpenMP REQUIRED)  # without it at::parallel_for is a serial loop, silently

# Batches of tensors. Torch's headers do not pass our warnings, so they are system headers.
get_target_property(TORCH_INCLUDES torch INTERFACE_INCLUDE_DIRECTORIES)
add_library(atompack_collate STATIC
  csrc/collate/arena.cpp
  csrc/collate/collator.cpp
  csrc/collate/columns.cpp
  csrc/collate/contraction.cpp
  csrc/collate/copy.cpp
  csrc/collate/edges.cpp
  csrc/collate/example_fill.cpp
  csrc/collate/example_plan.cpp
  csrc/collate/examples.cpp
  csrc/collate/expect.cpp
  csrc/collate/features.cpp
  csrc/collate/fill.cpp
  csrc/collate/molecule_plan.cpp
  csrc/collate/normal_equations.cpp
  csrc/collate/parallel.cpp
  csrc/collate/plan.cpp
  csrc/collate/request.cpp
  csrc/collate/resolve.cpp
  csrc/collate/ring_arena.cpp
  csrc/collate/statistics.cpp
  csrc/collate/survey.cpp
  csrc/collate/sweep.cpp
  csrc/collate/verify.cpp
  csrc/collate/wrap.cpp
)
target_compile_options(atompack_collate PRIVATE -Wall -Wextra -Werror -fvisibility=hidden)
target_include_directories(atompack_collate SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS} ${TORCH_INCLUDES})
target_link_libraries(atompack_collate PUBLIC atompack_descriptor atompack_core ${TORCH_LIBRARIES} OpenMP::OpenMP_CXX)
atompack_unite(atompack_collate 12)

pybind11_add_module(_C MODULE NO_EXTRAS
  csrc/bindings/atp.cpp
  csrc/bindings/atlas_metadata.cpp
  csrc/bindings/atlas_store.cpp
  csrc/bindings/atlas_values.cpp
  csrc/bindings/atlas_writer.cpp
  csrc/bindings/atp_writer.cpp
  csrc/bindings/cache_builder.cpp
  csrc/bindings/collate.cpp
  csrc/bindings/descriptor.cpp
  csrc/bindings/dtypes.cpp
  csrc/bindings/element_types.cpp
  csrc/bindings/example_reader.cpp
  csrc/bindings/example_writer.cpp
  csrc/bindings/errors.cpp
  csrc/bindings/extxyz.cpp
  csrc/bindings/indices.cpp
  csrc/bindings/inspect.cpp
  csrc/bindings/module.cpp
  csrc/bindings/shard_writer.cpp
  csrc/bindings/shards.cpp
  csrc/bindings/tensors.cpp
  csrc/bindings/torch_cache.cpp
)
# Bindings convert arguments and make one call: optimizing them further takes a quarter of their time to compile.
target_compile_options(_C PRIVATE -Wall -Wextra -Werror -O1)
target_link_libraries(_C PRIVATE atompack_collate atompack_hdf5 ${TORCH_PYTHON})
# Four of about equal length. Sources with tensor_caster.h cannot stand beside tensors.cpp, whose headers of torch bring
# another.
atompack_unite_these(_C csrc/bindings/tensors.cpp csrc/bindings/errors.cpp csrc/bindings/extxyz.cpp
  csrc/bindings/atp_writer.cpp)
atompack_unite_these(_C csrc/bindings/collate.cpp csrc/bindings/indices.cpp csrc/bindings/module.cpp
  csrc/bindings/atp.cpp csrc/bindings/inspect.cpp csrc/bindings/descriptor.cpp)
atompack_unite_these(_C csrc/bindings/atlas_metadata.cpp csrc/bindings/atlas_values.cpp csrc/bindings/atlas_store.cpp
  csrc/bindings/dtypes.cpp csrc/bindings/cache_builder.cpp csrc/bindings/torch_cache.cpp)
atompack_unite_these(_C csrc/bindings/atlas_writer.cpp csrc/bindings/element_types.cpp csrc/bindings/example_writer.cpp
  csrc/bindings/shard_writer.cpp csrc/bindings/shards.cpp csrc/bindings/example_reader.cpp)
# Found next to the installed module, wherever that is; nothing of the building machine stays in it.
set_target_properties(_C PROPERTIES INSTALL_RPATH "$ORIGIN/../torch/lib" BUILD_WITH_INSTALL_RPATH ON
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/_build_info.py
  "\"\"\"Written by the build.\"\"\"\n\nTORCH_VERSION = \"${TORCH_VERSION}\"\n")
install(TARGETS _C DESTINATION atompack_torch)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/_build_info.py DESTINATION atompack_torch)
