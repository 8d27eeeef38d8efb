# Every target makes what it needs; `make setup` alone prepares the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(VENV)/.installed
JOBS ?= 2
# Tests start many interpreters: bytecode is kept, whatever the caller's environment says.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

.PHONY: setup demo test test-all check bench docs clean

setup: $(NATIVE)  ## the environment in .venv, with the compiled kernels

# torch comes first so that nothing else chooses another build of it.
$(VENV)/.torch: Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	touch $@

$(VENV)/.tools: $(VENV)/.torch pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check \
		"scikit-build-core>=0.10" "nanobind>=2.4" cmake ninja \
		"pytest>=8" "pytest-xdist>=3.6" "hypothesis>=6.100" "ruff>=0.6" "mypy>=1.11" clang-format==23.1.3 \
		"expecttest>=0.2" "transformers>=4.50" "scikit-learn>=1.4" "triton>=3.4" \
		"pyarrow>=15" "safetensors>=0.4" "pillow>=10" "tensorboard>=2.15" \
		"mkdocs-material>=9.6,<10" "nbclient>=0.10" "ipykernel>=6.29"
	touch $@

$(NATIVE): $(VENV)/.tools CMakeLists.txt $(wildcard csrc/*)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
	touch $@

demo: setup  ## three processes, encrypted channels, digits recognised unseen
	$(BIN)/python examples/demo.py

test: setup  ## every feature, on fewer samples: within six minutes on two cores
	$(PYTEST)

test-all: setup  ## every test on all of its samples: within half an hour on two cores
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

clean:  ## everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
