# The workshop of storlab.testbed. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LINK := .cache/collections/ansible_collections/storlab/testbed
export PATH := $(CURDIR)/$(BIN):$(PATH)

$(LINK):
	@mkdir -p $(@D) && ln -sfn ../../../.. $@

$(VENV)/.run: .config/requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --require-hashes -r .config/requirements.lock
	@touch $@

$(VENV)/.test: .config/requirements-test.lock | $(VENV)/.run
	@$(BIN)/pip install --quiet --require-hashes -r .config/requirements-test.lock
	@touch $@
