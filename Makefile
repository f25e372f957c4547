# The workshop of storlab.testbed. `make` alone lists the targets. Recipes run in this folder and name things relative to it: its path may hold spaces.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
SCENARIO ?= chain
INVENTORY ?= inventories/embedded
# Not part of `make test`, which takes long enough: `make molecule SCENARIO=iscsi` runs one.
LEFT_OUT := bystanders cache_providers cache_tier e1 e2 e3 e4 e5 engine esxi existing_guests existing_whole failover first_lab iscsi links multipath nfs nvme raid ramdisk scale
# How many processes run tests at once.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
VENV := .venv
LINK := .cache/collections/ansible_collections/storlab/testbed
TESTS := .cache/junit
AS_ROOT := .config/as_root.sh
# What is left of the machines of this checkout, found by their command lines: files of theirs may be gone.
LABS := $(AS_ROOT) $(PYTHON) .config/labs.py
# What Molecule remembers of a run lies in this checkout. In the home of the user it would be found by the name of the folder, also by a later or
# another checkout with that name, and what is remembered as prepared is not prepared again.
MOLECULE := $(AS_ROOT) env ANSIBLE_HOME="$(CURDIR)/.cache/molecule" molecule
PLAY := $(AS_ROOT) ansible-playbook -i $(INVENTORY)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup ## Build the embedded testbed, measure every layer, render the report; the testbed stays up
	@$(PLAY) playbooks/build.yml playbooks/benchmark.yml
	@ANSIBLE_CALLBACKS_ENABLED=ansible.posix.timer ansible-playbook -i $(INVENTORY) playbooks/report.yml
	@echo "Report: $$(ls -td "$$PWD"/results/embedded/*/report/index.html | head -n 1)"
	@echo "The testbed stays up: make demo measures it again, make demo-down takes it down. Your own hosts: docs/getting_started.md"

NO_LAB := playbooks/embedded_lab.yml -e testbed_lab_state=absent
.PHONY: demo-down
demo-down: setup ## Take the embedded testbed down, prove that nothing is left, stop its machines
	@if $(LABS) whole embedded; then $(PLAY) playbooks/teardown.yml playbooks/verify_clean.yml $(NO_LAB); fi
	@$(LABS) end embedded
	@if $(LABS) unproven embedded; then $(PLAY) $(NO_LAB); fi

.PHONY: experiments
experiments: setup ## Repeat the published experiments scaled down, each taken down again; ends with a page that links their reports
	@$(PLAY) playbooks/experiments/all.yml

# Two lanes, which end at about the same time. What waits for devices and machines goes one after another and comes first whenever it can go on: the tests that have this
# machine's devices for themselves, then the roles on emulated machines. What computes takes the processors that are free (BESIDE): lint and unit tests, so that what
# is wrong there shows early, then the tests that share the devices. What each command says is printed when it ends: the unit tests that start no Ansible
# do not wait for those that do.
TOGETHER := $(MAKE) --no-print-directory --output-sync=line --jobs=4 BESIDE="nice -n 5"
.PHONY: test lane-of-devices lane-of-processors
# Long suites are represented by a sample that the seed draws (tests/support/sample.py, SAMPLED of both conftest.py, tests/tools).
test: export SAMPLE_SEED = $(SEED)
test: setup-test ## All tests: lint, unit, PowerShell, integration and molecule but LEFT_OUT, of long suites a sample; ends with what was skipped and the number that passed; SEED=number repeats it
	@rm -rf $(TESTS)
	@mkdir -p $(TESTS)
	@echo "Lint and unit tests, then those with simulators, programs and browsers; beside them those on this machine's devices, then the roles on embedded machines."
	@echo "What each says is shown when it ends. SEED=$(SEED) repeats the samples."
	@$(TOGETHER) lane-of-devices lane-of-processors || { $(PYTHON) tests/tools/count_passed.py $(TESTS); exit 1; }
	@$(PYTHON) tests/tools/count_passed.py $(TESTS)

lane-of-devices: integration-alone
	@$(MAKE) --no-print-directory molecule SCENARIO=--all

lane-of-processors: lint unit powershell integration-alone
	@$(MAKE) --no-print-directory integration-shared

.PHONY: lint
lint: setup-tools docs ## ruff check and format, mypy, yamllint, ansible-lint, documentation and changelog checks
	ruff check .
	ruff format --check .
	yamllint --strict .
	$(BESIDE) mypy
	$(BESIDE) ansible-lint --offline --strict
	antsibull-changelog lint

.PHONY: unit
unit: setup-tools ## The tests that need no machine, no root rights and no program of the distribution; the quick ones first
	$(BESIDE) pytest -n $(JOBS) -m "not ansible" tests/unit --junit-xml=$(TESTS)/unit.xml
	$(BESIDE) pytest -n $(JOBS) -m ansible tests/unit --junit-xml=$(TESTS)/unit_ansible.xml

.PHONY: integration integration-shared integration-alone
integration: setup-test ## The tests with real devices, programs, browsers and processes on this machine
	@$(MAKE) --no-print-directory integration-shared
	@$(MAKE) --no-print-directory integration-alone

# Two files at a time.
integration-shared: setup-test
	$(BESIDE) $(AS_ROOT) pytest -n $(JOBS) --dist loadfile -m "not machine_wide" tests/integration --junit-xml=$(TESTS)/integration.xml

# One after another.
integration-alone: setup-test
	$(AS_ROOT) pytest -m machine_wide tests/integration --junit-xml=$(TESTS)/machine_wide.xml

.PHONY: powershell
powershell: setup-tools ## The scripts for Windows in a real PowerShell; PWSH=program when it is not pwsh on the search path
	$(BESIDE) pytest -n $(JOBS) tests/powershell --junit-xml=$(TESTS)/powershell.xml

.PHONY: molecule
molecule: MOLECULE_LOG = $(TESTS)/molecule$(SCENARIO).log
molecule: setup-test ## The roles on embedded machines; SCENARIO=name runs one, SCENARIO=--all every one but those left out
	@$(AS_ROOT) rm -rf .cache/molecule
	@mkdir -p $(TESTS)
	@$(MOLECULE) test $(if $(filter --all,$(SCENARIO)),--all $(addprefix --exclude ,$(LEFT_OUT)),--scenario-name $(SCENARIO)) 2>&1 \
	    | tee $(MOLECULE_LOG) || { $(PYTHON) tests/tools/say_failed.py $(MOLECULE_LOG); exit 1; }

include make/suites.mk make/docs.mk make/setup.mk
