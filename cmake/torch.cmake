# The torch of the running Python, and what bindings need.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)

execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import pathlib, torch; print(pathlib.Path(torch.__file__).parent, torch.utils.cmake_prefix_path, torch.__version__, sep=';')"
  OUTPUT_VARIABLE TORCH_FACTS OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
list(GET TORCH_FACTS 0 TORCH_FOLDER)
list(GET TORCH_FACTS 1 TORCH_PREFIX)
list(GET TORCH_FACTS 2 TORCH_VERSION)
if(EXISTS ${TORCH_FOLDER}/include/torch/library.h AND EXISTS ${TORCH_FOLDER}/lib/libtorch_cpu.so)
  # Not by find_package(Torch): that of a torch with CUDA stops where there is no CUDA toolkit, which nothing here needs.
  set(TORCH_INCLUDE_DIRS ${TORCH_FOLDER}/include ${TORCH_FOLDER}/include/torch/csrc/api/include)
  set(TORCH_LIBRARIES ${TORCH_FOLDER}/lib/libtorch.so ${TORCH_FOLDER}/lib/libtorch_cpu.so ${TORCH_FOLDER}/lib/libc10.so)
else()
  find_package(Torch REQUIRED PATHS ${TORCH_PREFIX} NO_DEFAULT_PATH)
  get_target_property(TORCH_INCLUDES torch INTERFACE_INCLUDE_DIRECTORIES)
  list(APPEND TORCH_INCLUDE_DIRS ${TORCH_INCLUDES})
endif()
find_library(TORCH_PYTHON torch_python PATHS ${TORCH_FOLDER}/lib ${TORCH_PREFIX}/../../lib NO_DEFAULT_PATH REQUIRED)
find_package(OpenMP REQUIRED)  # without it at::parallel_for is a serial loop, silently
