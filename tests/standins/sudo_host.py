# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that is reached with ordinary rights: a real SSH server, sudo, su and PAM of this machine, in mount and network namespaces of their own.

The users, passwords and rights are files of the test that lie over those of the machine there; nothing of the machine is changed. The host greets: a
banner, a .bashrc that prints, sudo with a lecture and a line of its own, umask 077, a home that its user may not write to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab_plays import Lab
from places import ROOT
from waiting import until

USER = "labuser"
USERS_PASSWORD, ROOTS_PASSWORD = "storlab-lab-7", "storlab-root-9"
# crypt(3) of these, whose module newer Pythons lack.
HASHES = {
    USER: "$6$storlabsalt$gDKRSm3YOlILN.v91X95VXhfmjZtwWYvBxcZmwSd680GsdCf6ju6nOAnFBLoh.2/H.CKEEB9UPFas3IXcgEWH0",
    "root": "$6$storlabtlas$eCP4m83uQxwVgDPK0V9qIzqXz2W9G0iD0QKd0qvhKQN7huoOEfcFNb68zQT2kwsMKHmfN9fz8GjIDm/E44Y0m/",
}
UID, PORT = 61234, 2222
NOISE = "Property of the lab, all use is recorded"
# Over what the test and its interpreter lie in nothing may be mounted.
TOP = next(
    folder
    for folder in ("/mnt", "/media", "/srv")
    if os.path.isdir(folder) and not any(Path(path).is_relative_to(folder) for path in (ROOT, sys.prefix))
)
HOME, TMP = f"{TOP}/home", f"{TOP}/tmp"
SUDOERS = """Defaults requiretty, lecture=always, passwd_tries=1, umask=0077, umask_override
root ALL=(ALL:ALL) ALL
"""
PASSWORD, NO_PASSWORD = f"{USER} ALL=(ALL:ALL) ALL\n", f"Defaults !requiretty\n{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n"
FILES = {
    "passwd": f"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n{USER}:x:{UID}:{UID}::{HOME}:/bin/bash\n",
    "shadow": "".join(f"{name}:{HASHES[name]}:19000:0:99999:7:::\n" for name in ("root", USER)),
    "group": f"root:x:0:\ntty:x:5:\ndisk:x:6:\nnogroup:x:65534:\n{USER}:x:{UID}:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
    "pam.d/sudo": f"auth required pam_unix.so\naccount required pam_unix.so\nsession optional pam_echo.so {NOISE}\nsession required pam_permit.so\n",
    "pam.d/su": "auth required pam_unix.so\naccount required pam_unix.so\nsession required pam_permit.so\n",
    "pam.d/other": "auth required pam_deny.so\naccount required pam_deny.so\nsession required pam_deny.so\n",
}
# Each file lies over that of the machine. What logins and sudo write down stays here as well.
SCRIPT = """set -eu
mount --make-rprivate /
ip link set lo up
for name in passwd shadow group nsswitch.conf sudoers pam.d; do mount --bind "$1/$name" "/etc/$name"; done
for folder in /run /var/log /var/lib/sudo; do [ ! -d "$folder" ] || mount -t tmpfs -o mode=0755 none "$folder"; done
mount -t tmpfs -o mode=0755 none "$2"
mkdir -m 0755 "$2/home" "$2/home/.ssh"
mkdir -m 1777 "$2/tmp"
cp "$1/key.pub" "$2/home/.ssh/authorized_keys"
cp "$1/bashrc" "$2/home/.bashrc"
chmod 0644 "$2/home/.ssh/authorized_keys" "$2/home/.bashrc"
umask 077
exec dropbear -F -E -s -w -b "$1/banner" -r "$1/host_key" -P "$2/pid" -p "127.0.0.1:$3"
"""
CONFIGURATION = f"""[defaults]
collections_path = {ROOT}/.cache/collections
inject_facts_as_vars = false
stdout_callback = ansible.posix.json
timeout = 60
"""


class SudoHost(Lab):
    """target01 is that host. become: variables of the inventory, of how root is reached there."""

    def __init__(self, name: str, folder: Path, rights: str, become: dict[str, Any]):
        self.etc = folder / "etc"
        # The files lie over those of the machine, so everybody there reads them.
        (self.etc / "pam.d").mkdir(parents=True)
        for path, text in {**FILES, "sudoers": SUDOERS + rights, "banner": "Welcome.\n", "bashrc": ""}.items():
            (self.etc / path).write_text(text, encoding="utf-8")
        (self.etc / "bashrc").write_text(f"umask 077\necho {NOISE}\necho {NOISE} >&2\n", encoding="utf-8")
        for path, mode in (("", 0o755), ("pam.d", 0o755), ("shadow", 0o600), ("sudoers", 0o440)):
            (self.etc / path).chmod(mode)
        keys = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(self.etc / "key")]
        subprocess.run(keys, check=True)
        kind = ["dropbearkey", "-t", "ed25519", "-f", str(self.etc / "host_key")]
        subprocess.run(kind, check=True, capture_output=True)
        options = f"-i {self.etc}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o IdentitiesOnly=yes"
        variables = {
            "testbed_id": name,
            "testbed_state_dir": str(folder / "state"),
            "testbed_results_dir": str(folder / "results"),
            "testbed": {"disks": [{"name": "bench", "size": "16MiB"}]},
            "ramdisk_provider": "tmpfs",
            "benchmark_install_packages": False,
            "benchmark_progress": "none",
            "benchmark_workloads": [{"block_size": 4096, "ramp_s": 0, "runtime_s": 1}],
            "ansible_host": "127.0.0.1",
            "ansible_port": PORT,
            "ansible_user": USER,
            "ansible_ssh_common_args": options,
            "ansible_control_path_dir": str(folder / "cp"),
            "ansible_ssh_transfer_method": "piped",
            "ansible_remote_tmp": f"{TMP}/.ansible",
            "ansible_python_interpreter": sys.executable,
            "ansible_become": True,
            **become,
        }
        super().__init__(
            name, folder, {"all": {"children": {"targets": {"hosts": {"target01": variables}}}}}, CONFIGURATION
        )

    @contextlib.contextmanager
    def up(self) -> Iterator[SudoHost]:
        log = (self.folder / "dropbear.log").open("wb")
        words = ["unshare", "--mount", "--net", "sh", "-c", SCRIPT, "sh", str(self.etc), TOP, str(PORT)]
        with log, subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as server:
            try:
                until(lambda: server.poll() is not None or self._listens(server.pid))
                assert server.poll() is None, (self.folder / "dropbear.log").read_text(encoding="utf-8")
                self.prefix = (
                    "nsenter",
                    f"--mount=/proc/{server.pid}/ns/mnt",
                    f"--net=/proc/{server.pid}/ns/net",
                    f"--wd={ROOT}",
                )
                yield self
            finally:
                server.terminate()

    @staticmethod
    def _listens(pid: int) -> bool:
        rows = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        return any(row.split()[1] == f"0100007F:{PORT:04X}" for row in rows)

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of root's in the host."""
        return subprocess.run([*self.prefix, *words], capture_output=True, text=True, check=False)

    def rights(self, text: str) -> None:
        """Give the user other rights: in place, because the file lies over that of the machine."""
        (self.etc / "sudoers").chmod(0o640)
        (self.etc / "sudoers").write_text(SUDOERS + text, encoding="utf-8")
        (self.etc / "sudoers").chmod(0o440)

    def remove(self) -> None:
        shutil.rmtree(self.folder)
