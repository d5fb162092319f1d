# The core for programs in C++: `cmake --install BUILD --component development --prefix PREFIX`, then in the program's
# CMakeLists.txt `find_package(AtompackCore)`, which gives the target Atompack::core.
set_target_properties(atompack_core PROPERTIES EXPORT_NAME core)
install(TARGETS atompack_core EXPORT AtompackCore DESTINATION lib COMPONENT development)
foreach(folder IN ITEMS base codec formats io model serial threads)
  install(DIRECTORY ${folder} DESTINATION include/atompack COMPONENT development
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
endforeach()
install(EXPORT AtompackCore NAMESPACE Atompack:: FILE AtompackCoreTargets.cmake DESTINATION lib/cmake/AtompackCore
  COMPONENT development)
configure_file(${PROJECT_SOURCE_DIR}/cmake/AtompackCoreConfig.cmake.in
  ${PROJECT_BINARY_DIR}/AtompackCoreConfig.cmake @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/AtompackCoreConfig.cmake DESTINATION lib/cmake/AtompackCore COMPONENT development)
