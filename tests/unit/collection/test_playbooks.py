# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for every playbook: the inventory is checked first, roles get what was worked out, and old words are gone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import show_testbed
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.linux import testbed_lock
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import expand, inventory
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.description import (
    OLD_WORDS,
    WORDS,
    lab_wide_words,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import ledger
from chain_lab import ESXI, TWO_LINUX, lab_of

ROOT = Path(__file__).resolve().parents[3]
BOOKS = sorted((ROOT / "playbooks").glob("*.yml"))
# These need no testbed, or are part of the others.
WITHOUT_CHECK = (
    "check.yml",
    "claims.yml",
    "lock.yml",
    "lock_hosts.yml",
    "new_lab.yml",
    "record.yml",
    "import_results.yml",
    "list_runs.yml",
    "show.yml",
    "stand.yml",
    "unlock.yml",
    "whole.yml",
)
# These change a testbed, and each of them says so in its own words.
CHANGING = {
    "benchmark.yml": "benchmark",
    "benchmark_many.yml": "benchmark of many hosts",
    "build.yml": "build",
    "database.yml": "benchmark",
    "failover.yml": "failover",
    "os_installation.yml": "installation",
    "rebuild.yml": "rebuild",
    "teardown.yml": "teardown",
}
# For these a testbed need not be described.
RESULTS_ONLY = ("gate.yml", "report.yml", "compare.yml", "results.yml", "verify_results.yml")


def plays(path: Path) -> list:
    """The plays of a playbook with those that it imports, in their order."""
    result = []
    for entry in yaml.safe_load(path.read_text(encoding="utf-8")):
        imported = entry.get("ansible.builtin.import_playbook")
        result += plays(path.parent / imported) if imported else [entry]
    return result


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.name)
def test_the_inventory_is_checked_first(path):
    first = plays(path)[0]
    if path.name in WITHOUT_CHECK:
        return
    assert (first["name"], first["hosts"]) == ("Testbed", "localhost:all")
    assert "storlab.testbed.chain" in first["tasks"][0]


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.name)
def test_every_play_can_be_chosen_by_tag(path):
    untagged = [play["name"] for play in plays(path) if not play.get("tags")]
    assert untagged == (
        # What has been done is known only when all was asked for.
        [name for name in untagged if name in ("Record the build", "Record the teardown")]
        if path.name not in ("show.yml", "import_results.yml")
        else [play["name"] for play in plays(path)]
    )


def test_roles_get_every_variable_that_is_worked_out():
    variables = yaml.safe_load((ROOT / "playbooks/vars/testbed.yml").read_text(encoding="utf-8"))
    passed = {name for name, value in variables.items() if value == f"{{{{ __testbed_variables.{name} }}}}"}
    own = "\n  embedded_lab_dir: /l\n  embedded_lab_image_dir: /i\n  embedded_lab_netns: n1"
    embedded = ESXI.replace("testbed_id: lab", f"testbed_id: lab{own}") + "embedded_controllers: {controller01: }\n"
    existing = """
all: {testbed_id: lab, testbed: {existing: [{name: data, kind: path, path: /data}]}}
clients: {client01: }
"""
    derived = {
        name
        for text in (TWO_LINUX, ESXI, embedded, existing)
        for host in expand.expand(lab_of(text)).hosts.values()
        for name in host.variables
    }
    assert passed == derived
    for role, options in inventory.role_options().items():
        for end in ("testbed_id", "state_dir", "results_dir"):
            if f"{role}_{end}" in options:
                assert variables[f"{role}_{end}"] == f"{{{{ testbed_{'id' if end == 'testbed_id' else end} }}}}"


def test_playbooks_pass_no_other_variable_through():
    """A role's variable that is set in the inventory is enough."""
    options = {name for role in inventory.role_options().values() for name in role}
    for path in BOOKS:
        for name, value in re.findall(r"^ +(\w+): \"\{\{ (\w+)", path.read_text(encoding="utf-8"), re.M):
            assert (
                name not in options or not value.startswith("testbed_") or name.endswith(("_state", "_deadline_s"))
            ), (path.name, name)


def test_every_role_variable_that_follows_a_word_of_the_testbed_is_refused_by_itself():
    """Plays that use the word itself would not see what a user writes to the role's variable."""
    options = {name for role in inventory.role_options().values() for name in role}
    words = sorted(set(WORDS) - {"testbed"}, key=len, reverse=True)
    text = (ROOT / "playbooks/vars/testbed.yml").read_text(encoding="utf-8")
    text += "".join(path.read_text(encoding="utf-8") for path in BOOKS)
    followed = {}
    for name, value in re.findall(r'^ *(\w+): "(\{\{.*\}\})"$', text, re.M):
        named = [word for word in words if re.search(rf"\b{word}\b", value)]
        if name in options and named:
            followed[name] = named[0]
    assert len(followed) > 25
    assert lab_wide_words(inventory.role_options()) == followed


def test_a_run_is_not_split_by_a_word_of_the_role(lab, tmp_path):
    """Points would go to one run, what the hosts counted meanwhile to another."""
    rc, document, _error = show_testbed.run(lab(), "-e", "benchmark_run_id=mine", playbook="benchmark.yml")
    (result,) = document["plays"][0]["tasks"][0]["hosts"].values()
    assert rc == 2 and result["failure"]["code"] == "description_wrong"
    assert (
        "benchmark_run_id is 'mine', but the playbooks give all roles testbed_run_id: write testbed_run_id in its place."
        in result["msg"]
    )
    assert not list(tmp_path.rglob("mine"))


def test_results_are_compared_without_an_inventory(tmp_path):
    here = ("-e", f"testbed_id=ci testbed_results_dir={tmp_path}/results")
    rc, document, _error = show_testbed.run(
        None, *here, "-e", "testbed_baseline=b", playbook="compare.yml", cwd=tmp_path
    )
    text = json.dumps(document)
    assert rc == 2 and "testbed_id is not set" not in text
    assert f"{tmp_path}/results holds no run b of testbed ci." in text


def test_compare_without_a_baseline_lists_the_runs(tmp_path):
    here = ("-e", f"testbed_id=ci testbed_results_dir={tmp_path}")
    for name in ("second", "first"):
        (tmp_path / "ci" / name / "points").mkdir(parents=True)
    rc, document, _error = show_testbed.run(None, *here, playbook="compare.yml", cwd=tmp_path)
    text = json.dumps(document)
    assert rc == 2 and "is undefined" not in text
    assert "baseline (testbed_baseline) names no run. Name one of: first, second." in text
    assert not (tmp_path / "ci" / "compare").exists()


# The page for those who have an inventory with them.
PAGE_OF_OLD_WORDS = ROOT / "docs" / "upgrade.md"


@pytest.mark.parametrize("folder", ["playbooks", "roles", "inventories", "docs", "molecule"])
def test_old_words_are_gone(folder):
    words = re.compile(rf"\b({'|'.join(OLD_WORDS)})\b")
    found = {
        str(path.relative_to(ROOT)): sorted(set(words.findall(path.read_text(encoding="utf-8"))))
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".yml", ".md", ".py", ".j2")
        and path != PAGE_OF_OLD_WORDS
        and words.search(path.read_text(encoding="utf-8"))
    }
    assert found == {}


@pytest.mark.parametrize("path", [path for path in BOOKS if path.name not in WITHOUT_CHECK], ids=lambda path: path.name)
def test_an_inventory_of_something_else_is_refused(path):
    sentences = show_testbed.refusal("localhost,", playbook=path.name)
    assert "testbed_id is not set: give the testbed a name, such as testbed_id: lab." in sentences
    if path.name not in RESULTS_ONLY:
        assert (
            sentences[0]
            == "group targets has no hosts: name the inventory of your lab with -i, and put its storage server in that group."
        )


@pytest.fixture
def lab(tmp_path):
    """write(change) -> an inventory of two hosts that are this one; change(content) changes it first."""

    def write(change=None) -> Path:
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        content = {
            "all": {
                "vars": {
                    **local,
                    "testbed_id": "books",
                    "testbed": {"disks": [{"name": "bench", "size": "1MiB"}]},
                    "testbed_state_dir": str(tmp_path / "state"),
                },
                "children": {
                    "targets": {
                        "hosts": {"t1": {"testbed_address": "127.0.0.1"}, "t2": {"testbed_address": "127.0.0.2"}}
                    },
                    "clients": {"hosts": {"c1": None, "c2": None}},
                },
            }
        }
        content["all"]["vars"]["testbed"]["disks"] = [
            {"name": "one", "size": "1MiB", "targets": ["t1"], "to": ["c1"]},
            {"name": "two", "size": "1MiB", "targets": ["t2"], "to": ["c2"]},
        ]
        if change:
            change(content)
        path = tmp_path / "lab.yml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


def test_nothing_is_missed_of_what_the_command_line_says(lab):
    assert show_testbed.refusal(lab(), "-e", "testbed_profile=four_corners", playbook="check.yml") == [
        "testbed_profile was renamed after 0.3: write benchmark_profile."
    ]
    assert (
        show_testbed.expansion(lab(), "-e", "ramdisk_provider=zram")["hosts"]["t1"]["variables"]["ramdisk_provider"]
        == "zram"
    )


def test_a_group_with_a_typo_is_refused(lab):
    def change(content):
        content["all"]["children"]["target"] = content["all"]["children"].pop("targets")

    sentences = show_testbed.refusal(lab(change), playbook="build.yml")
    assert "group target is not a group of this collection: did you mean targets?" in sentences


def test_secrets_are_made_once_and_never_in_check_mode_or_by_show(lab, tmp_path):
    kept = tmp_path / "state" / "secrets"
    show_testbed.expansion(lab())
    assert show_testbed.run(lab(), "--check", playbook="check.yml")[0] == 0 and not kept.exists()
    rc, document, _said = show_testbed.run(lab(), playbook="check.yml")
    assert rc == 0
    secrets = {path.name: path.read_text(encoding="utf-8").strip() for path in kept.iterdir()}
    assert {name: len(text) for name, text in secrets.items()} == {"chap": 16, "mutual_chap": 15, "nbd": 32}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept.iterdir())
    assert not any(text in json.dumps(document) for text in secrets.values())
    assert show_testbed.run(lab(), playbook="check.yml")[0] == 0
    assert {path.name: path.read_text(encoding="utf-8").strip() for path in kept.iterdir()} == secrets


def test_a_failed_host_stops_what_stands_on_it_and_nothing_else(lab, tmp_path):
    """t1 fails: c1 logs in there and stops, c2 goes on."""
    book = tmp_path / "book.yml"
    playbooks = ROOT / "playbooks"
    marked = [
        {
            "name": "Mark",
            "ansible.builtin.copy": {
                "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}",
                "content": "x",
                "mode": "0600",
            },
        }
    ]
    book.write_text(
        yaml.safe_dump(
            [
                {"import_playbook": str(playbooks / "check.yml")},
                {
                    "hosts": "targets",
                    "gather_facts": False,
                    "tasks": [{"ansible.builtin.fail": {"msg": "no"}, "when": "inventory_hostname == 't1'"}],
                },
                {"import_playbook": str(playbooks / "stand.yml")},
                {"hosts": "clients", "gather_facts": False, "tasks": marked},
            ]
        ),
        encoding="utf-8",
    )
    rc, document, _said = show_testbed.run(lab(), playbook=str(book))
    assert rc == 2
    assert {name for name in ("c1", "c2") if (tmp_path / name).exists()} == {"c2"}
    assert {host: stats["failures"] for host, stats in document["stats"].items() if stats["failures"]} == {
        "t1": 1,
        "c1": 1,
    }
    assert "t1 failed, and c1 depends on it; correct the failures above, and build again." in json.dumps(document)


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.name)
def test_what_changes_a_testbed_locks_it_and_what_reads_does_not(path):
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    locks = [
        (entry["ansible.builtin.import_playbook"], entry["vars"]["lock_purpose"])
        for entry in entries
        if "lock" in entry.get("ansible.builtin.import_playbook", "")
    ]
    if path.name == "embedded_lab.yml":
        # A part of builds, too. What it took ends with it.
        assert locks == [("lock.yml", "embedded lab")]
    elif path.name in CHANGING:
        books = ("lock.yml", "lock_hosts.yml", "unlock.yml")
        assert locks == [(book, CHANGING[path.name]) for book in books]
        assert entries[-1]["ansible.builtin.import_playbook"] == "unlock.yml"
    else:
        assert locks == []
    # Nothing but the check comes before the lock.
    if locks:
        assert [entry["ansible.builtin.import_playbook"] for entry in entries[:2]] == ["check.yml", "lock.yml"]


def test_a_benchmark_before_the_build_fails_naming_what_is_described(lab, tmp_path):
    name = f"unbuilt-{os.getpid()}"

    def rename(content):
        content["all"]["vars"].update(testbed_id=name, testbed_results_dir=str(tmp_path / "results"))

    try:
        rc, document, _error = show_testbed.run(lab(rename), playbook="benchmark.yml")
    finally:
        Path(testbed_lock.host_path(name)).unlink(missing_ok=True)
    failed = [
        result
        for play in document["plays"]
        for task in play["tasks"]
        for result in task["hosts"].values()
        if result.get("failed")
    ]
    assert rc == 2 and {result["failure"]["code"] for result in failed} == {"nothing_built"}
    expected = [f"{kind}-{disk}" for kind in ("backing", "target", "initiator") for disk in ("one", "two")]
    assert sorted(failed[0]["failure"]["details"]["layers"]) == sorted(expected)
    # No point, and no run that a report could be made of.
    assert not list((tmp_path / "results").rglob("points"))


@pytest.mark.parametrize("where", ["controller", "host"])
def test_nothing_is_changed_while_somebody_else_changes_the_testbed(lab, tmp_path, where):
    name = f"books-{os.getpid()}"
    book = tmp_path / "book.yml"
    playbooks = ROOT / "playbooks"
    mark = {
        "ansible.builtin.file": {"path": f"{tmp_path}/{{{{ inventory_hostname }}}}", "state": "touch", "mode": "0600"}
    }
    entries = [
        {"import_playbook": str(playbooks / f"{part}.yml"), "vars": {"lock_purpose": "build"}}
        for part in ("check", "lock", "lock_hosts", "unlock")
    ]
    entries.insert(-1, {"hosts": "targets:clients", "gather_facts": False, "tasks": [mark]})
    book.write_text(yaml.safe_dump(entries), encoding="utf-8")

    def rename(content):
        content["all"]["vars"]["testbed_id"] = name

    inventory_of = lab(rename)
    on_host = Path(testbed_lock.host_path(name))
    path = tmp_path / "state" / "lock" if where == "controller" else on_host
    path.parent.mkdir(exist_ok=True)
    try:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            try:
                assert testbed_lock.take(str(path), testbed_lock.holder(other.pid, "teardown")) is None
                rc, document, _said = show_testbed.run(inventory_of, playbook=str(book))
                assert rc == 2 and not any((tmp_path / host).exists() for host in ("t1", "t2", "c1", "c2"))
                assert "testbed_busy" in json.dumps(document)
                assert f"teardown by {testbed_lock.getpass.getuser()}" in json.dumps(document)
                assert show_testbed.run(inventory_of, "--check", playbook=str(book))[0] == 0
                assert show_testbed.run(inventory_of)[0] == 0
            finally:
                other.kill()
        # It has ended without giving it back.
        assert show_testbed.run(inventory_of, playbook=str(book))[0] == 0
        assert all((tmp_path / host).exists() for host in ("t1", "t2", "c1", "c2"))
        assert not on_host.exists() and not (tmp_path / "state" / "lock").exists()
    finally:
        on_host.unlink(missing_ok=True)


def test_limit_and_no_failure_stop_nothing(lab, tmp_path):
    book = tmp_path / "book.yml"
    names = ("check.yml", "stand.yml")
    book.write_text(
        yaml.safe_dump([{"import_playbook": str(ROOT / "playbooks" / name)} for name in names]), encoding="utf-8"
    )
    rc, document, _said = show_testbed.run(lab(), "--limit", "c1", playbook=str(book))
    assert rc == 0 and set(document["stats"]) == {"c1"}
    assert show_testbed.run(lab(), playbook=str(book))[0] == 0


EXPERIMENTS = sorted((ROOT / "playbooks/experiments").glob("*.yml"))


@pytest.mark.parametrize("path", [*BOOKS, *EXPERIMENTS], ids=lambda path: path.stem)
def test_no_play_of_the_controller_alone_is_skipped_under_a_limit(path):
    """Ansible would skip it and end well. Where there is one, a limit has been refused before."""
    every = plays(path)
    alone = [play["name"] for play in every if play["hosts"] == "localhost"]
    refused = every[0]["name"] == "Whole inventory" or "check_scope: whole" in path.read_text(encoding="utf-8")
    assert not alone or refused, alone


@pytest.mark.parametrize("path", [path for path in BOOKS if path.name in CHANGING], ids=lambda path: path.stem)
def test_what_changes_a_testbed_says_what_it_works_on(path):
    check = yaml.safe_load(path.read_text(encoding="utf-8"))[0]
    assert check["ansible.builtin.import_playbook"] == "check.yml" and check["vars"]["check_scope"] != "any"


@pytest.mark.parametrize("name", ["lab_check", "new_lab", "experiments/all", "experiments/e1_two_datastores"])
def test_what_works_on_the_whole_is_refused_under_a_limit(lab, tmp_path, name):
    rc, document, _said = show_testbed.run(
        lab(), "--limit", "c1", "-e", f"new_lab_path={tmp_path}/new", playbook=f"{name}.yml"
    )
    text = json.dumps(document)
    assert rc == 2 and "--limit c1 " in text and "nothing was touched. Leave --limit out." in text
    assert not (tmp_path / "state").exists() and not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["report", "results", "verify_results", "compare", "import_results"])
def test_what_reads_results_alone_does_so_under_a_limit(lab, tmp_path, name):
    """Each reports that there is no run, where Ansible would skip the play and end well."""
    results = tmp_path / "results"
    given = {
        "testbed_results_dir": str(results),
        "import_results_path": str(results),
        "report_path": str(tmp_path / "new"),
    }
    given["testbed_baseline"] = "first"
    rc, document, _said = show_testbed.run(lab(), "--limit", "c2", "-e", json.dumps(given), playbook=f"{name}.yml")
    assert rc == 2 and set(document["stats"]) == {"c2"} and str(results) in json.dumps(document)
    assert not results.exists() and not (tmp_path / "new").exists()


def test_show_draws_the_whole_testbed_under_a_limit(lab):
    rc, document, _said = show_testbed.run(lab(), "--limit", "c1")
    (result,) = document["plays"][0]["tasks"][0]["hosts"].values()
    assert rc == 0 and {"c1", "c2", "t1", "t2"} <= set(" ".join(result["drawing"]).replace(":", " ").split())


@pytest.mark.parametrize("name", ["build", "site", "rebuild"])
def test_a_client_whose_target_is_not_built_is_refused_before_anything_is_touched(lab, tmp_path, name):
    rc, document, _said = show_testbed.run(lab(), "--limit", "c1", playbook=f"{name}.yml")
    assert rc == 2 and len(document["plays"][0]["tasks"]) == 1 and len(document["plays"]) == 1
    (result,) = document["plays"][0]["tasks"][0]["hosts"].values()
    assert result["failure"]["code"] == "limit_unfit" and result["msg"].startswith("--limit c1 leaves out t")
    assert not (tmp_path / "state").exists()


def test_a_guest_alone_is_neither_built_nor_taken_down(tmp_path):
    own = {"testbed_id": "limited", "testbed_state_dir": f"{tmp_path}/state"}
    for name in ("build", "teardown", "verify_clean", "embedded_lab"):
        rc, document, _said = show_testbed.run(
            ROOT / "inventories/embedded", "--limit", "guest01", "-e", json.dumps(own), playbook=f"{name}.yml"
        )
        (result,) = document["plays"][0]["tasks"][0]["hosts"].values()
        assert rc == 2 and "--limit guest01 leaves this playbook no host to work on" in result["msg"]
        assert not (tmp_path / "state").exists()


def test_what_is_built_and_removed_stands_in_the_ledger_and_a_lost_ledger_stops_nothing(lab, tmp_path):
    def rename(content):
        content["all"]["vars"]["testbed_results_dir"] = str(tmp_path / "results")

    def play(*kept: str) -> list:
        tasks = [{"storlab.testbed.chain": {"built": one}, "run_once": True} for one in kept]
        book.write_text(
            yaml.safe_dump(
                [
                    {"import_playbook": str(ROOT / "playbooks" / "check.yml")},
                    {"hosts": "localhost:all", "gather_facts": False, "tasks": tasks},
                ]
            ),
            encoding="utf-8",
        )
        rc, document, _said = show_testbed.run(inventory_of, playbook=str(book))
        assert rc == 0, document
        return [result for task in document["plays"][-1]["tasks"] for result in task["hosts"].values()]

    def told(*kept: str) -> list:
        play(*kept)
        (path,) = (tmp_path / "results").glob("*/ledger.jsonl")
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert ledger.read(str(path.parent))[1] == []
        return lines

    book, inventory_of = tmp_path / "book.yml", lab(rename)
    # A second build that changes nothing is no event.
    lines = told("kept", "kept")
    assert [line["event"] for line in lines] == ["built"]
    assert lines[0]["layers"] == [
        f"{kind}-{name}" for kind in ("backing", "initiator", "target") for name in ("one", "two")
    ]
    for path in (tmp_path / "results").glob("*/ledger.*"):
        path.unlink()
    assert [line["event"] for line in told("forgotten", "forgotten")] == ["removed"]
    assert not (tmp_path / "state" / "built.json").exists()
    # What is removed stays removed where that cannot be told.
    told("kept")
    shutil.rmtree(tmp_path / "results")
    (tmp_path / "results").write_text("somebody's", encoding="utf-8")
    (warning,) = [text for result in play("forgotten") for text in result.get("warnings", [])]
    assert f"The ledger in {tmp_path / 'results'} cannot be written" in warning and "was removed" in warning
    assert not (tmp_path / "state" / "built.json").exists()


def test_a_build_and_a_teardown_of_one_host_are_on_record_by_themselves(lab, tmp_path):
    """Under --limit neither was, so changes of what was built alone were not refused, and changes after a teardown alone were."""

    def results_here(content):
        content["all"]["vars"]["testbed_results_dir"] = str(tmp_path / "results")

    def play(state: str, hosts: str) -> tuple[list, dict]:
        task = {"storlab.testbed.chain": {"built": state}, "run_once": True}
        plays = [
            {"import_playbook": str(ROOT / "playbooks" / "check.yml")},
            {"hosts": "localhost:all", "gather_facts": False, "tasks": [task]},
        ]
        book.write_text(yaml.safe_dump(plays), encoding="utf-8")
        rc, document, _said = show_testbed.run(inventory_of, "--limit", hosts, playbook=str(book))
        assert rc == 0, document
        (path,) = (tmp_path / "results").glob("*/ledger.jsonl")
        kept = tmp_path / "state" / "built.json"
        on_record = sorted(json.loads(kept.read_text(encoding="utf-8"))["hosts"]) if kept.exists() else []
        return on_record, json.loads(path.read_text(encoding="utf-8").splitlines()[-1])

    book, inventory_of = tmp_path / "book.yml", lab(results_here)
    hosts, line = play("kept", "t1")
    assert hosts == ["t1"] and (line["event"], line["hosts"]) == ("built", ["t1"])
    assert line["layers"] == ["backing-one", "target-one"]
    hosts, line = play("kept", "c1:t2")
    assert hosts == ["c1", "t1", "t2"] and line["hosts"] == ["c1", "t2"]
    hosts, line = play("forgotten", "t2:localhost")
    assert hosts == ["c1", "t1"] and (line["event"], line["hosts"]) == ("removed", ["t2"])
    # The last ones: nothing of the testbed is built any more.
    hosts, line = play("forgotten", "t1:c1")
    assert hosts == [] and line["event"] == "removed" and "hosts" not in line
    for name in ("build", "teardown"):
        assert "ansible_limit is not defined" not in (ROOT / "playbooks" / f"{name}.yml").read_text(encoding="utf-8")


def test_two_embedded_labs_share_no_name_on_their_controller(tmp_path):
    """Both from the shipped inventory: network namespace, folders, sockets and the controller's records of each are its own."""
    names = []
    for testbed_id in ("first", "second"):
        own = {"testbed_id": testbed_id, "testbed_state_dir": f"{tmp_path}/{testbed_id}"}
        result = show_testbed.expansion(ROOT / "inventories/embedded", "-e", json.dumps(own))
        text = json.dumps([host["variables"] for host in result["hosts"].values()])
        own_to_lab = (r"/run/storlab/[\w./-]+", rf"{re.escape(str(ROOT))}/[\w./-]+", r"iqn\.[\w.:-]+")
        names.append({name for kind in own_to_lab for name in re.findall(kind, text) if "/images" not in name})
    # Machines are made of the same image, which no lab changes.
    assert all(any(name.startswith(start) for name in names[0]) for start in ("/run/storlab/", "iqn."))
    assert names[0] & names[1] == set()
