# Two commands do everything: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SITE_READY := $(VENV)/.site-ready

.PHONY: demo test check web browser bench faults fuzz report docs clean

demo: $(READY)
	$(BIN)/hyperfront demo

test: check
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

check: $(READY) web
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check --summarize-errors

# The explorer's JavaScript and CSS are checked by biome, which npm installs; without npm make says that they are not.
web:
	@if npm install --silent --no-package-lock --no-audit --no-fund; then npm run --silent check; \
	else echo "npm cannot install biome: the explorer's JavaScript and CSS are not checked" >&2; fi

# The explorer is tested in Debian's Chromium; without it those tests are skipped, and say so.
browser:
	command -v chromium >/dev/null || (apt-get update -q && apt-get install -y -q --no-install-recommends chromium)

bench: $(READY)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# Deaths, signals, damaged files and full disks by the thousand; the counts go into docs/reliability.md.
faults: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults

# Millions of random calls, files and requests; the counts go to docs/fuzz.json. It takes about an hour on one core.
fuzz: $(READY)
	for family in api files routes sockets fit; do $(BIN)/python -m tests.fuzz $$family --long --out docs/fuzz.json || exit 1; done

# Every table and figure of the paper, from the result files in the repository.
report: $(READY)
	$(BIN)/python -m reproduction report

# The documentation as a site: build/docs/index.html. A misspelled word or a warning is an error.
docs: $(SITE_READY)
	$(BIN)/codespell
	$(BIN)/python -m sphinx -q -W --keep-going -d build/trees docs build/docs
	$(BIN)/python docs/gallery.py build/docs/gallery

$(SITE_READY): $(READY)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "hyperfront needs Python 3.11 or newer, this is %s: set PYTHON=..." % sys.version)'
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) node_modules .pytest_cache .ruff_cache .hypothesis
