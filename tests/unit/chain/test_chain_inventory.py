# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of Ansible's inventory and command line: vaults that are closed, secrets that look like templates, tags that nothing has."""

from __future__ import annotations

import json
import subprocess

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import inventory

SECRET = "a{%b{{c-twelve"
HOSTS = """
all:
  children:
    targets: {hosts: {t1: {testbed_address: 192.0.2.11, ansible_connection: local}}}
    clients: {hosts: {c1: {testbed_address: 192.0.2.21, ansible_connection: local}}}
"""
PAGE = "testbed_id: lab\ntestbed:\n  disks: [{name: a, size: 64MiB}]\n  chap: one_way\n"


@pytest.fixture
def lab(tmp_path):
    """An inventory whose CHAP secret is encrypted, and the files with the right and a wrong password."""
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"password-{name}\n", encoding="utf-8")
    command = ["ansible-vault", "encrypt_string", "--vault-password-file", str(tmp_path / "right"), SECRET]
    text = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    write(tmp_path, f"{PAGE}  chap_password: {text.rstrip()}\n".replace("\n          ", "\n    "))
    return tmp_path


def write(folder, page: str) -> None:
    (folder / "mine" / "group_vars").mkdir(parents=True, exist_ok=True)
    (folder / "mine" / "hosts.yml").write_text(HOSTS, encoding="utf-8")
    (folder / "mine" / "group_vars" / "all.yml").write_text(page, encoding="utf-8")


@pytest.mark.parametrize(
    ("password", "sentence"),
    [
        (
            None,
            "testbed.chap_password is encrypted with ansible-vault, and no vault password was given: "
            "give --ask-vault-pass or --vault-password-file.",
        ),
        (
            "wrong",
            "testbed.chap_password is encrypted with ansible-vault, with a different password than was given: "
            "give the password that it was encrypted with, by --ask-vault-pass or --vault-password-file.",
        ),
    ],
)
def test_a_vault_that_is_closed_is_named_and_nothing_else_is_reported(lab, password, sentence):
    options = ["--vault-password-file", str(lab / password)] if password else []
    assert show_testbed.refusal(lab / "mine", *options, playbook="build.yml") == [sentence]
    assert sorted(path.name for path in lab.iterdir()) == ["mine", "right", "wrong"]


def test_what_is_no_ciphertext_is_named(tmp_path):
    write(tmp_path, f"{PAGE}  chap_password: !vault |\n    $ANSIBLE_VAULT;1.1;AES256\n    6162\n")
    (tmp_path / "right").write_text("x\n", encoding="utf-8")
    [sentence] = show_testbed.refusal(tmp_path / "mine", "--vault-password-file", str(tmp_path / "right"))
    assert sentence.startswith("testbed.chap_password is encrypted with ansible-vault and cannot be decrypted: ")


def test_a_secret_that_looks_like_a_template_reaches_the_roles_as_it_is(lab):
    plays = [
        {"import_playbook": str(show_testbed.ROOT / "playbooks" / "check.yml")},
        {
            "hosts": "targets",
            "gather_facts": False,
            "vars_files": [str(show_testbed.ROOT / "playbooks" / "vars" / "testbed.yml")],
            "tasks": [
                {
                    "ansible.builtin.set_fact": {
                        "seen": "{{ iscsi_target_targets[0].initiators | map(attribute='chap_password') | unique }}"
                    }
                }
            ],
        },
    ]
    book = lab / "look.yml"
    book.write_text(yaml.safe_dump(plays), encoding="utf-8")
    options = ["--vault-password-file", str(lab / "right")]
    rc, document, said = show_testbed.run(lab / "mine", *options, playbook=book)
    assert rc == 0, said
    facts = document["plays"][-1]["tasks"][-1]["hosts"]["t1"]["ansible_facts"]
    assert facts == {"seen": [SECRET]}
    drawn = json.dumps(show_testbed.run(lab / "mine", *options)[1])
    assert "twelve" not in drawn, "show prints no secret"


def test_a_variable_that_cannot_be_worked_out_is_named_with_its_hosts(tmp_path):
    write(tmp_path, PAGE.replace("size: 64MiB", "size: '{{ my_size }}'"))
    [sentence] = show_testbed.refusal(tmp_path / "mine")
    assert sentence.startswith("testbed cannot be evaluated (") and "my_size" in sentence


@pytest.mark.parametrize(
    ("options", "meant"),
    [(["-t", "initiators"], "initiator"), (["--skip-tags", "datastor"], "datastore"), (["-t", "target"], None)],
)
def test_a_tag_that_nothing_has_is_a_warning(tmp_path, options, meant):
    write(tmp_path, PAGE)
    rc, document, _said = show_testbed.run(tmp_path / "mine", *options, playbook="check.yml")
    tasks = [task for play in document["plays"] for task in play["tasks"]]
    warnings = [text for task in tasks for result in task["hosts"].values() for text in result.get("warnings", [])]
    expected = f"{options[0]} {options[1]}: no task of this collection has that tag; did you mean {meant}?"
    assert rc == 0 and warnings == ([expected.replace("-t ", "--tags ")] if meant else [])


def test_tags_of_whoever_imports_the_playbooks_are_known():
    asked = {"ansible_run_tags": ["mine"], "ansible_skip_tags": []}
    assert len(inventory.strange_tags(asked, ["always"])) == 1
    assert inventory.strange_tags(asked, ["always", "mine"]) == []
    assert inventory.strange_tags({"ansible_run_tags": ["all"]}, []) == []


@pytest.mark.parametrize("run", ["../../evil", "/tmp/evil", "a/b"])
@pytest.mark.parametrize("playbook", ["benchmark.yml", "report.yml"])
def test_a_run_outside_of_the_results_is_refused_before_the_first_task(tmp_path, run, playbook):
    write(tmp_path, PAGE)
    [sentence] = show_testbed.refusal(tmp_path / "mine", "-e", f"testbed_run_id={run}", playbook=playbook)
    assert sentence.startswith("testbed_run_id contains characters that it cannot have: use up to 100 letters")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
