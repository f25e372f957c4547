#!/bin/sh
# Says in one sentence what this machine lacks, before anything is changed. Installs only what Python needs to make a virtual environment.
# Usage: preflight.sh tools|lab PYTHON FREE_MIB_DISK FREE_MIB_MEMORY
#   tools   lint and unit tests: any machine that has Python
#   lab     the embedded testbed and the tests that need root or programs of the distribution
set -eu
what=$1 python=$2 disk=$3 memory=$4

fail() { echo "storlab.testbed: $1" >&2; exit 1; }
may_be_root() {
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo >/dev/null || fail "you are not root and sudo was not found: run make as root, or install sudo."
    sudo -v || fail "sudo did not give you root rights: run make as root, or as a user whom sudo lets."
}

if [ "$what" = lab ]; then
    [ "$(uname -s)" = Linux ] || fail "this machine runs $(uname -s), and the embedded testbed needs Linux: run it on Debian or Ubuntu."
    [ "$(uname -m)" = x86_64 ] || fail "this machine is $(uname -m), and the embedded testbed needs x86_64: run it there; make lint and make unit work here."
    command -v apt-get >/dev/null ||
        fail "apt-get was not found: the embedded testbed is built from Debian or Ubuntu packages, so run it there; make lint and make unit work here."
    may_be_root
    free_memory=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
    [ "$free_memory" -ge "$memory" ] ||
        fail "$free_memory MiB of memory are available, and $memory MiB are needed: end other programs or use a larger machine."
fi
command -v "$python" >/dev/null || fail "$python was not found: install Python 3.11 or newer, or name one with PYTHON=..."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" -V 2>&1), and 3.11 or newer is needed: name another with PYTHON=..."
free_disk=$(df -Pm . | awk 'NR == 2 {print $(NF - 2)}')
[ "$free_disk" -ge "$disk" ] || fail "$(pwd) has $free_disk MiB free, and $disk MiB are needed: make room or clone to another disk."
if [ ! -x .venv/bin/python ] && ! "$python" -c 'import ensurepip' 2>/dev/null; then
    command -v apt-get >/dev/null || fail "$python has no module ensurepip: install the package of your distribution that brings it, often python3-venv."
    may_be_root
    as_root=''; [ "$(id -u)" = 0 ] || as_root=sudo
    echo "Installing the package python3-venv"
    # A machine that was never updated knows no packages yet.
    $as_root apt-get install -qq -y python3-venv >/dev/null 2>&1 ||
        { $as_root apt-get update -qq && $as_root apt-get install -qq -y python3-venv; } >/dev/null ||
        fail "the package python3-venv could not be installed: run 'apt-get update' and 'apt-get install python3-venv'."
fi
