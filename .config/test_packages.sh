#!/bin/sh
# Installs the Debian packages of .config/test-packages.txt whose programs are missing.
set -u
PATH="$PATH:/usr/sbin:/sbin"
# Debian keeps PostgreSQL's programs apart, a folder a version.
for folder in /usr/lib/postgresql/*/bin; do PATH="$PATH:$folder"; done
missing=$(grep -v '^#' .config/test-packages.txt | while read -r program package _unit; do
    command -v "$program" >/dev/null || echo "$package"
done | sort -u | tr '\n' ' ')
[ -n "$missing" ] || exit 0
as_root=''; [ "$(id -u)" = 0 ] || as_root="sudo --preserve-env=http_proxy,https_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY"
echo "Installing the packages $missing"
# shellcheck disable=SC2086 # names of packages are words
$as_root apt-get update -qq >.cache/apt.log 2>&1 &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >>.cache/apt.log 2>&1 && exit 0
echo "storlab.testbed: the packages ${missing}could not be installed: look whether this machine reaches its package mirror, and run this again." \
    "All that apt-get said is in .cache/apt.log." >&2
exit 1
