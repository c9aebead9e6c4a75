# Every verb sets up what it needs: a fresh machine has only Python 3.11 or newer and make.
#   make PYTHON=python3.12 test     with another interpreter (after `make clean`)
#   make test PYTEST_ARGS=tests/bamboo   only some tests

PYTHON ?= python3
# A process that dies ends the run: with groups, pytest-xdist 3.8 waits for ever for the process in its place.
PYTEST_ARGS ?= --numprocesses=auto --maxprocesses=4 --dist=loadgroup --max-worker-restart=0
BENCH_ARGS ?=
BASE ?=
WHEEL_ARGS ?=
CULM_RELEASE_HOME ?=
RELEASE_ARGS ?=
FUZZ_ARGS ?=
SEEDS ?= 10000
STORM_ARGS ?=
KILLS ?= 1000
VERSIONS_ARGS ?=
CRASH_ARGS ?=
MINUTES ?= 30
SOAK_ARGS ?=
HOSTILE_ARGS ?=
AUDIT_SERVICE ?= pypi
MODELS ?= 20
MAVEN ?=

# Where this is set, each of the hundreds of processes that the tests start compiles all its modules again, and pytest
# rewrites the asserts of all tests again. `make clean` removes what is written.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
LAKEHOUSE := build/lakehouse
# The folders that hold Python, as far as they are there.
CODE := $(wildcard src tests bench crash fuzz release soak storm examples docs deploy)
TYPED := $(wildcard src tests bench crash fuzz release soak storm examples deploy)

.DEFAULT_GOAL := help
.PHONY: help demo test quick long coverage lint format types storm crash models mutants soak hostile audit screenshots cluster lakehouse native web wheel release bench compare versions fuzz docs lock clean python-check

help:  ## say what the verbs do
	@echo "make VERB, each sets up .venv itself when it is needed:"
	@sed -n 's/^\([a-z]*\):.*## /  \1\t/p' $(MAKEFILE_LIST)

demo: $(READY)  ## run the guided example
	@$(BIN)/culm demo

test: $(READY)  ## run all the tests
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

# The quick tests share no session or server, and to share thousands of them out by group costs seconds. So does a thread
# for each test that looks at the clock (pytest-timeout): here Python's own watchdog ends a process that hangs. Another
# order each time costs seconds, too (pytest-randomly sets all generators anew for each test): make test has it.
quick: $(READY)  ## run the tests that take under a minute together: no Spark, no processes, no long properties
	@$(BIN)/python -m pytest --quick --timeout=0 -p no:randomly -o faulthandler_timeout=60 -o faulthandler_exit_on_timeout=true \
		$(subst --dist=loadgroup,--dist=load,$(PYTEST_ARGS))

long: $(READY)  ## run the tests that make test leaves out because each takes a minute: pages on Spark, kills of its commands
	@$(BIN)/python -m pytest -m "long and not cluster and not lakehouse" $(PYTEST_ARGS)

coverage: $(READY)  ## all the tests, with the floor on branch coverage (takes half as long again)
	@$(BIN)/python -m pytest -m "not cluster and not lakehouse" --cov $(PYTEST_ARGS)

lint: $(READY)  ## check style and formatting
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)

format: $(READY)  ## mend style and formatting where that can be done by itself
	@$(BIN)/ruff check --fix --exit-zero --quiet $(CODE)
	@$(BIN)/ruff format $(CODE)

types: $(READY)  ## check the types
	@$(BIN)/mypy $(TYPED)

storm: $(READY)  ## whole nodes in ten thousand simulated storms, and Point-2-Point sessions (SEEDS=number, STORM_ARGS=...)
ifneq ($(strip $(STORM_ARGS)),)
	@$(BIN)/python -m storm $(STORM_ARGS)
else
	@$(BIN)/python -m storm --seeds $(SEEDS)
	@CULM_STORM=$(SEEDS) $(BIN)/python -m pytest tests/intervals/test_storm.py tests/proposals/test_storm.py \
		--numprocesses=auto --dist=load --timeout=0
endif

crash: $(READY)  ## kill the program at a thousand random moments, look at what is left (KILLS=number, CRASH_ARGS=...)
	@$(BIN)/python -m crash --kills $(KILLS) $(CRASH_ARGS)

soak: $(READY)  ## run three nodes for half an hour: memory, file handles, what they hold (MINUTES=number, SOAK_ARGS=...)
	@$(BIN)/python -m soak --minutes $(MINUTES) $(SOAK_ARGS)

hostile: $(READY)  ## attack a node in every way, with an honest peer meanwhile, and say what came of it (HOSTILE_ARGS=...)
	@$(BIN)/python -m tests.hostile $(HOSTILE_ARGS)

models: $(READY)  ## run random operations against models, many times as many as make test does (MODELS=times)
	@CULM_MODELS=$(MODELS) $(BIN)/python -m pytest -m models $(PYTEST_ARGS)

mutants: $(READY)  ## change the code in 200 places, one at a time, and see whether a test notices (MUTANTS_ARGS=...)
	@$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

screenshots: $(READY)  ## take pictures of the status page, into build/screenshots (needs Debian's chromium-driver)
	@CULM_SCREENSHOTS=build/screenshots $(BIN)/python -m pytest tests/node/status/test_browser.py

cluster: $(READY)  ## run the tests on a standalone Spark cluster and through Spark Connect (minutes)
	@$(BIN)/python -m pytest tests/spark/test_cluster.py -m cluster

lakehouse: $(LAKEHOUSE)/delta/.ready $(LAKEHOUSE)/iceberg/.ready  ## write and read Delta and Iceberg tables, each on the newest Spark it has jars for (MAVEN=URL of a mirror, KILLS=number)
	@for format in delta iceberg; do CULM_LAKEHOUSE=$(LAKEHOUSE)/$$format CULM_KILLS=$(if $(filter file,$(origin KILLS)),3,$(KILLS)) \
		$(LAKEHOUSE)/$$format/bin/python -m pytest -W "ignore:unclosed:ResourceWarning" tests/lakehouse -m lakehouse \
		|| exit; done  # PySpark 4.1 and 4.2 leave sockets to the garbage collection

native: $(READY)  ## build the native core and install it into .venv (needs cargo, from Rust 1.85 on)
	@command -v cargo >/dev/null || { echo "error: make native needs cargo, which is not there: install Rust (https://rustup.rs)" >&2; exit 1; }
	@$(PIP) install --require-hashes -r requirements/native.lock
	@$(BIN)/maturin build --quiet --release --locked --manifest-path native/Cargo.toml --interpreter $(BIN)/python --out build/native
	@$(PIP) install --no-index --no-deps --force-reinstall build/native/culm_native-*.whl
	@$(BIN)/python -c 'from culm import native; print(native.description)'

# The status page verifies with it; wheels include it.
BUNDLE := src/culm/node/status/page/culm.js

$(BUNDLE): $(wildcard web/src/*.ts) web/build.mjs web/package-lock.json
	@command -v npm >/dev/null || { echo "error: the bundle for browsers needs node and npm, which are not there: install Node.js 20 or newer" >&2; exit 1; }
	@cd web && npm ci --ignore-scripts --silent && npm run --silent build
	@cp web/dist/culm.js $@

web: $(READY)  ## build and test the package for web pages, web/ (needs node 20 or newer, with npm)
	@rm -f $(BUNDLE) && $(MAKE) --no-print-directory $(BUNDLE)
	@$(BIN)/python -m tests.web.vectors build/web-vectors
	@cd web && npm run --silent check && npm run --silent test
	@$(BIN)/python -m pytest tests/web -m "" -q

wheel: $(READY) $(if $(shell command -v npm),$(BUNDLE))  ## build the wheel into dist/, with the bundle for browsers where node and npm are
	@rm -rf dist && mkdir -p build && $(BIN)/python -m build --no-isolation --outdir dist . >build/wheel.log 2>&1 || { cat build/wheel.log; exit 1; }
	@$(BIN)/python -m tests.wheel $(WHEEL_ARGS) dist/culm-*.whl

# Rust's build tool is no part of the environment for development; a release needs it where cargo is.
release: $(READY)  ## build, check and sign the files of a version, up to the upload (CULM_RELEASE_HOME=DIR, RELEASE_ARGS=...)
	@! command -v cargo >/dev/null || $(PIP) install --require-hashes -r requirements/native.lock
	@CULM_RELEASE_HOME="$(CULM_RELEASE_HOME)" $(BIN)/python -m release $(RELEASE_ARGS)

bench: $(READY)  ## run the benchmarks (BENCH_ARGS=...)
	@$(BIN)/python -m bench $(BENCH_ARGS)

compare: $(READY)  ## compare the CPU time of the working tree with that of a commit (BASE=commit, BENCH_ARGS=...)
	@$(BIN)/python -m bench.compare --base "$(BASE)" $(BENCH_ARGS)

versions: $(READY)  ## check that homes, files and sessions of a commit and of the working tree fit together (BASE=commit)
	@$(BIN)/python -m tests.versions --base "$(BASE)" $(VERSIONS_ARGS)

fuzz: $(READY)  ## run the fuzzers for ten minutes of CPU (FUZZ_ARGS=...)
	@$(BIN)/python -m fuzz $(FUZZ_ARGS)

docs: $(READY)  ## build the pages into build/docs
	@$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs build/docs
	@echo "built build/docs/index.html"

clean:  ## remove the environment and everything built
	@rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests $(wildcard bench crash fuzz release soak storm examples) -name __pycache__ -type d -prune -exec rm -rf {} +

# uv only makes the locks; it is no dependency, so it lives in an environment of its own. Annotations
# and the index are left out: a lock tells what, not from where.
UV_COMPILE = build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url --no-emit-find-links --upgrade
LOCK_HEADER := \# Made by `make lock` from pyproject.toml; not to be edited.

lock: python-check  ## resolve the dependencies anew and write requirements/*.lock
	@echo "making the locks"
	@$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip --disable-pip-version-check --quiet install uv
	@$(UV_COMPILE) --group build -o build/lock/build.lock >/dev/null
	@$(UV_COMPILE) pyproject.toml -o build/lock/base.lock >/dev/null
	@$(UV_COMPILE) --group native -o build/lock/native.lock >/dev/null
	@$(UV_COMPILE) pyproject.toml --extra spark --extra connect --extra lan --extra remote --extra sealed --extra status --extra terminal --extra web --group build --group dev --group docs --group fuzz \
		-c build/lock/base.lock -c build/lock/build.lock -o build/lock/dev.lock >/dev/null
	@for format in delta iceberg; do $(UV_COMPILE) pyproject.toml --extra spark --group build --group $$format \
		-c build/lock/base.lock -c build/lock/build.lock -o build/lock/$$format.lock >/dev/null; done
	@for name in build base dev native delta iceberg; do \
		{ echo '$(LOCK_HEADER)'; cat build/lock/$$name.lock; } > requirements/$$name.lock; done

# pip-audit asks a service for known vulnerabilities; it is no dependency either. Without --strict it takes what the
# service does not answer for as sound.
AUDIT_VERSION := 2.10.1

audit: python-check  ## ask for known vulnerabilities of all that is locked (AUDIT_SERVICE=pypi or osv; needs the network)
	@test -x build/audit/bin/pip-audit || { $(PYTHON) -m venv build/audit && \
		build/audit/bin/python -m pip --disable-pip-version-check --quiet install pip-audit==$(AUDIT_VERSION); }
	@build/audit/bin/pip-audit --strict --progress-spinner off --vulnerability-service $(AUDIT_SERVICE) \
		--disable-pip --require-hashes $(foreach name,base build dev native,-r requirements/$(name).lock) \
		>build/audit/report 2>&1; code=$$?; \
	if grep -q -E 'could not be audited|ConnectionError|ServiceError' build/audit/report; then \
		tail -n 1 build/audit/report >&2; \
		echo "error: nothing was audited: the service '$(AUDIT_SERVICE)' does not answer for what is locked;" \
			"try AUDIT_SERVICE=osv or pypi, or another network" >&2; exit 3; \
	fi; cat build/audit/report; exit $$code

python-check:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "error: Culm needs Python 3.11 or newer and $(PYTHON) is not; call make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "error: $(PYTHON) has no venv or ensurepip module; install it (Debian: python3-venv)" >&2; exit 1; }

# First what builds packages, then everything else without isolation: nothing unlocked is ever fetched.
$(READY): pyproject.toml requirements/build.lock requirements/dev.lock | python-check
	@echo "setting up $(VENV) (the first time takes a few minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements/build.lock
	@$(PIP) install --require-hashes --no-build-isolation -r requirements/dev.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# A table format has jars for one PySpark at a time, and Delta's and Iceberg's newest are for different ones, so each
# format has an environment of its own. The jars lie beside them, so that nothing is resolved when Spark starts.
$(LAKEHOUSE)/delta/.ready: requirements/delta-s3.jars
$(LAKEHOUSE)/%/.ready: pyproject.toml requirements/build.lock requirements/%.lock requirements/%.jars | python-check
	@echo "setting up $(@D) (the first time takes a few minutes)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(PYTHON) -m tests.lakehouse.jars $(LAKEHOUSE)/jars $(wildcard requirements/$**.jars) $(if $(MAVEN),--repository "$(MAVEN)")
	@$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/build.lock
	@$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-build-isolation \
		-r requirements/$*.lock
	@$(@D)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	@touch $@
