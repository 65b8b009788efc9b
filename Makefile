# Needs only a POSIX shell and a Python from 3.10 to 3.14, best 3.12 (scripts/choose_python.sh says why).
# Another interpreter: make PYTHON=/path/to/python …     Some of the tests: make test ARGS='tests/fhe_auc/rows/test_counts.py -k ties'

BIN := .venv/bin
# One thread a process: on rings this small OpenFHE is slower with more, and the test processes share the cores already.
# What Python compiles is kept, whatever the environment says: else each process that a test starts compiles it again.
TESTING := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
LOCK := UV_PYTHON_DOWNLOADS=never $(BIN)/uv pip compile --quiet --generate-hashes --no-annotate --constraint constraints.txt \
	--custom-compile-command "make requirements"
JOBS ?= 2
# A file whose tests take more CPU seconds fails the run, and is named.
MOST_CPU := 15
ARGS ?=
# By file, what the tests of one share is made once; all tests by group, as those that run Flower are in several files.

.DEFAULT_GOAL := help
.NOTPARALLEL: # every target begins by seeing to the same .venv
.PHONY: help demo test test-openfhe test-all lint types docs proofs format requirements release clean run-venv dev-venv openfhe-venv

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: run-venv ## install, then compute an encrypted AUC on real data from several clinics, and compare three protocols
	@$(BIN)/fhe-auc demo $(ARGS)

test: dev-venv ## run the tests, but for the slow ones
	$(TESTING) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --most-cpu=$(MOST_CPU) --cpu-report=build/test-cpu.json $(ARGS)

test-openfhe: openfhe-venv ## run the tests of OpenFHE, on a Python on which it loads, in .venv-openfhe
	$(TESTING) .venv-openfhe/bin/python -m pytest -n $(JOBS) --dist loadfile -m "openfhe and not slow" \
		--most-cpu=$(MOST_CPU) --cpu-report=build/test-openfhe-cpu.json $(ARGS)

test-all: dev-venv ## run all tests; with OpenFHE: make test-openfhe ARGS='-m openfhe'
	$(TESTING) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m "" $(ARGS)

lint: dev-venv ## check style, format, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: dev-venv ## check types, and that nothing names what one of the systems lacks
	$(BIN)/mypy --platform win32
	$(BIN)/mypy --platform darwin
	$(BIN)/mypy

docs: dev-venv ## build the documents as a site in build/site; a broken link or docstring fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

proofs: ## prove the theorems of docs/security anew, by Coq; without .venv (proofs/README.md)
	@$(MAKE) --no-print-directory -C proofs

format: dev-venv ## format, and mend what can be mended without asking
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

requirements: dev-venv ## lock, with hashes, what sites install and what makes a release, in the versions of constraints.txt
	$(LOCK) --universal --python-version 3.10 --extra plots --extra dp --extra remote pyproject.toml \
		--output-file requirements/sites.txt
	$(LOCK) --universal --python-version 3.10 --extra flower pyproject.toml --output-file requirements/flower.txt
	printf '%s\n' hatchling hatch-fancy-pypi-readme | $(LOCK) --universal --python-version 3.10 - \
		--output-file requirements/build.txt
	printf '%s\n' build cyclonedx-bom==7.5.0 hatchling hatch-fancy-pypi-readme pip-licenses==5.5.5 twine==6.2.0 | \
		$(LOCK) --universal --python-version 3.11 - --output-file requirements/release.txt
	echo uv | $(LOCK) --universal --python-version 3.11 - --output-file requirements/publish.txt

release: ## build what a release holds, in dist: wheel, sources, list of components (SBOM), licences
	scripts/make_release.sh

clean: ## remove all that make, Python and the tools made, .venv too
	rm -rf .venv .venv-openfhe build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

run-venv:
	@scripts/make_venv.sh run

dev-venv:
	@scripts/make_venv.sh dev

openfhe-venv:
	@scripts/make_venv.sh openfhe
