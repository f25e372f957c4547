#!/bin/sh
# Installs pinned Python packages into .venv. When that fails it says so in one sentence; what pip said is kept in a file.
# Usage: pip_install.sh WHAT USUAL_SECONDS LOCK
set -u
mkdir -p .cache
.config/with_progress.sh "Installing $1 into .venv" "$2" sh -c \
    '.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$1" >.cache/pip.log 2>&1' - "$3" && exit 0
reason=$(grep -m 1 -oE 'NewConnectionError.*|ProxyError.*|SSLError.*|Name or service not known.*|THESE PACKAGES DO NOT MATCH.*|No space left.*' .cache/pip.log |
    cut -c 1-160 || true)
echo "storlab.testbed: the Python packages of $3 could not be installed${reason:+ ($reason)}:" \
    "look whether this machine reaches the package index, set https_proxy or PIP_INDEX_URL if it needs them, and run this again." \
    "All that pip said is in .cache/pip.log." >&2
exit 1
