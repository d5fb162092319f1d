# What is computed of atoms: no torch, no Python.
add_library(atompack_descriptor STATIC
  csrc/descriptor/boxes.cpp
  csrc/descriptor/chebyshev.cpp
  csrc/descriptor/chebyshev_block.cpp
  csrc/descriptor/contract.cpp
  csrc/descriptor/images.cpp
  csrc/descriptor/lattice.cpp
  csrc/descriptor/neighborhoods.cpp
  csrc/descriptor/neighbors.cpp
)
target_compile_options(atompack_descriptor PRIVATE -Wall -Wextra -Werror -fvisibility=hidden)
# Fused multiplications would round otherwise than other searches do, and differ from them on pairs at the cutoff.
target_compile_options(atompack_descriptor PRIVATE -ffp-contract=off)
target_link_libraries(atompack_descriptor PUBLIC atompack_core)
atompack_unite(atompack_descriptor 14)
