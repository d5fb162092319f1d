# What keeps a first build short: most of its time goes into parsing headers and into compiling the inline code of
# pybind11, again for each source. Sources include what they use and compile one by one too, without this option.
option(ATOMPACK_UNITY "compile several sources as one" ON)

# atompack_unite(target n): up to n sources of a folder and those below it as one, each format and each document type
# being a folder of its own. Names in unnamed namespaces are unique in such a folder for it.
function(atompack_unite target n)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    string(REGEX REPLACE "^.*/(csrc|tests/cpp)/" "" folder "${source}")
    string(REGEX MATCH "^((formats|serial)/)?[^/]+" folder "${folder}")
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND ${folder}_sources ${source})
    list(LENGTH ${folder}_sources count)
    math(EXPR group "(${count} - 1) / ${n}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${folder}_${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ATOMPACK_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

# atompack_unite_these(target source...): these as one, in a target where nothing else is united.
function(atompack_unite_these target)
  list(JOIN ARGN "+" name)
  string(MAKE_C_IDENTIFIER "${name}" name)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ATOMPACK_UNITY} UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} PROPERTIES UNITY_GROUP "${name}")
endfunction()
