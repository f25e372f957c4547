# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of the expansion, read from Ansible's inventory and from the controller; and the secrets, made once."""

from __future__ import annotations

import json
import os
import re
import secrets
import string
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.parsing.vault import EncryptedString

from ...module_utils.core.failure import Failure
from ...module_utils.core.files import naming
from ...module_utils.core.layers import SHAPE
from ...module_utils.core.shape import misfit
from ...module_utils.engines.catalogue import ENGINES
from ...module_utils.workload.profile import find as find_profile
from ...module_utils.workload.profile import names as profile_names
from ...module_utils.workload.wanted import wanted_workloads
from .description import CONNECTION
from .nouns import Published
from .shape import Problem, did_you_mean

ROOT = Path(__file__).resolve().parents[3]
PROFILES = str(ROOT / "roles" / "benchmark" / "files" / "profiles")
# Only whether it is there matters here, and which host it names: it holds a password, which may need a vault that is not open.
PRESENT_ONLY = ("testbed_esxi", "esxi_network_login")
SECRETS = {"chap": 16, "mutual_chap": 15, "nbd": 32}
# The words of an error of Ansible that has to do with its vault.
VAULT = re.compile(r"vault|decrypt", re.I)
# The options of the command line, and where Ansible keeps what they say.
TAGS = {"--tags": "ansible_run_tags", "--skip-tags": "ansible_skip_tags"}
ALWAYS_TAGS = {"all", "always", "never", "tagged", "untagged"}
LETTERS = string.ascii_letters + string.digits


def role_options() -> dict[str, Any]:
    """{role: {variable: option}} of all roles of the collection."""
    result = {}
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        result[path.parents[1].name] = specs["main"]["options"]
    # Known where the engines are.
    result["benchmark"]["benchmark_engine"]["choices"] = list(ENGINES)
    return result


def read(task_vars: dict[str, Any], template: Callable[[Any], Any], roles: dict[str, Any]) -> dict[str, Any]:
    """groups, hosts, others and problems of the whole inventory; see expand.py. template(value) works out a variable of the play."""
    prefixes = ("testbed_", *(f"{role}_" for role in roles))
    hostvars, groups = task_vars["hostvars"], plain(task_vars["groups"])
    problems: dict[Problem, list[str]] = {}
    others: dict[str, list[str]] = {}

    def wanted(name: str) -> bool:
        return name == "testbed" or name in CONNECTION or name.startswith(prefixes)

    hosts = {}
    for host in groups.get("all", []):
        variables, values = hostvars[host], {}
        for name in variables:
            if not wanted(name):
                if not name.startswith(("ansible_", "_")):
                    others.setdefault(name, []).append(host)
                continue
            try:
                values[name] = _login(variables, name) if name in PRESENT_ONLY else plain(variables[name])
            except AnsibleError as error:
                problems.setdefault(unreadable(name, error), []).append(host)
        hosts[host] = values
    # Without an inventory there is what the command line says, and what the playbook does.
    here = hostvars[task_vars["inventory_hostname"]] if hosts else {}
    hosts = hosts or {"localhost": {}}
    # A variable that a playbook sets where it is imported holds for all hosts.
    for name in [name for name in task_vars if wanted(name) and name not in (*CONNECTION, *PRESENT_ONLY)]:
        try:
            value = plain(template(task_vars[name]))
            if name in here and plain(here[name]) == value:
                continue
        except AnsibleError:
            continue
        for values in hosts.values():
            values[name] = value
    named = {group: [host for host in members if host in hosts] for group, members in groups.items()}
    return {
        "groups": {group: members for group, members in named.items() if group not in ("all", "ungrouped")},
        "hosts": hosts,
        "others": others,
        # A fault on all hosts was most likely said once.
        "unreadable": [
            problem if len(where) == len(hosts) else problem.about(f"{problem.variable} of {', '.join(where)}")
            for problem, where in problems.items()
        ],
    }


def _login(variables: Mapping[str, Any], name: str) -> dict[str, str]:
    """That a login is there, and the name that its host goes by: in a vCenter, else at the address."""
    try:
        login = variables[name]
        named = (login.get("esxi_host") or login.get("hostname")) if isinstance(login, Mapping) else None
        return {"is": "set", **({"host": str(named)} if named else {})}
    except AnsibleError:
        return {"is": "set"}


def unreadable(name: str, error: BaseException) -> Problem:
    """Why a variable of the inventory cannot be had. A vault that is closed is named, with the word that it holds."""
    causes = [error]
    while causes[-1].__cause__:
        causes.append(causes[-1].__cause__)
    # The innermost says what it is; those around it say where they met it.
    reason = " ".join(str(getattr(causes[-1], "_original_message", "") or causes[-1]).split())
    if not any(VAULT.search(f"{type(cause).__name__} {cause}") for cause in causes):
        why = f"cannot be evaluated ({reason[:200].rstrip('.')})"
        return Problem(name, None, why, "correct it, or set the variable that it names")
    words = next(filter(None, (encrypted(getattr(cause, "obj", None), name) for cause in causes)), name)
    texts = " ".join(str(cause) for cause in causes)
    if "no vault secrets found" in texts:
        remedy = "give --ask-vault-pass or --vault-password-file"
        return Problem(words, None, "is encrypted with ansible-vault, and no vault password was given", remedy)
    if "could decrypt" in texts:
        remedy = "give the password that it was encrypted with, by --ask-vault-pass or --vault-password-file"
        return Problem(words, None, "is encrypted with ansible-vault, with a different password than was given", remedy)
    why = "is encrypted with ansible-vault and cannot be decrypted"
    return Problem(words, None, why, "encrypt it again with ansible-vault encrypt_string")


def word(problem: Problem) -> str:
    """The variable of an inventory that a problem is about."""
    return re.split(r"[.\[ ]", problem.variable, maxsplit=1)[0]


def encrypted(value: Any, words: str) -> str | None:
    """The words of the first text in a value that a vault holds."""
    if isinstance(value, EncryptedString):
        return words
    if isinstance(value, Mapping):
        inner = [encrypted(part, f"{words}.{key}") for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        inner = [encrypted(part, f"{words}[{index}]") for index, part in enumerate(value)]
    else:
        inner = []
    return next(filter(None, inner), None)


def tags(value: Any) -> set[str]:
    """The tags of everything in a file of plays or tasks, as YAML reads it."""
    if isinstance(value, list):
        return {tag for entry in value for tag in tags(entry)}
    if not isinstance(value, dict):
        return set()
    own = value.get("tags") or []
    inner = {tag for key, entry in value.items() if key != "tags" for tag in tags(entry)}
    return inner | ({own} if isinstance(own, str) else {tag for tag in own if isinstance(tag, str)})


def strange_tags(task_vars: dict[str, Any], inherited: list[str]) -> list[str]:
    """A sentence for each tag of the command line that no task has: with it a playbook does nothing, and says that all is well."""
    given = {option: list(task_vars.get(variable) or []) for option, variable in TAGS.items()}
    if all(set(names) <= ALWAYS_TAGS for names in given.values()):
        return []
    files = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")]
    known = {tag for path in files for tag in tags(yaml.safe_load(path.read_text(encoding="utf-8")))}
    return [
        f"{option} {name}: no task of this collection has that tag; {did_you_mean(name, sorted(known - ALWAYS_TAGS))}"
        for option, names in given.items()
        for name in names
        if name not in {*known, *inherited, *ALWAYS_TAGS}
    ]


def plain(value: Any) -> Any:
    """Ansible's containers and texts as Python's own."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, bool) or value is None:
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def base_dir(task_vars: dict[str, Any]) -> str:
    """The folder beside the inventory: within an inventory folder, Ansible would read state and results as inventory."""
    hostvars = task_vars["hostvars"]
    names = [name for name in task_vars["groups"].get("all", []) if hostvars[name].get("inventory_dir")]
    folder = str(hostvars[names[0]]["inventory_dir"]) if names else os.getcwd()
    inventory_file = str(hostvars[names[0]].get("inventory_file") or "") if names else ""
    whole = any(os.path.isdir(os.path.join(folder, name)) for name in ("group_vars", "host_vars"))
    return os.path.dirname(folder) if whole or Path(inventory_file).stem == "hosts" else folder


def profiles(hosts: dict[str, Any]) -> list[str]:
    own = [folder for values in hosts.values() for folder in values.get("benchmark_profile_dirs") or []]
    return profile_names([PROFILES, *own])


def workloads(hosts: dict[str, Any]) -> dict[str, Any]:
    """{host: [workload]}: the workloads there, as far as they can be worked out; their faults are reported elsewhere."""
    result, known = {}, {}
    for host, own in hosts.items():
        name = own.get("benchmark_profile")
        options = {key: own.get(f"benchmark_{key}") or None for key in ("workload", "workloads", "sweep", "exclude")}
        options["workload" if not name else "workloads"] = None
        folders = [PROFILES, *(own.get("benchmark_profile_dirs") or [])]
        text = repr((name, folders, options))
        if text not in known:
            try:
                profile = find_profile(name, folders, yaml.safe_load) if name else None
                known[text] = wanted_workloads(options, profile) if name or options["workloads"] else []
            except Failure:
                known[text] = []
        result[host] = known[text]
    return result


def published(state_dir: str) -> dict[str, list[Published]]:
    """{host: [layer]} of the layers that an earlier build has published, and that can be measured."""
    result: dict[str, list[Published]] = {}
    for path in sorted(Path(state_dir, "layers").glob("*.json")):
        try:
            layer = json.loads(path.read_text(encoding="utf-8"))
            fits = misfit(layer, {**SHAPE, **dict.fromkeys(("kind", "host", "purpose", "path"), object)}) is None
        except (OSError, ValueError, RecursionError):
            continue
        # A damaged file is named by its reader.
        if fits and layer["path"]:
            result.setdefault(layer["host"], []).append(
                {
                    "name": layer["name"],
                    "kind": layer["kind"],
                    "host": layer["host"],
                    "purpose": layer["purpose"],
                    "provider": (layer.get("detail") or {}).get("provider"),
                }
            )
    return result


def masked_secrets() -> dict[str, str]:
    """Stars, as long as the secrets: for who looks at a testbed and needs none."""
    return {name: "*" * length for name, length in SECRETS.items()}


def kept_secrets(state_dir: str) -> dict[str, str]:
    """The testbed's secrets of CHAP and NBD, as far as they were made."""
    result = {}
    for name in SECRETS:
        path = _secret_file(state_dir, name)
        if text := path.read_text(encoding="utf-8").split() if path.is_file() else []:
            result[name] = text[0]
    return result


def drawn_secrets() -> dict[str, str]:
    """Secrets as a new testbed gets them, not written yet."""
    return {name: "".join(secrets.choice(LETTERS) for _ in range(length)) for name, length in SECRETS.items()}


def keep_secrets(state_dir: str, drawn: dict[str, str]) -> dict[str, str]:
    """Write those that are missing in the state folder, and return what it holds then: another playbook's, where that was first."""
    known = kept_secrets(state_dir)
    for name in [name for name in SECRETS if name not in known]:
        path = _secret_file(state_dir, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        known[name] = _kept(path, drawn[name])
    return {name: known[name] for name in SECRETS}


def _secret_file(state_dir: str, name: str) -> Path:
    return Path(state_dir, "secrets", name)


def _kept(path: Path, secret: str) -> str:
    """The secret, once it is in the file; or the one that another playbook has put there since."""
    # Not by write_whole, which replaces: two playbooks at once must end with one secret, and a link is made by the first alone.
    handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with naming(str(path)), os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(secret + "\n")
        try:
            os.link(made, path)
        except FileExistsError:
            there = path.read_text(encoding="utf-8").split()
            if there:
                return there[0]
            # An empty one, of a version that wrote it in place and was killed.
            os.replace(made, path)
            return secret
        return secret
    finally:
        Path(made).unlink(missing_ok=True)
