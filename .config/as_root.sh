#!/bin/sh
# Runs a command as root, with the tools of .venv and with what tells programs the way to the network. The embedded machines need it: they get
# a network namespace. What root makes in this folder goes back to the user, whether the command succeeds or not.
# Usage: as_root.sh COMMAND...     in the folder of the checkout
set -u
keep=CI,PWSH,SAMPLE_SEED,ANSIBLE_CALLBACK_PLUGINS,EXECUTED_TASKS
for name in http_proxy https_proxy ftp_proxy all_proxy no_proxy; do
    keep="$keep,$name,$(echo "$name" | tr '[:lower:]' '[:upper:]')"
done
for name in SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GOPROXY GOSUMDB GONOSUMDB GOFLAGS; do keep="$keep,$name"; done
# sudo has a PATH of its own, and drops the rest of the environment. The user's PATH may lack what only root runs, such as tgtd and mkfs.
set -- env PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" ANSIBLE_CONFIG="$PWD/ansible.cfg" "$@"
[ "$(id -u)" != 0 ] || exec "$@"
sudo --preserve-env="$keep" "$@"
status=$?
for folder in .cache .ansible .hypothesis results inventories/*/.state; do
    [ ! -e "$folder" ] || sudo chown -R --no-dereference "$(id -u):$(id -g)" "$folder"
done
exit "$status"
