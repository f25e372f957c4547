# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The built collection, installed into an empty folder, works as the checkout does."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile

import pytest
import yaml
from built_collection import build, install, run


def ansible(installed, *command):
    return run(
        installed, *command, check=False, ANSIBLE_COLLECTIONS_PATH=str(installed), ANSIBLE_LOCALHOST_WARNING="false"
    )


@pytest.fixture(scope="module")
def artifact(root, tmp_path_factory):
    return build(root, tmp_path_factory.mktemp("artifact"))


@pytest.fixture(scope="module")
def installed(artifact, tmp_path_factory):
    return install(artifact, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def members(artifact):
    with tarfile.open(artifact) as archive:
        return archive.getnames()


def test_artifact_carries_the_product_and_nothing_else(members):
    names = {name.split("/")[0] for name in members}
    assert {
        "plugins",
        "roles",
        "playbooks",
        "inventories",
        "docs",
        "README.md",
        "LICENSE",
        "meta",
        "MANIFEST.json",
    } <= names
    assert not names & {".venv", ".cache", "results", "tests", "molecule", "benchmarks", ".git", ".ci"}


def test_artifact_carries_no_state_of_a_testbed(members):
    assert [name for name in members if "/.state" in name or name.endswith((".pyc", "id_ed25519"))] == []


def test_installed_playbooks_and_inventories_pass_the_syntax_check(root, installed):
    """Each playbook on one inventory and each inventory with some playbooks; `make matrix` tries all with all."""
    collection = installed / "ansible_collections/storlab/testbed"
    books = [
        path for folder in (".", "experiments") for path in sorted((collection / "playbooks" / folder).glob("*.yml"))
    ]
    inventories = sorted(path for path in (collection / "inventories").iterdir() if path.is_dir())
    kept = [path for folder in (".", "experiments") for path in (root / "playbooks" / folder).glob("*.yml")]
    assert {path.name for path in books} == {path.name for path in kept} and len(books) == len(kept)
    assert {path.name for path in inventories} == {path.name for path in (root / "inventories").iterdir()}
    for number, inventory in enumerate(inventories):
        some = books[number :: len(inventories)]
        answer = ansible(installed, "ansible-playbook", "--syntax-check", "-i", inventory, *some)
        assert answer.returncode == 0, (inventory.name, answer.stderr)


def test_installed_playbook_with_a_fault_does_not_pass(installed, tmp_path):
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("- hosts: all\n  roles: [storlab.testbed.no_such_role]\n", encoding="utf-8")
    answer = ansible(installed, "ansible-playbook", "--syntax-check", wrong)
    assert answer.returncode != 0 and "no_such_role" in answer.stderr


def test_installed_playbooks_are_called_by_their_names(installed):
    inventory = installed / "ansible_collections/storlab/testbed/inventories/embedded"
    answer = ansible(installed, "ansible-playbook", "--syntax-check", "-i", inventory, "storlab.testbed.build")
    assert answer.returncode == 0, answer.stderr


def test_installed_modules_run(installed):
    answer = ansible(installed, "ansible", "localhost", "-m", "storlab.testbed.storage_state")
    assert answer.returncode == 0, answer.stderr
    assert "kernel_modules" in answer.stdout


def test_installed_modules_fail_as_documented(installed):
    answer = ansible(installed, "ansible", "localhost", "-m", "storlab.testbed.layer", "-a", "state=gone")
    assert answer.returncode != 0
    assert "got: gone. Correct the arguments." in answer.stdout


def unshipped_links(pages: dict, shipped: set) -> list:
    """Relative links of pages to what the artefact does not have. pages: {path: text}."""
    found = []
    for page, text in pages.items():
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            path = os.path.normpath(os.path.join(os.path.dirname(page), link))
            if not re.match(r"[a-z]+:", link) and not any(one == path or one.startswith(f"{path}/") for one in shipped):
                found.append(f"{page}: {link}")
    return sorted(found)


def test_links_lead_somewhere_in_the_artefact(installed, members):
    folder = installed / "ansible_collections/storlab/testbed"
    pages = {name: (folder / name).read_text(encoding="utf-8") for name in members if name.endswith(".md")}
    assert len(pages) > 20 and unshipped_links(pages, set(members)) == []
    one = {"docs/a.md": "[x](../tests/y) [z](b.md#c) [w](https://w.example/tests)"}
    assert unshipped_links(one, {"docs/b.md"}) == ["docs/a.md: ../tests/y"]


def test_a_strangers_first_inventory_is_the_one_of_the_page(installed, tmp_path):
    """The commands of docs/getting_started.md up to the first that needs its hosts, from the artefact, in an empty folder."""
    folder = installed / "ansible_collections/storlab/testbed"
    page = (folder / "docs/getting_started.md").read_text(encoding="utf-8")
    blocks = [text.replace("\\\n", " ") for text in re.findall(r"```[a-z]*\n(.*?)```", page, re.S)]
    [install] = [text for text in blocks if "ansible-galaxy" in text]
    assert install in (folder / "README.md").read_text(encoding="utf-8")
    [new_lab] = [text for text in blocks if "-e new_lab_path=my_lab" in text]
    [show] = [
        line.split("#")[0]
        for text in blocks
        for line in text.splitlines()
        if line.startswith("ansible-playbook -i my_lab storlab.testbed.show")
    ]
    [described] = [yaml.safe_load(text) for text in blocks if text.startswith("testbed_id:")]
    [drawing] = [text.splitlines() for text in blocks if text.startswith("testbed my-lab")]
    exported = dict(re.findall(r"^export (\w+)=(\S+)", page, re.M))
    for command in (new_lab, show):
        answer = run(
            tmp_path,
            *shlex.split(command),
            check=False,
            PWD=str(tmp_path),
            ANSIBLE_COLLECTIONS_PATH=str(installed),
            ANSIBLE_LOCALHOST_WARNING="false",
            # Whether the page's hosts are there is no matter: nobody has those addresses.
            ANSIBLE_TIMEOUT="2",
            LC_ALL="C.UTF-8",
            **exported,
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
    assert yaml.safe_load((tmp_path / "my_lab/group_vars/all.yml").read_text(encoding="utf-8")) == described
    lines = [line.strip() for line in answer.stdout.splitlines()]
    assert [line for line in drawing if line.strip() not in lines] == []


def test_the_three_lines_of_the_readme_are_all_that_a_first_report_needs(root, artifact, tmp_path):
    """In an empty home, with nothing of the checkout on the path: only the collections that Galaxy would bring are left out."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    [install] = [text for text in re.findall(r"```\n(.*?)```", readme, re.S) if "ansible-galaxy" in text]
    assert len(install.splitlines()) == 3 and install.count("storlab.testbed") == 1
    install = install.replace("storlab.testbed", f"--no-deps --offline {shlex.quote(str(artifact))}")
    [import_it] = [line.split("#")[0] for line in readme.splitlines() if "storlab.testbed.import_results -e" in line]
    [core] = re.findall(r"^ansible-core==\S+", (root / ".config/requirements.lock").read_text(encoding="utf-8"), re.M)
    (tmp_path / "constraints.txt").write_text(core, encoding="utf-8")
    (tmp_path / "DIR").mkdir()
    fio = "fio --name=first --ioengine=null --size=64m --rw=randread --bs=4k --runtime=2 --time_based --output-format=json+"
    run(tmp_path / "DIR", *shlex.split(fio), "--output=first.json")
    environment = {key: value for key, value in os.environ.items() if re.search("proxy|^PIP_|^SSL_", key, re.I)}
    script = (
        f"set -eu\n{install}\nansible-doc storlab.testbed.benchmark_run\n{import_it}\nansible-galaxy collection list\n"
    )
    answer = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={
            **environment,
            "HOME": str(tmp_path / "home"),
            "PATH": f"{os.path.dirname(os.path.realpath(sys.executable))}:/usr/bin:/bin",
            "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
            "LC_ALL": "C.UTF-8",
        },
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    listed = {name for name, _ in re.findall(r"^(\w+\.\w+) +(\S+)", answer.stdout, re.M)}
    assert listed - {"ansible._protomatter"} == {"storlab.testbed"}, "the environment was not empty"
    assert "<svg" in (tmp_path / "OUT/report/index.html").read_text(encoding="utf-8")
