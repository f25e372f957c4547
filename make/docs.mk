# The documentation: checked, and as a site.
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

.PHONY: changelog
changelog: VERSION = $(shell sed -n 's/^version: //p' galaxy.yml)
changelog: setup-tools ## Fold changelogs/fragments into CHANGELOG.md, in the version of galaxy.yml, unless that has a tag
	@if git rev-parse --quiet --verify "refs/tags/v$(VERSION)" >/dev/null; then echo "v$(VERSION) is released. Raise the version in galaxy.yml first." >&2; exit 1; fi
	antsibull-changelog release --update-existing --date "$$(date -u +%F)"
	@.ci/release.py check v$(VERSION)
