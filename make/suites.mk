# Suites that are not part of `make test`: they take long, need other machines, or look at the tests themselves.
.PHONY: sanity
sanity: setup-tools ## ansible-test sanity on what is published, as far as it needs only the package index; OPTIONS="--test pep8" for one test
	@.ci/sanity $(OPTIONS)

.PHONY: matrix
matrix: ## Every supported ansible-core with every Python of this machine that it runs on, and hosts' code on Python 3.9; CELLS="core2.20-python3.12" for some
	@.ci/matrix $(CELLS)

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
interrupted: setup-test ## Kill the controller before and after every task of build, benchmark and teardown, against stand-ins (an hour or more); SEED=number CELLS=number
	nice $(AS_ROOT) env E1_CUT=yes E1_SEED=$(SEED) pytest -s -k cut tests/integration/test_e1_windows_simulated.py
	nice python tests/tools/interrupted.py --seed $(SEED) --jobs $(JOBS) $(if $(CELLS),--cells $(CELLS))

# CELLS=number takes as many of the cells.
.PHONY: faults
faults: setup-test ## Stop, kill, cut off, fill and set parts of embedded labs, of stand-ins and of this machine while they are built, measured and removed (hours); SEED=number CELLS=number
	nice $(AS_ROOT) python tests/tools/faults.py --seed $(SEED) $(if $(CELLS),--cells $(CELLS))

# CELLS="name name" takes some of them. Those that failed are named at the end; none stops the others.
.PHONY: scenarios
scenarios: setup-test ## The scenarios that `make test` leaves out, one after another (hours); CELLS="raid engine" takes some
	@failed=; for name in $(or $(CELLS),$(LEFT_OUT)); do $(MAKE) --no-print-directory molecule SCENARIO="$$name" || failed="$$failed $$name"; done; \
	    test -z "$$failed" || { echo "Failed:$$failed"; exit 1; }

# CELLS=name takes one of the cells, CELLS=name,name or a regular expression some.
.PHONY: trials
trials: setup-test ## Restart, cut off, fill and share the machines of embedded labs while they are built and taken down (3 hours); SEED=number CELLS=name
	nice $(AS_ROOT) python tests/tools/trials.py --seed $(SEED) $(if $(CELLS),--cells '$(CELLS)')

.PHONY: soak
soak: setup-test ## Build, benchmark and teardown of one embedded lab again and again, and what each cycle leaves (3 minutes per cycle); CYCLES=number (100)
	nice $(AS_ROOT) python tests/tools/soak.py $(if $(CYCLES),--cycles $(CYCLES))

# Steps of the workflow on this machine; the tag is compared at a release only. actionlint comes by the Go modules where there is a go.
FILE ?= release.yml
JOB ?= build
.PHONY: workflows
workflows: setup-tools ## actionlint on the workflows, then the steps of one that need no service; FILE=ci.yml JOB=unit takes another
	@if command -v go >/dev/null; then GOBIN="$(CURDIR)/.cache/bin" GOFLAGS=-modcacherw go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 \
	    && .cache/bin/actionlint .github/workflows/*.yml; else echo "Skipped: actionlint, which needs go."; fi
	python tests/tools/run_workflow.py .github/workflows/$(FILE) --job $(JOB) --ref "v$$(sed -n 's/^version: //p' galaxy.yml)" \
	    --without "Compare the tag with the version and the changelog"

# PICTURES=name, or some with spaces between them, draws these pictures of docs/img anew.
.PHONY: tour
tour: setup-tools ## Install the artefact into an empty home and play every command of docs/tour.md, as root; with bare-root TARGET=tour on a minimal Debian
	@rm -rf .cache/tour && mkdir -p .cache/tour
	ansible-galaxy collection build --force --output-path .cache/tour
	$(AS_ROOT) python tests/tools/play_tour.py .cache/tour/storlab-testbed-*.tar.gz $(PICTURES)

.PHONY: bare-root
bare-root: ## `make test` of a fresh clone on a minimal Debian, by a user with sudo; TARGET=unit tries another target, SUITE=trixie another Debian than 12
	@BARE_ROOT_SUITE=$(SUITE) .ci/bare_root $(TARGET)
