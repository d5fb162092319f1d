# The torch of the running Python, and what bindings need.
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
