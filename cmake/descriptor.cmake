# Neighbor lists, on vesin's C library: that of the Python package, next to which the extension finds it again.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(*u.find_spec('vesin').submodule_search_locations)"
  OUTPUT_VARIABLE VESIN_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE VESIN_MISSING ERROR_QUIET)
if(VESIN_MISSING)
  message(FATAL_ERROR "${Python_EXECUTABLE} has no vesin: `pip install vesin`, or name another by -DPython_EXECUTABLE=")
endif()
add_library(vesin SHARED IMPORTED)
set_target_properties(vesin PROPERTIES IMPORTED_LOCATION ${VESIN_ROOT}/lib/libvesin.so
  INTERFACE_INCLUDE_DIRECTORIES ${VESIN_ROOT}/include)

add_library(atompack_descriptor STATIC
  csrc/descriptor/boxes.cpp
  csrc/descriptor/chebyshev.cpp
  csrc/descriptor/chebyshev_block.cpp
  csrc/descriptor/contract.cpp
  csrc/descriptor/lattice.cpp
  csrc/descriptor/neighborhoods.cpp
  csrc/descriptor/neighbors.cpp
)
target_compile_options(atompack_descriptor PRIVATE -Wall -Wextra -Werror -fvisibility=hidden)
target_link_libraries(atompack_descriptor PUBLIC atompack_core vesin)
