# Two commands: `make run` shows dsbif at work, `make test` passes its tests. Both make and use .venv here.
.DELETE_ON_ERROR:
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

VENV   := .venv
NEMO   := .venv-nemo
PYTHON ?= python3
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check --quiet
# The CPU build that the rest was measured with; anything that depends on torch must find it installed.
TORCH  := torch==2.13.0
ARGS   ?=

.PHONY: run test check format bench corpus clean slurm chromium

run: $(VENV)/.run  ## install, fetch the speech models, run the default agent on the quick subset
	$(PY) -m dsbif.run $(ARGS)

test: $(VENV)/.dev $(NEMO)/.factor slurm chromium  ## install what the tests need and pass them all
	$(PY) -m pytest -n auto --dist worksteal $(ARGS)

check: $(VENV)/.dev  ## style, types, the laws of the house, the benchmark's own gates
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m dsbif.bench.grid | tail -n 1
	$(PY) -m dsbif.bench.gates | tail -n 1
	$(PY) -m dsbif.build.lint | tail -n 1

format: $(VENV)/.dev  ## put the code in its usual form
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(VENV)/.dev slurm  ## speed and memory, as ratios measured in one run
	$(PY) -m bench.vad
	$(PY) -m bench.driver
	$(PY) -m bench.live
	$(PY) -m bench.moshi
	$(PY) -m bench.judge
	$(PY) -m bench.launch

corpus: $(VENV)/.run  ## build all user audio and pack it into one archive with its checksums
	$(PY) -m dsbif.build $(ARGS)
	$(PY) -m dsbif.build.archive data/corpus dist/dsbif-corpus.tar

clean:  ## remove the environment; runs/ and data/ stay
	rm -rf $(VENV) $(NEMO)

# Debian keeps venv in a package of its own.
$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dsbif needs Python 3.11 or newer; name one: make run PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -qy python3-venv; } || \
	  { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 2; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# The tests start a Slurm of their own on loopback. Where none can be installed they are skipped and say so.
slurm:
	@{ command -v slurmctld && command -v munged; } >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qy slurm-wlm munge; } || \
	  echo "no Slurm here; its tests are skipped (as root: apt-get install slurm-wlm munge)" >&2

# The labelling page is tested in a browser. Where none can be installed its tests are skipped and say so.
chromium:
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qy chromium; } || \
	  echo "no Chromium here; its tests are skipped (as root: apt-get install chromium)" >&2

# NeMo pins other versions than the rest, as every model stack does: it lives in an environment of its own.
$(NEMO)/.factor: pyproject.toml | $(PY)
	@echo "making $(NEMO) with NeMo (about two minutes, 2.2 GB)"
	@$(PYTHON) -m venv $(NEMO)
	@$(NEMO)/bin/python -m pip --disable-pip-version-check --quiet install '$(TORCH)'
	@$(NEMO)/bin/python -m pip --disable-pip-version-check --quiet install -e '.[factor]'
	@touch $@

$(VENV)/.torch: | $(PY)
	@echo "installing torch (about half a minute)"
	@$(PIP) install '$(TORCH)'
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.torch
	@echo "installing dsbif (about half a minute)"
	@$(PIP) install -e '.[cascade,wandb,align]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.torch
	@echo "installing dsbif and its development tools (about a minute)"
	@$(PIP) install -e '.[dev]'
	@$(PIP) install --no-deps 'moshi==0.2.13'  # it pins an older torch, and works with this one
	@touch $@ $(VENV)/.run
