# Every target makes what it needs; `make setup` alone prepares the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is made of what is imported, not of all that is installed: that takes a minute.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
NATIVE := $(VENV)/.installed
JOBS ?= 4
# Bytecode is kept, whatever the caller's environment says: tests start many interpreters.
export PYTHONDONTWRITEBYTECODE :=
# And many threads: with one thread for each operation of torch they wait less for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

.PHONY: setup demo test test-all check bench docs wheel wheel-smoke clean

setup: $(NATIVE)  ## the environment in .venv, with the compiled kernels

# torch comes first and is not in the lock file, so that the build for this machine is kept.
$(VENV)/.torch: Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	touch $@

$(VENV)/.tools: $(VENV)/.torch requirements-dev.lock
	$(PIP) --require-hashes --no-deps --requirement requirements-dev.lock
	touch $@

$(NATIVE): $(VENV)/.tools pyproject.toml CMakeLists.txt $(wildcard csrc/*)
	$(PIP) --no-build-isolation --no-deps --editable .
	touch $@

demo: setup  ## three processes, encrypted channels, digits recognised unseen
	$(BIN)/python examples/demo.py

test: setup  ## every feature, on fewer samples: in about fifteen minutes on two cores
	$(PYTEST)

test-all: setup  ## every test on all of its samples: in about 39 minutes on two cores
	$(PYTEST) --full

check: setup  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(wildcard csrc/*)
	$(BIN)/mypy

bench: setup  ## the speed table, recorded under benchmarks/results/
	$(BIN)/python -m benchmarks

docs: setup  ## the site in build/site, with the generated pages of docs/reference/
	$(BIN)/python -m docs.generate
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# In a folder of its own: the other build has the kernels of this machine alone.
wheel: setup  ## one wheel for all processors of this architecture, in dist/
	rm -rf dist
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist \
	  --config-settings=cmake.define.TACIT_LEVELS=all --config-settings=build-dir=build/wheel .

wheel-smoke: wheel  ## the wheel in an empty environment, at every level that this processor runs
	PYTHON=$(PYTHON) tools/wheel_smoke.sh

clean:  ## everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
