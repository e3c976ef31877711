PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORPUS ?= rag_pipeline/defs/sample/defs.yaml
PORT ?= 3000

.PHONY: run up test bench lint install clean

run up: export DAGSTER_HOME := $(CURDIR)/.dagster

run: $(VENV)/installed .dagster/dagster.yaml  ## Index, evaluate and release the sample corpus
	$(BIN)/rag run $(CORPUS)

# From .dagster, or Dagster warns of the dagster.yaml beside the workspace; `dg dev`, which it
# recommends instead of `dagster dev`, needs a package more.
up: $(VENV)/installed .dagster/dagster.yaml  ## Dagster UI and daemon on http://localhost:3000
	@echo "Dagster's UI: http://localhost:$(PORT) (Ctrl-C stops it and the daemon)"
	@cd $(CURDIR)/.dagster && PYTHONWARNINGS='ignore:Function `dev_command`' \
		$(abspath $(BIN))/dagster dev --workspace $(CURDIR)/workspace.yaml --port $(PORT) \
		--log-level warning

test: $(VENV)/installed-dev lint  ## Lint, types, import contracts, tests
	$(BIN)/python -m pytest -m "not bench" -n 2 --dist loadfile

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/installed-dev  ## The benchmarks: ratios, each to a baseline in the same run
	$(BIN)/python -m rag_pipeline_tests.benchmarks

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

.dagster/dagster.yaml: dagster.yaml
	mkdir -p .dagster
	cp dagster.yaml $@

clean:  ## Remove what was built, keep the environment
	rm -rf data/store .dagster
