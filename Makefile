# The workshop of storlab.testbed. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
SCENARIO ?= chain
INVENTORY ?= inventories/embedded
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
LINK := .cache/collections/ansible_collections/storlab/testbed
TESTS := .cache/junit
# The embedded machines need root: they get a network namespace. What root makes in this folder goes back to the user.
ROOT := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=CI)
WITH_PATH := env PATH="$(BIN):$(PATH)" ANSIBLE_CONFIG="$(CURDIR)/ansible.cfg"
PLAY := $(ROOT) $(WITH_PATH) ansible-playbook -i $(INVENTORY)
GIVE_BACK := $(if $(ROOT),$(ROOT) chown -R $(shell id -u):$(shell id -g) .cache $(wildcard results),true)
export PATH := $(BIN):$(PATH)

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: setup ## Build the embedded testbed, measure every layer, render the report; the testbed stays up
	@$(PLAY) playbooks/build.yml playbooks/benchmark.yml || { $(GIVE_BACK); exit 1; }
	@$(ROOT) $(WITH_PATH) ANSIBLE_CALLBACKS_ENABLED=ansible.posix.timer ansible-playbook -i $(INVENTORY) playbooks/report.yml
	@$(GIVE_BACK)
	@echo "Report: $$(ls -td $(CURDIR)/results/embedded/*/report/index.html | head -n 1)"

.PHONY: demo-down
demo-down: setup ## Take the embedded testbed down, prove that nothing is left, stop its machines
	@$(PLAY) playbooks/teardown.yml playbooks/verify_clean.yml
	@$(PLAY) playbooks/embedded_lab.yml -e testbed_lab_state=absent
	@$(GIVE_BACK)

.PHONY: test
test: setup-test lint ## All tests: lint, unit, integration and molecule; ends with the number that passed
	@rm -rf $(TESTS)
	@$(ROOT) $(WITH_PATH) pytest tests/unit tests/integration --junit-xml=$(TESTS)/pytest.xml
	@$(MAKE) --no-print-directory molecule SCENARIO=--all
	@python tests/count_passed.py $(TESTS)

.PHONY: lint
lint: setup-test docs ## ruff, yamllint, ansible-lint, documentation and changelog checks
	ruff check .
	yamllint --strict .
	ansible-lint --offline --strict
	antsibull-changelog lint

.PHONY: unit
unit: setup-test ## The tests that need no machine
	$(ROOT) $(WITH_PATH) pytest tests/unit

.PHONY: molecule
molecule: setup-test ## The roles on embedded machines; SCENARIO=name runs one, SCENARIO=--all every one
	@$(ROOT) $(WITH_PATH) molecule reset --scenario-name default >/dev/null 2>&1 || true
	@$(ROOT) $(WITH_PATH) molecule test $(if $(filter --all,$(SCENARIO)),--all,--scenario-name $(SCENARIO))
	@$(GIVE_BACK)

.PHONY: docs
docs: setup-test ## Check the reference documentation, and say how to read it
	antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
	@echo "Read it with: . $(VENV)/bin/activate && ansible-doc -l storlab.testbed"

.PHONY: clean
clean: ## Remove all that the project made: testbeds, machines, images, results, virtual environment
	@if test -x $(BIN)/ansible-playbook; then for state in .cache/testbeds/*/; do \
	    test -d "$$state" || continue; \
	    $(PLAY) playbooks/embedded_lab.yml -e testbed_lab_state=absent -e testbed_id=$$(basename "$$state"); done; fi
	@$(ROOT) rm -rf .cache .ansible .hypothesis .venv results

.PHONY: lock
lock: ## Pin the newest dependencies that .config/requirements*.in allow
	@$(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet pip-tools
	@cd .config && for name in requirements requirements-test; do ../.cache/lock/bin/pip-compile --quiet --upgrade --generate-hashes --strip-extras \
	    --allow-unsafe --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file $$name.lock $$name.in; done

.PHONY: setup setup-test preflight
setup: preflight $(VENV)/.run $(LINK)
setup-test: preflight $(VENV)/.test $(LINK) test-packages

# What the tests use besides: a browser for the report, fio and an iSCSI target to run on this machine itself.
.PHONY: test-packages
test-packages:
	@missing=; for need in chromium:chromium fio:fio blkid:util-linux tgtd:tgt; do \
	    PATH="$(PATH):/usr/sbin:/sbin" command -v "$${need%%:*}" >/dev/null || missing="$$missing $${need##*:}"; done; \
	if test -n "$$missing"; then echo "Installing$$missing"; $(ROOT) apt-get update -qq; \
	    DEBIAN_FRONTEND=noninteractive $(ROOT) apt-get install -qq -y --no-install-recommends $$missing >/dev/null; fi

preflight:
	@.config/preflight.sh $(PYTHON) 6000 3500

$(LINK):
	@mkdir -p $(@D) && ln -sfn ../../../.. $@

$(VENV)/.run: .config/requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@.config/with_progress.sh "Installing Ansible into $(VENV)" 40 $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r .config/requirements.lock
	@touch $@

$(VENV)/.test: .config/requirements-test.lock | $(VENV)/.run
	@.config/with_progress.sh "Installing the test tools into $(VENV)" 75 $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r .config/requirements-test.lock
	@touch $@
