# `make demo` and `make test` set up everything they need in .venv; a second run installs nothing.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# A folder of data files to look in before anything is downloaded.
export TESSMC_DATA ?= $(wildcard ../shared/data)

.PHONY: help setup demo test lint verify bench evaluations timings experiments docs lock clean

help: ## show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: .venv/ready ## make .venv with the pinned packages and tessmc itself

.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: setup ## sample the banana and a funnel; Figure 1 and a report into demo/
	$(BIN)/tessmc demo

test: setup ## the test suite, a few minutes
	$(BIN)/python -m pytest

lint: setup ## formatting, lint rules and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

verify: setup .venv/bench-ready ## long statistical suites: invariance, peers, faults, posteriordb, then mutants
	$(BIN)/python -m pytest -p no:cacheprovider --dist=load verify
	$(BIN)/python -m verify.posteriors
	$(BIN)/python -m verify.mutants

bench: setup ## what run folders and black boxes cost, then the experiments (90 minutes in all)
	$(BIN)/python -m benchmarks.durability
	$(BIN)/python -m benchmarks.black_box
	$(MAKE) experiments MINUTES=74

evaluations: setup .venv/bench-ready ## density evaluations until the gate, of samplers without gradients (an hour)
	for model in oxygen predator_prey_21 regime_switching funnel_10; do \
	  $(BIN)/tessmc bench $$model --budget evaluations --seeds 2 --limit 250 --out docs/results; done

timings: setup ## tick engine against lockstep, cold starts, the warm-up table (an hour)
	$(BIN)/python -m benchmarks.engines
	$(BIN)/python -m benchmarks.cold_start
	$(BIN)/python -m benchmarks.warmup

# Nothing new begins when these are over; one seed of all samplers takes 70.
MINUTES ?= 85

experiments: setup .venv/bench-ready ## the paper's experiments beside all peers: rewrites docs/results.md
	$(BIN)/python -m benchmarks.experiments --minutes $(MINUTES)
	$(BIN)/python -m benchmarks.figures

docs: setup ## build the documentation into site/, strictly
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.venv/bench-ready: .venv/ready requirements-bench.txt requirements-poco.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-bench.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-poco.txt
	touch $@

LOCK := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links pyproject.toml

lock: setup ## pin the newest versions that fit pyproject.toml
	$(BIN)/python -m pip install --quiet pip-tools
	$(LOCK) --extra dev --output-file requirements.txt
	$(LOCK) --extra bench --constraint requirements.txt --output-file requirements-bench.txt

clean: ## remove what the other targets made
	rm -rf .venv site demo
