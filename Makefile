# The workshop of storlab.testbed. `make` alone lists the targets. Recipes run in this folder and name things relative to it: its path may hold spaces.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
SCENARIO ?= chain
INVENTORY ?= inventories/embedded
# Not part of `make test`, which takes long enough: `make molecule SCENARIO=iscsi` runs one.
LEFT_OUT := bystanders cache_providers cache_tier e1 e2 e3 e4 e5 esxi first_lab iscsi links multipath raid ramdisk scale
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
test: setup-test ## All tests: lint, unit, PowerShell, integration and molecule but LEFT_OUT; ends with what was skipped and the number that passed
	@rm -rf $(TESTS)
	@mkdir -p $(TESTS)
	@echo "Lint and unit tests, then those with simulators, programs and browsers; beside them those on this machine's devices, then the roles on embedded machines."
	@echo "What each says is shown when it ends."
	@$(TOGETHER) lane-of-devices lane-of-processors
	@python tests/tools/count_passed.py $(TESTS)

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

.PHONY: sanity
sanity: setup-tools ## ansible-test sanity on what is published, as far as it needs only the package index; OPTIONS="--test pep8" for one test
	@.ci/sanity $(OPTIONS)

.PHONY: matrix
matrix: ## Every supported ansible-core with every Python of this machine that it runs on, and hosts' code on Python 3.9; CELLS="core2.20-python3.12" for some
	@.ci/matrix $(CELLS)

.PHONY: unit
unit: setup-tools ## The tests that need no machine, no root rights and no program of the distribution; the quick ones first
	$(BESIDE) pytest -n $(JOBS) -m "not ansible" tests/unit --junit-xml=$(TESTS)/unit.xml
	$(BESIDE) pytest -n $(JOBS) -m ansible tests/unit --junit-xml=$(TESTS)/unit_ansible.xml

SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d " "))
.PHONY: random
random: setup-tools ## The property tests on other examples than `make test` takes; SEED=number repeats a run
	@echo "SEED=$(SEED)"
	pytest -n $(JOBS) -m hypothesis --hypothesis-seed=$(SEED) tests/unit

# What other suites reach counts only when asked for: it takes their time, and root rights.
COVERAGE := .cache/coverage
.PHONY: coverage
coverage: setup-tools ## Which branches of plugins/module_utils and plugins/plugin_utils the unit tests take; ALSO=tests/integration counts those, too
	@$(if $(ALSO),$(AS_ROOT)) rm -rf $(COVERAGE)
	@mkdir -p $(COVERAGE)
	coverage run -m pytest -n $(JOBS) tests/unit --junit-xml=$(COVERAGE)/unit.xml
	$(if $(ALSO),$(AS_ROOT) coverage run -m pytest -m "not machine_wide" $(ALSO) --junit-xml=$(COVERAGE)/also.xml)
	@coverage combine --quiet
	@coverage html --quiet
	@coverage json --quiet
	@python tests/tools/show_coverage.py $(COVERAGE)/coverage.json 95
	@echo "Line by line: $$PWD/$(COVERAGE)/html/index.html"

# CELLS=number takes as many of the mistakes.
.PHONY: mutation
mutation: setup-tools ## Put small mistakes into parsers and statistics, one at a time, and say which no test notices; SEED=number CELLS=number (300)
	nice python tests/tools/mutation.py --seed $(SEED) --jobs $(JOBS) $(if $(CELLS),--cells $(CELLS))

# TASKS=yes with a target that runs playbooks (molecule, integration) adds what it executes. A test with callbacks of its own (the killed controller) needs them.
EXECUTED := .cache/executed
ifdef TASKS
export ANSIBLE_CALLBACK_PLUGINS := $(CURDIR)/tests/executed_tasks
export EXECUTED_TASKS := $(CURDIR)/$(EXECUTED)/tasks
$(shell mkdir -p "$(CURDIR)/$(EXECUTED)")
endif
.PHONY: role-coverage
role-coverage: setup-tools ## Which tasks of the roles all runs with TASKS=yes executed; RESET=yes forgets them
	@$(if $(RESET),$(AS_ROOT) rm -rf $(EXECUTED),python tests/tools/role_coverage.py $(EXECUTED)/tasks)

# CELLS=number takes as many of the moments.
.PHONY: interrupted
interrupted: setup-tools ## Kill the controller before and after every task of build, benchmark and teardown, against stand-ins (an hour or more); SEED=number CELLS=number
	nice python tests/tools/interrupted.py --seed $(SEED) --jobs $(JOBS) $(if $(CELLS),--cells $(CELLS))

# CELLS=number takes as many of the cells.
.PHONY: faults
faults: setup-test ## Stop, kill, cut off, fill and set parts of embedded labs, of stand-ins and of this machine while they are built, measured and removed (hours); SEED=number CELLS=number
	nice $(AS_ROOT) python tests/tools/faults.py --seed $(SEED) $(if $(CELLS),--cells $(CELLS))

.PHONY: soak
soak: setup-test ## Build, benchmark and teardown of one embedded lab again and again, and what each cycle leaves (3 minutes per cycle); CYCLES=number (100)
	nice $(AS_ROOT) python tests/tools/soak.py $(if $(CYCLES),--cycles $(CYCLES))

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

.PHONY: bare-root
bare-root: ## `make test` of a fresh clone on a minimal Debian, by a user with sudo; TARGET=unit tries another target, SUITE=trixie another Debian than 12
	@BARE_ROOT_SUITE=$(SUITE) .ci/bare_root $(TARGET)

.PHONY: docs
docs: setup-tools ## Check the reference documentation, and say how to read it
	antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
	@echo "Read it with: . $(VENV)/bin/activate && ansible-doc -l storlab.testbed"

SITE := .cache/docs-site
.PHONY: docs-site
docs-site: setup-tools $(SITE)/venv/.ready ## All pages and the reference as a site in .cache/docs-site/html; a warning or a broken link is an error
	ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/.cache/collections" $(SITE)/venv/bin/python tests/tools/docs_site.py $(SITE)

$(SITE)/venv/.ready: .config/requirements-docs.lock
	@test -x $(SITE)/venv/bin/python || $(PYTHON) -m venv $(SITE)/venv
	@$(SITE)/venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .config/requirements-docs.lock
	@touch $@

.PHONY: clean
clean: ## Remove all that the project made (testbeds, machines, images, virtual environment), but no results
	@$(LABS) end
	@$(AS_ROOT) rm -rf .cache .ansible .hypothesis .venv
	@if test -d results; then echo "Your results are kept in $$PWD/results; remove that folder if you do not need them."; fi

# LOCK_OPTIONS= keeps what is pinned and adds only what is new in the .in files.
LOCK_OPTIONS ?= --upgrade
.PHONY: lock
lock: ## Pin the newest dependencies that .config/requirements*.in allow
	@$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet pip-tools
	@cd .config && for name in requirements requirements-test requirements-docs; do ../.cache/lock/bin/pip-compile --quiet $(LOCK_OPTIONS) --generate-hashes --strip-extras \
	    --allow-unsafe --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file $$name.lock $$name.in; done
	@$(PYTHON) tests/tools/write_sbom.py

# setup: for the playbooks. setup-tools: lint and unit tests, on any machine with Python. setup-test: all tests.
.PHONY: setup setup-tools setup-test preflight preflight-tools test-packages
setup: preflight $(VENV)/.run $(LINK)
setup-tools: preflight-tools $(VENV)/.test $(LINK)
setup-test: preflight setup-tools test-packages

preflight:
	@.config/preflight.sh lab $(PYTHON) 6000 3500
preflight-tools:
	@.config/preflight.sh tools $(PYTHON) 2500 0
test-packages:
	@mkdir -p .cache && .config/test_packages.sh

$(LINK):
	@mkdir -p $(@D) && ln -sfn ../../../.. $@

$(VENV)/.run: .config/requirements.lock
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@.config/pip_install.sh "Ansible" 40 .config/requirements.lock
	@touch $@

$(VENV)/.test: .config/requirements-test.lock | $(VENV)/.run
	@.config/pip_install.sh "the test tools" 75 .config/requirements-test.lock
	@touch $@
