# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk image the machines of the embedded lab boot: one read-only Debian root, a kernel, a small initial RAM disk, SSH keys.

An image lives in ``<image_dir>/<hash of its recipe>`` and is complete or not there: it is built in a folder of its own and renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import naming, write_json, write_whole
from ..linux import mounts

SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "image_dir": {"type": "path", "required": True},
    "recipe_dir": {"type": "path"},
    "packages": {"type": "list", "elements": "str", "default": []},
}
# Part of the recipe's hash: raise it when the code below makes a different image from the same files.
FORMAT = 1
RECIPE_FILES = (
    "init",
    "inittab",
    "kernel_hook",
    "labinit",
    "packages.txt",
    "python_client",
    "python_server.py",
    "sitecustomize.py",
    "sshd_config",
)
SUITE = "bookworm"
# As Debian's policy has it, section 5.6.1. The further forms of apt (name=version, name:architecture, name-, ?pattern) are not names.
PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")
# The modules that must be there before the root disk can be mounted and the network can be used; their dependencies are added.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4", "overlay")
HOST_KEY_ALIAS = "storlab-lab"
# Share of the whole build done when a phase begins, seen on two cores; only the remaining time shown depends on it.
PHASES = (
    ("running apt-get update", 0.02),
    ("downloading packages", 0.10),
    ("extracting archives", 0.17),
    ("installing essential packages", 0.22),
    ("installing remaining packages", 0.45),
    ("adding the kernel", 0.80),
    ("cleaning up", 0.88),
    ("making the initial RAM disk", 0.92),
    ("making the root disk", 0.94),
    ("done", 1.0),
)
NOMINAL_S = 45


def recipe_hash(recipe: dict[str, Any]) -> str:
    """Identity of an image: the hash of everything it is made from. ``recipe``: file name -> bytes."""
    digest = hashlib.sha256(f"format {FORMAT}\nsuite {SUITE}\n".encode())
    for name in sorted(recipe):
        digest.update(f"{name} {len(recipe[name])}\n".encode() + recipe[name])
    return digest.hexdigest()


def read_recipe(folder: str, packages: list[str]) -> dict[str, Any]:
    """The packages of an image, with packages beside the recipe's own; raises recipe_missing or bad_value."""
    recipe = {}
    for name in RECIPE_FILES:
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            raise Failure(
                "recipe_missing",
                f"The image recipe {folder} has no file {name}.",
                "Point recipe_dir at the role's files/image.",
                path=path,
            )
        with open(path, "rb") as stream:
            recipe[name] = stream.read()
    return with_packages(recipe, packages)


def with_packages(recipe: dict[str, Any], packages: list[str]) -> dict[str, Any]:
    """The recipe with further packages; raises bad_value. Without any that it lacks it is the same, byte for byte, and so is its image."""
    for package in packages:
        if not PACKAGE_NAME.fullmatch(package):
            raise bad_value(
                "embedded_lab_image_packages",
                package,
                f"Use names of packages of Debian ({SUITE}): lower-case letters, digits, +, - and dots, without a version.",
            )
    lacking = sorted(set(packages) - set(package_list(recipe["packages.txt"].decode())))
    more = "".join(f"{package}\n" for package in lacking)
    return {**recipe, "packages.txt": recipe["packages.txt"] + more.encode()} if lacking else recipe


def package_list(text: str) -> list[str]:
    """One package a line, ``#`` begins a comment."""
    return sorted({line.split("#")[0].strip() for line in text.splitlines()} - {""})


def parse_modules_dep(text: str) -> dict[str, tuple[str, list[str]]]:
    """modules.dep as {module name: (path, [paths it needs])}, all paths relative to the modules folder."""
    table = {}
    for line in text.splitlines():
        path, _, needs = line.partition(":")
        table[module_name(path)] = (path, needs.split())
    return table


def module_name(path: str) -> str:
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def load_order(wanted: tuple[object, ...], table: dict[str, tuple[str, list[str]]], builtin: set[str]) -> list[str]:
    """Paths to insmod, dependencies first. Modules built into the kernel need no loading."""
    order = []

    def add(path: str) -> None:
        for needed in table[module_name(path)][1]:
            add(needed)
        if path not in order:
            order.append(path)

    for name in wanted:
        if name in builtin:
            continue
        if name not in table:
            raise Failure(
                "kernel_module_missing",
                f"The kernel of the image has no module {name}.",
                "Use a kernel package that has it.",
                module=name,
            )
        add(table[name][0])
    return order


def newc(entries: list[Any]) -> bytes:
    """A cpio archive of the form the kernel unpacks. ``entries``: (path, mode with type bits, content)."""
    archive = bytearray()
    for number, (path, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        name = path.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        archive += b"\0" * (-len(archive) % 4) + content
        archive += b"\0" * (-len(archive) % 4)
    return bytes(archive)


def remaining_s(share: float, entered_s: float, elapsed_s: float) -> int:
    """Seconds left, ``elapsed_s`` into a build whose present phase began at ``entered_s`` with ``share`` of the work done.

    How fast this host is shows at the beginning of a phase; while too little is known the nominal time counts.
    """
    total_s = entered_s / share if share >= 0.1 else NOMINAL_S
    return max(1, round(total_s - elapsed_s))


def phase_of(line: str) -> str | None:
    """The phase a line of mmdebstrap's output begins."""
    aliases = (("adding the kernel", "running --customize-hook"), ("cleaning up", "cleaning package lists"))
    for phase, marker in (*aliases, *((name, name) for name, dummy in PHASES)):
        if marker in line:
            return phase
    return None


class Progress:
    """Tells a watcher, through a small file that is replaced whole, what the build does now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.started = time.time()

    def enter(self, phase: str) -> None:
        document = {
            "phase": phase,
            "share": dict(PHASES).get(phase, 0.0),
            "started": self.started,
            "entered": time.time(),
        }
        write_json(self.path, document)


@contextlib.contextmanager
def locked(image_dir: str, progress: Progress, timeout_s: int = 900) -> Iterator[Any]:
    """One build at a time in one folder. The tools a build starts inherit the lock, so it is free only when they have ended too."""
    with open(os.path.join(image_dir, ".lock"), "w", encoding="utf-8") as handle:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Failure(
                        "image_locked",
                        f"Another image build in {image_dir} has not ended within {timeout_s} s.",
                        "Wait for it, or end it, and run this again.",
                        image_dir=image_dir,
                    ) from None
                progress.enter("waiting for another build")
                time.sleep(0.5)
        progress.started = time.time()
        yield handle.fileno()


def image_problem(folder: str) -> str | None:
    """Why the folder is not a complete image; None when it is one."""
    try:
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as stream:
            manifest = json.load(stream)
    except FileNotFoundError:
        return "it has no manifest.json"
    except ValueError:
        manifest = None
    if not (isinstance(manifest, dict) and isinstance(manifest.get("files"), dict) and "kernel" in manifest):
        return "its manifest.json is damaged"
    for name, size_bytes in manifest["files"].items():
        path = os.path.join(folder, name)
        if not os.path.isfile(path) or os.path.getsize(path) != size_bytes:
            return f"{name} is not there with its {size_bytes} bytes"
    return None


def remove_tree(path: str) -> None:
    """Remove a folder, but never look into another file system that is mounted somewhere in it."""
    real = os.path.realpath(path)
    inside = mounts.inside(mounts.read(), real)
    if inside:
        raise Failure(
            "mounted_inside",
            f"{real} cannot be removed, {inside[0]} is mounted in it.",
            f"Unmount {inside[0]} and run this again.",
            path=real,
            mounts=inside,
        )
    shutil.rmtree(real)


def tree_kib(path: str) -> int:
    """The space of a folder and all in it on disk."""
    paths = [path] + [
        os.path.join(folder, name) for folder, folders, files in os.walk(path) for name in folders + files
    ]
    return sum(os.lstat(entry).st_blocks for entry in paths) // 2


def left_overs(image_dir: str) -> list[str]:
    return sorted(entry for entry in os.listdir(image_dir) if entry.startswith(".building-"))


def run(argv: list[Any], log_path: str, lock_fd: int, on_line: Any = None, env: dict[str, Any] | None = None) -> None:
    """Run a tool, copy what it says to the log, and fail with the end of what it said."""
    with naming(log_path), open(log_path, "a", encoding="utf-8") as log:
        log.write(f"+ {' '.join(argv)}\n")
        log.flush()
        tail: list[Any] = []
        # Tools of the administrator are not on every user's search path, and never on the one chroot inherits.
        path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin", "/sbin", "/bin"])
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                pass_fds=(lock_fd,),
                env={**os.environ, "PATH": path, "LC_ALL": "C", **(env or {})},
            )
        except OSError as error:
            raise Failure(
                "tool_missing",
                f"{argv[0]} could not be started: {error.strerror}.",
                "Install it on the controller.",
                argv=argv,
            ) from error
        for line in process.stdout or ():
            log.write(line)
            log.flush()
            tail = [*tail[-14:], line.rstrip()]
            if on_line:
                on_line(line)
        if process.wait() != 0:
            raise Failure(
                "image_build",
                f"Building the machines' image failed: {argv[0]} ended with {process.returncode}: {' | '.join(tail[-4:])}.",
                f"Read {log_path}, correct the cause and run this again.",
                argv=argv,
                log=log_path,
                tail=tail,
            )


def configure_root(root: str, recipe: dict[str, Any], public_key: str) -> None:
    """The files that no package brings: our init, sshd's configuration, the key that may log in."""
    places = {
        "inittab": ("etc/inittab", 0o644),
        "labinit": ("sbin/labinit", 0o755),
        "python_client": ("usr/local/bin/python-client", 0o755),
        "python_server.py": ("usr/local/lib/python_server.py", 0o644),
        "sitecustomize.py": ("usr/local/lib/python3.11/dist-packages/sitecustomize.py", 0o644),
        "sshd_config": ("etc/ssh/sshd_config", 0o644),
    }
    # Debian's own sitecustomize is empty and would be found first.
    os.unlink(os.path.join(root, "usr/lib/python3.11/sitecustomize.py"))
    for name, (path, mode) in places.items():
        write_whole(os.path.join(root, path), recipe[name], mode)
    os.makedirs(os.path.join(root, "root/.ssh"), mode=0o700, exist_ok=True)
    write_whole(os.path.join(root, "root/.ssh/authorized_keys"), public_key.encode())


def make_initrd(root: str, release: str, init: bytes, path: str) -> None:
    folder = os.path.join(root, "lib/modules", release)
    with open(os.path.join(folder, "modules.dep"), encoding="utf-8") as stream:
        table = parse_modules_dep(stream.read())
    with open(os.path.join(folder, "modules.builtin"), encoding="utf-8") as stream:
        builtin = {module_name(line.strip()) for line in stream}
    order = load_order(BOOT_MODULES, table, builtin)
    entries = [(name, 0o040755, b"") for name in ("bin", "dev", "modules", "proc", "sys")]
    entries.append(("init", 0o100755, init))
    with open(os.path.join(root, "bin/busybox"), "rb") as stream:
        entries.append(("bin/busybox", 0o100755, stream.read()))
    for module in order:
        with open(os.path.join(folder, module), "rb") as stream:
            entries.append((f"modules/{os.path.basename(module)}", 0o100644, stream.read()))
    entries.append(("modules/order", 0o100644, "".join(f"{os.path.basename(module)}\n" for module in order).encode()))
    write_whole(path, gzip.compress(newc(entries), compresslevel=6, mtime=0))


def build(recipe_dir: str, packages: list[str], image_dir: str, progress: Progress, lock_fd: int) -> str:
    """Build the image and return its folder. packages: beside the recipe's own."""
    recipe = read_recipe(recipe_dir, packages)
    identity = recipe_hash(recipe)
    final = os.path.join(image_dir, identity)
    work = tempfile.mkdtemp(prefix=".building-", dir=image_dir)
    log = os.path.join(image_dir, "build.log")
    root, out = os.path.join(work, "root"), os.path.join(work, "image")
    os.makedirs(os.path.join(out, "ssh"), mode=0o700)
    write_whole(log, f"image {identity}\n".encode())

    def on_line(line: str) -> None:
        phase = phase_of(line)
        if phase:
            progress.enter(phase)

    excludes = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "info", "locale", "man")]
    # TMPDIR: mmdebstrap makes scratch files where it likes; here they go away with the folder.
    # A mount namespace of its own: mmdebstrap mounts /proc, /sys and the host's own /dev/shm into the root. Were it killed outside, these would
    # stay, and whoever removed the folder would reach through them into the host. Here they go with the last process.
    private = ["unshare", "--mount", "--propagation", "private", "--"]
    run(
        [
            *private,
            "mmdebstrap",
            "--variant=essential",
            "--format=directory",
            f"--include={','.join(package_list(recipe['packages.txt'].decode()))}",
            *excludes,
            f"--customize-hook={os.path.join(recipe_dir, 'kernel_hook')}",
            SUITE,
            root,
        ],
        log,
        lock_fd,
        on_line,
        env={"TMPDIR": work},
    )

    progress.enter("making the initial RAM disk")
    key = os.path.join(out, "ssh", "id_ed25519")
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", HOST_KEY_ALIAS, "-f", key], log, lock_fd)
    with open(key + ".pub", encoding="utf-8") as stream:
        configure_root(root, recipe, stream.read())
    with open(os.path.join(root, "etc/ssh/ssh_host_ed25519_key.pub"), encoding="utf-8") as stream:
        kind, host_key = stream.read().split()[:2]
    write_whole(os.path.join(out, "ssh", "known_hosts"), f"{HOST_KEY_ALIAS} {kind} {host_key}\n".encode())
    (release,) = os.listdir(os.path.join(root, "lib/modules"))
    run(["chroot", root, "depmod", release], log, lock_fd)
    make_initrd(root, release, recipe["init"], os.path.join(out, "initrd.img"))
    shutil.move(os.path.join(root, "boot", f"vmlinuz-{release}"), os.path.join(out, "vmlinuz"))
    shutil.rmtree(os.path.join(root, "boot"))

    progress.enter("making the root disk")
    used_kib = tree_kib(root)
    # No journal: the file system is never written again. Inodes and tables need a tenth on top.
    run(
        [
            "mke2fs",
            "-q",
            "-t",
            "ext4",
            "-O",
            "^has_journal",
            "-m",
            "0",
            "-L",
            "storlab-root",
            "-d",
            root,
            os.path.join(out, "root.ext4"),
            f"{used_kib + used_kib // 8 + 16384}k",
        ],
        log,
        lock_fd,
    )
    with open(os.path.join(root, "var/lib/dpkg/status"), encoding="utf-8") as stream:
        versions = parse_status(stream.read())
    files = {
        name: os.path.getsize(os.path.join(out, name))
        for name in ("initrd.img", "root.ext4", "ssh/id_ed25519", "ssh/known_hosts", "vmlinuz")
    }
    manifest = {
        "format": FORMAT,
        "recipe_sha256": identity,
        "suite": SUITE,
        "kernel": release,
        "packages": versions,
        "files": files,
    }
    write_json(os.path.join(out, "manifest.json"), manifest, indent=1)
    os.chmod(out, 0o700)
    # A folder, which is whole or absent as one.
    os.replace(out, final)
    remove_tree(work)
    return final


def parse_status(text: str) -> dict[str, Any]:
    """Installed packages and their versions from dpkg's status file."""
    versions = {}
    for paragraph in text.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and not line.startswith(" ")
        )
        if "Package" in fields and fields.get("Status", "").endswith(" installed"):
            versions[fields["Package"]] = fields.get("Version", "")
    return versions


def present(params: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    image_dir = params["image_dir"]
    identity = recipe_hash(read_recipe(params["recipe_dir"], params["packages"]))
    folder = os.path.join(image_dir, identity)
    result: dict[str, Any] = {"changed": False, "image": {"path": folder, "recipe_sha256": identity}}
    problem = image_problem(folder)
    result["diff"] = {"before": "" if problem else f"{folder}\n", "after": f"{folder}\n"}
    if problem and check_mode:
        return {**result, "changed": True}
    if problem:
        os.makedirs(image_dir, exist_ok=True)
        progress = Progress(os.path.join(image_dir, ".progress"))
        with locked(image_dir, progress) as lock_fd:
            for entry in left_overs(image_dir):
                remove_tree(os.path.join(image_dir, entry))
            # Another build may have made it while this one waited.
            if image_problem(folder):
                if os.path.isdir(folder):
                    remove_tree(folder)
                began = time.monotonic()
                build(params["recipe_dir"], params["packages"], image_dir, progress, lock_fd)
                result.update(changed=True, build_s=round(time.monotonic() - began, 1))
            # There is none where another build made the image and this one did not even have to wait.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(progress.path)
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as stream:
        result["image"]["kernel"] = json.load(stream)["kernel"]
    return result


def absent(params: dict[str, Any], check_mode: bool) -> dict[str, object]:
    there = os.path.isdir(params["image_dir"])
    if there and not check_mode:
        with locked(params["image_dir"], Progress(os.path.join(params["image_dir"], ".progress"))):
            remove_tree(params["image_dir"])
    return {"changed": there, "diff": {"before": f"{params['image_dir']}\n" if there else "", "after": ""}}


def ensure(params: dict[str, object], check_mode: bool) -> dict[str, Any]:
    return (present if params["state"] == "present" else absent)(params, check_mode)
