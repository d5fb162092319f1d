# Sets up everything in .venv and build, each thing once, and rebuilds what changed. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
TORCH ?= torch==2.13.0
FUZZ_SECONDS ?= 60
SOAK_SECONDS ?= 3600
TRAINERS ?= loops mace nequip fairchem
ifeq ($(TRAINERS),all)
override TRAINERS := $(patsubst tests/trainers/environments/%.txt,%,$(wildcard tests/trainers/environments/*.txt))
endif
TIDY ?= base|threads|io|codec
# By its name everywhere: what is compiled for one target serves the others then.
export CXX
PYTEST_ARGS ?=
# Newer compilers than those of CI warn of more, and users cannot mend that.
ifdef CI
export CMAKE_ARGS += -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
endif
BENCH_ARGS ?=
TORCH_LIBRARIES := $(addprefix --exclude ,libtorch.so libtorch_cpu.so libtorch_python.so libtorch_cuda.so libc10.so libgomp.so.1)

DEBIAN := g++ make pkg-config ccache libhdf5-dev libzstd-dev liblz4-dev zlib1g-dev libdeflate-dev libssl-dev nlohmann-json3-dev libcurl4-openssl-dev liburing-dev
DEBIAN_PYTHON := python3 python3-venv python3-dev

PY := .venv/bin/python
# Python compiles what is imported, and keeps it; pip would compile all of torch, twice the time of unpacking it.
PIP_INSTALL := $(PY) -m pip install --disable-pip-version-check --root-user-action ignore --no-compile
unexport PYTHONDONTWRITEBYTECODE
CMAKE := .venv/bin/cmake
NINJA := -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/.venv/bin/ninja"
DONE := .venv/done
PACKAGE := build/package
CXX_FILES := $(shell find csrc tests/cpp tests/fuzz benchmarks/cpp examples/cpp -name '*.h' -o -name '*.cpp')
# Folders of Python modules too: an editable installation knows the modules that there were when it was made.
BUILD_FILES := $(shell find csrc cmake -type f) CMakeLists.txt pyproject.toml \
  $(shell find atompack_torch -type d -not -name __pycache__)

# .venv and build work only where they were made (DONE/python holds the place): a moved or copied tree starts afresh.
MOVED := $(shell [ ! -e $(DONE)/python ] || [ "$$(cat $(DONE)/python)" = "$(CURDIR)" ] || echo moved)

# $(call quietly,what is being done,command): prints the first; the command's output only if it fails.
define quietly
@echo "$(1)"; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; { $(2); } >"$$log" 2>&1 || { cat "$$log" >&2; exit 1; }
endef

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## +' 'NF == 2 && /^[a-z0-9-]+:/ { printf "%-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(DONE)/extension  ## install what is missing and build the package into .venv

# Threads that wait spin for microseconds, then sleep. By default they spin for milliseconds, which makes training several
# times slower where something else wants the cores too; without spinning it is slower on idle cores. Freed memory is kept
# for the next step: getting it from the system again takes a fifth of the time.
TRAINING := GOMP_SPINCOUNT=1000 MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=1073741824
.PHONY: demo
demo: $(DONE)/extension $(DONE)/extra-demo build/demo/alloys.atp  ## train a potential on a dataset of alloys
	@$(TRAINING) $(PY) examples/02_train.py build/demo/alloys.atp --out build/demo

# The same data, in the environment of the tests with MACE; its imports warn of TorchScript.
.PHONY: demo-mace
demo-mace: .venv-trainers/mace/done $(DONE)/extra-demo build/demo/alloys.atp  ## train a MACE model on the same dataset
	@$(TRAINING) .venv-trainers/mace/bin/python -W ignore::UserWarning examples/07_train_mace.py build/demo/alloys.atp --out build/demo

.PHONY: demo-cache
demo-cache: $(DONE)/extension $(DONE)/extra-demo build/demo/alloys.atp  ## train a descriptor potential from a feature cache
	@$(TRAINING) $(PY) examples/04_descriptor_potential.py build/demo/alloys.atp --out build/demo

.PHONY: demo-atlas
demo-atlas: $(DONE)/extension $(DONE)/extra-demo  ## train on ocean profiles from an ATLAS store
	@$(TRAINING) $(PY) examples/05_atlas_store.py --out build/demo

.PHONY: demo-shards
demo-shards: $(DONE)/extension $(DONE)/extra-demo  ## train an image classifier from Atlas shards
	@$(TRAINING) $(PY) examples/06_atlas_shards.py --out build/demo

build/demo/alloys.atp: examples/alloys.py | $(DONE)/extra-demo
	@$(PY) examples/alloys.py $@

.PHONY: test
test: $(DONE)/extension  ## run the unit, damage and docs tests, C++ and Python
	@$(MAKE) -s -j2 cpp-test $(DONE)/extra-test  # pip uses one core, the compiler the others
	@$(PY) -m pytest -q -n auto --maxprocesses 8 --dist worksteal $(PYTEST_ARGS)

# Without what starts processes or runs for seconds (`slow`), and without the folders that write files in other formats.
.PHONY: check
check: $(DONE)/extension  ## run the C++ tests and the quick ones of Python, in a few minutes
	@$(MAKE) -s -j2 cpp-test $(DONE)/extra-test
	@$(PY) -m pytest -q -n auto --maxprocesses 8 --dist worksteal -m 'not slow and not exhaustive' $(PYTEST_ARGS) \
	  tests/batch tests/datasets tests/display tests/fixtures tests/formats tests/ops

# Each in an environment of its own, because they exclude each other; torch and what the tests need are those of .venv.
.PHONY: test-trainers
test-trainers: $(foreach name,$(TRAINERS),.venv-trainers/$(name)/done)  ## train with other packages on these batches; TRAINERS=all
	@failed=; for name in $(TRAINERS); do \
	  echo "Testing $$name"; \
	  ".venv-trainers/$$name/bin/python" -m pytest -q -o norecursedirs=.* $(PYTEST_ARGS) "tests/trainers/$$name" tests/trainers/test_*.py || failed+=" $$name"; \
	done; if [[ -n $$failed ]]; then echo "failed:$$failed" >&2; exit 1; fi

.PHONY: test-services
test-services: $(DONE)/extension $(DONE)/extra-test $(DONE)/extra-services $(DONE)/extra-docs $(DONE)/atlas-0.17  ## read and write through servers on this machine, interrupt writers, look at pages in a browser
	@.ci/setup chromium chromium-driver fonts-dejavu-core zsh fish iproute2
	@$(PY) -m pytest -q -n auto --maxprocesses 8 --dist worksteal -o norecursedirs=.* $(PYTEST_ARGS) tests/services tests/remote

# On CUDA where there is a device; else on the CPU as far as that goes, and the rest is skipped with the reason.
.PHONY: test-gpu
test-gpu: $(DONE)/extension $(DONE)/extra-test  ## test pinned memory, streams, operators, CUDA graphs and one rank on a device
	@$(PY) -m pytest -q -c tests/gpu/pytest.ini --confcutdir=tests/gpu $(PYTEST_ARGS) tests/gpu

.PHONY: bench-gpu
bench-gpu: $(DONE)/extension  ## measure copies, stalls, resident batches and contraction on a device
	@$(PY) benchmarks/gpu.py $(BENCH_ARGS)

# In the package's build folder, whose core they test.
.PHONY: cpp-test
cpp-test: $(DONE)/extension  ## run the tests of the C++ core
	@.ci/setup libgtest-dev
	$(call quietly,Building the C++ tests,\
	  $(CMAKE) -S . -B $(PACKAGE) -DATOMPACK_BUILD_TESTS=ON && $(CMAKE) --build $(PACKAGE) --target atompack_tests)
	$(call quietly,Running the C++ tests,.venv/bin/ctest --test-dir $(PACKAGE) --output-on-failure -j$$(nproc) | tee $(PACKAGE)/ctest.log)
	@grep 'tests passed' $(PACKAGE)/ctest.log

.PHONY: lint
lint: $(DONE)/extension $(DONE)/extra-ase $(DONE)/extra-lint  ## check the format, types and docstrings of all sources
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy --strict atompack_torch
	@$(PY) -m pydoclint.main atompack_torch
	@$(PY) tests/lint/language.py
	@$(PY) tests/lint/layering.py
	@$(PY) tests/lint/stubs.py
	@.venv/bin/clang-format --dry-run --Werror $(CXX_FILES)

# Without unity builds, so that each source is looked at by itself.
.PHONY: tidy
tidy: $(DONE)/build-tools $(DONE)/extra-lint  ## look for bugs and slow code in the C++ core, TIDY=FOLDERS
	$(call quietly,Configuring build/tidy,\
	  $(CMAKE) -S . -B build/tidy $(NINJA) -DATOMPACK_UNITY=OFF -DATOMPACK_BUILD_EXTENSION=OFF \
	    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DPython_EXECUTABLE="$(CURDIR)/$(PY)")
	@$(PY) .venv/bin/run-clang-tidy.py -clang-tidy-binary .venv/bin/clang-tidy -p build/tidy -quiet \
	  -warnings-as-errors '*' 'csrc/($(TIDY))'

.PHONY: bench
bench: $(DONE)/extension $(DONE)/extra-bench  ## measure everything next to other ways, in one table; BENCH_ARGS=--quick
	@$(PY) benchmarks/run_all.py build/bench/results.jsonl $(BENCH_ARGS)
	@$(PY) benchmarks/table.py build/bench/results.jsonl --out build/bench

.PHONY: docs
docs: $(DONE)/torch $(DONE)/extra-docs  ## build the documentation with the reference of all public names into build/docs
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet --strict

# The libraries it links to are put inside; torch's own are found next to it.
.PHONY: wheel
wheel: $(DONE)/torch $(DONE)/build-tools $(DONE)/extra-wheel  ## build a wheel with all it needs but torch into dist, and try it
	@rm -rf build/wheel dist/*.whl && mkdir -p build/wheel
	$(call quietly,Building the wheel,\
	  $(PY) -m pip wheel . --no-build-isolation --config-settings build-dir=$(PACKAGE) --no-deps -w build/wheel)
	$(call quietly,Putting libraries into it,\
	  PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/auditwheel repair -w dist $(TORCH_LIBRARIES) build/wheel/*.whl)
	@$(PY) .ci/pin_torch dist/*.whl && $(PY) .ci/add_licenses dist/*.whl
	$(call quietly,Trying it in an environment of its own,\
	  $(PYTHON) -m venv build/wheel/venv && build/wheel/venv/bin/pip install --quiet $(TORCH) numpy dist/*.whl && \
	  cd build/wheel && venv/bin/python ../../tests/smoke.py)
	@ls dist/*.whl

# Built from the archive alone, elsewhere than in the tree.
.PHONY: sdist
sdist: $(DONE)/torch $(DONE)/build-tools $(DONE)/extra-wheel  ## build an sdist into dist, and build and try the package from it
	@rm -rf build/sdist dist/*.tar.gz && mkdir -p build/sdist
	$(call quietly,Building the sdist,$(PY) -m build --sdist --no-isolation -o dist)
	$(call quietly,Building and trying the package from it,\
	  $(PYTHON) -m venv build/sdist/venv && \
	  build/sdist/venv/bin/pip install --quiet $(TORCH) numpy scikit-build-core pybind11 cmake ninja && \
	  PATH="$(CURDIR)/build/sdist/venv/bin:$$PATH" build/sdist/venv/bin/pip install --no-build-isolation dist/*.tar.gz && \
	  cd build/sdist && venv/bin/python ../../tests/smoke.py --any-torch)
	@ls dist/*.tar.gz

# All tests, so that no list of those with threads must be kept.
.PHONY: races
races: $(DONE)/build-tools  ## run all tests of the C++ core under ThreadSanitizer
	@.ci/setup libgtest-dev
	$(call quietly,Building the C++ tests with ThreadSanitizer,\
	  $(CMAKE) -S . -B build/threads $(NINJA) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DATOMPACK_BUILD_TESTS=ON \
	    -DATOMPACK_BUILD_EXTENSION=OFF -DATOMPACK_SANITIZE=thread -DPython_EXECUTABLE="$(CURDIR)/$(PY)" && \
	  $(CMAKE) --build build/threads --target atompack_tests)
	$(call quietly,Running them,.venv/bin/ctest --test-dir build/threads --output-on-failure -j$$(nproc) | tee build/threads/ctest.log)
	@grep 'tests passed' build/threads/ctest.log

.PHONY: test-aarch64
test-aarch64: $(DONE)/build-tools  ## run the tests of the C++ core as programs for 64-bit ARM, under an emulator
	@.ci/setup g++-aarch64-linux-gnu qemu-user
	$(call quietly,Fetching the libraries for 64-bit ARM,.ci/aarch64_libraries build/aarch64/libraries $(filter %-dev,$(DEBIAN)) libgtest-dev)
	$(call quietly,Building the C++ tests for 64-bit ARM,\
	  $(CMAKE) -S . -B build/aarch64 $(NINJA) --toolchain cmake/aarch64.cmake -DLIBRARIES="$(CURDIR)/build/aarch64/libraries" \
	    -DATOMPACK_BUILD_TESTS=ON -DATOMPACK_BUILD_EXTENSION=OFF -DPython_EXECUTABLE="$(CURDIR)/$(PY)" && \
	  $(CMAKE) --build build/aarch64 --target atompack_tests)
	$(call quietly,Running them,.venv/bin/ctest --test-dir build/aarch64 --output-on-failure -j$$(nproc) | tee build/aarch64/ctest.log)
	@grep 'tests passed' build/aarch64/ctest.log

.PHONY: sanitize
sanitize: races  ## look for races, then fuzz the C++ core under sanitizers, FUZZ_SECONDS=60 a target
	@.ci/setup clang-19 libclang-rt-19-dev
	@PATH="$(CURDIR)/.venv/bin:$$PATH" sh tests/fuzz/run.sh build/sanitize $(FUZZ_SECONDS)

# The build alone is done by naming a target that is none.
.PHONY: soak
soak: $(DONE)/extension $(DONE)/extra-test  ## run all cases of the Python tests; kill writers, fuzz, train on two machines for a long time, SOAK_SECONDS=3600
	@$(PY) -m pytest -q -n auto --maxprocesses 8 --dist worksteal -m exhaustive $(PYTEST_ARGS)
	@.ci/setup clang-19 libclang-rt-19-dev iproute2
	$(call quietly,Building the fuzz targets,\
	  PATH="$(CURDIR)/.venv/bin:$$PATH" sh tests/fuzz/run.sh build/sanitize 0 none)
	@PATH="$(CURDIR)/.venv/bin:$$PATH" $(PY) tests/soak/run.py build/soak --seconds $(SOAK_SECONDS) --fuzz-build build/sanitize

# Of earlier runs in build/sanitize: those of soak and sanitize.
.PHONY: fuzz-corpus
fuzz-corpus: $(DONE)/build-tools  ## take what fuzzing found into tests/fuzz/corpus, as far as it reaches new code
	@.ci/setup clang-19 libclang-rt-19-dev
	@PATH="$(CURDIR)/.venv/bin:$$PATH" sh tests/fuzz/run.sh build/sanitize merge

.PHONY: clean
clean:  ## remove what was built (.venv stays)
	rm -rf build dist $(DONE)/extension .mypy_cache .pytest_cache .ruff_cache

# What is installed already; each file stands for one step that is done.
$(DONE)/python: $(if $(MOVED),moved)
	@.ci/setup $(DEBIAN) $$($(PYTHON) -c 'import sys; sys.exit(sys.base_prefix == "/usr")' 2>/dev/null || echo $(DEBIAN_PYTHON))
	$(call quietly,Creating .venv,$(PYTHON) -m venv .venv)
	@mkdir -p $(DONE) && echo "$(CURDIR)" >$@

.PHONY: moved
moved:
	@echo 'This tree was moved or copied: making .venv and build afresh'; rm -rf .venv build

$(DONE)/torch: $(DONE)/python
	$(call quietly,Installing $(TORCH),$(PIP_INSTALL) $(TORCH) numpy)
	@touch $@

$(DONE)/build-tools: $(DONE)/python
	$(call quietly,Installing the build tools,$(PIP_INSTALL) scikit-build-core pybind11 cmake ninja)
	@touch $@

# What needs no torch is compiled while pip installs torch and what `make demo` needs: not by `nice`, which would make it
# ten times slower on a busy machine. In the folder of the package: its build finds these objects, and configures from
# the start, with the extension.
$(DONE)/core: $(DONE)/build-tools
	$(call quietly,Compiling what needs no torch,\
	  $(CMAKE) -S . -B $(PACKAGE) $(NINJA) -DATOMPACK_BUILD_EXTENSION=OFF -DATOMPACK_BUILD_TESTS=OFF && \
	  $(CMAKE) --build $(PACKAGE) && rm $(PACKAGE)/CMakeCache.txt)
	@touch $@

$(DONE)/torch-and-core: $(DONE)/build-tools
	@$(MAKE) -s -j2 $(DONE)/torch $(if $(wildcard $(PACKAGE)/CMakeInit.txt),,$(DONE)/core) \
	  $(if $(filter demo,$(MAKECMDGOALS)),$(DONE)/extra-demo)
	@touch $@

# Dated from its start: a source that is saved during the build is newer. Bytecode is written before it, because the
# first import would otherwise change the folders.
$(DONE)/extension: $(DONE)/torch-and-core $(BUILD_FILES)
	@$(PY) -m compileall -q atompack_torch
	@touch $@.started
	$(call quietly,Building the package (minutes the first time),$(PIP_INSTALL) --no-build-isolation --config-settings build-dir=$(PACKAGE) -e .)
	@mv $@.started $@

# An extra's requirements by themselves: `pip install .[extra]` would build the package again.
$(DONE)/extra-%: pyproject.toml $(DONE)/torch
	@$(PY) -c 'import sys; toml = "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"; \
	  project = __import__(toml, fromlist=["load"]).load(open("pyproject.toml", "rb"))["project"]; \
	  print(*project["optional-dependencies"]["$*"], sep="\n")' >.venv/$*.txt
	$(call quietly,Installing what '$*' needs,$(PIP_INSTALL) $(TORCH) -r .venv/$*.txt)
	@touch $@

# Next to the older release of .venv, in a folder of its own: its requirements are in .venv.
$(DONE)/atlas-0.17: $(DONE)/extra-test
	$(call quietly,Installing atlas-python 0.17,$(PIP_INSTALL) --no-deps --upgrade --target .venv/atlas-0.17 atlas-python==0.17.2)
	@touch $@

# An environment in which a trainer is tried, on top of .venv: `site` adds the packages of that one after its own.
.venv-trainers/%/done: tests/trainers/environments/%.txt tests/trainers/make_environment $(DONE)/extension $(DONE)/extra-test
	$(call quietly,Installing the trainer $*,tests/trainers/make_environment $* $(PY) $(TORCH))
	@touch $@
