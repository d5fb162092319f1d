# What keeps a build short: most of the time goes into parsing headers and into compiling the inline code of pybind11,
# again for each source. Sources include what they use and compile one by one too, without these options.
option(ATOMPACK_PRECOMPILE "precompile headers of the standard library, torch and pybind11" ON)
option(ATOMPACK_UNITY "compile several sources of a folder as one" ON)

# atompack_precompile(target [header...]): the standard headers that many sources use, and those named.
function(atompack_precompile target)
  if(ATOMPACK_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <array> <cerrno> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <optional> <span>
      <string> <string_view> <tuple> <unordered_map> <utility> <variant> <vector> ${ARGN})
  endif()
endfunction()

# atompack_unite(target n): up to n neighbors in the list of sources as one. Names in unnamed namespaces are unique in a
# folder for it.
function(atompack_unite target n)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ATOMPACK_UNITY} UNITY_BUILD_BATCH_SIZE ${n})
endfunction()

# atompack_unite_these(target source...): these as one, in a target where nothing else is united.
function(atompack_unite_these target)
  list(JOIN ARGN "+" name)
  string(MAKE_C_IDENTIFIER "${name}" name)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ATOMPACK_UNITY} UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP "${name}")
endfunction()
