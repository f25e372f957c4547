#!/bin/sh
# Says in one sentence what this machine lacks, before anything is changed. Installs only what Python needs to make a virtual environment.
# Usage: preflight.sh PYTHON FREE_MIB_DISK FREE_MIB_MEMORY
set -eu
python=$1 disk=$2 memory=$3

fail() { echo "storlab.testbed: $1" >&2; exit 1; }

[ "$(uname -s)" = Linux ] || fail "this machine runs $(uname -s), and the embedded testbed needs Linux: run it on Debian or Ubuntu."
command -v apt-get >/dev/null || fail "apt-get was not found: the embedded testbed is built from Debian or Ubuntu packages, so run it there."
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "you are not root and sudo was not found: run make as root, or install sudo."
    sudo -v || fail "sudo did not give you root rights: run make as root, or as a user whom sudo lets."
fi
command -v "$python" >/dev/null || fail "$python was not found: install Python 3.11 or newer, or name one with PYTHON=..."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" -V 2>&1), and 3.11 or newer is needed: name another with PYTHON=..."
free_disk=$(df -Pm . | awk 'NR == 2 {print $4}')
[ "$free_disk" -ge "$disk" ] || fail "$(pwd) has $free_disk MiB free, and $disk MiB are needed: make room or clone to another disk."
free_memory=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
[ "$free_memory" -ge "$memory" ] || fail "$free_memory MiB of memory are available, and $memory MiB are needed: end other programs or use a larger machine."
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    as_root=''; [ "$(id -u)" = 0 ] || as_root=sudo
    echo "Installing the package python3-venv"
    $as_root apt-get install -qq -y python3-venv >/dev/null ||
        fail "the package python3-venv could not be installed: run 'apt-get update' and 'apt-get install python3-venv'."
fi
