# Precompiled headers: parsing the standard library, torch and pybind11 anew in each source takes most of a build.
# Sources go on including what they use: without the option they compile just as well.
option(ATOMPACK_PRECOMPILE "precompile headers of the standard library, torch and pybind11" ON)

# atompack_precompile(target [header...]): the standard headers that many sources use, and those named.
function(atompack_precompile target)
  if(ATOMPACK_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <cerrno> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <optional> <span>
      <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector> ${ARGN})
  endif()
endfunction()
