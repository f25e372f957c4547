# What the other recipes need, pinned and installed in this folder, and how it goes again.
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
