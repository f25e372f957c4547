# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hostile texts in every variable of an inventory: refused in one sentence, before anything is touched.

The variables are those of the description's own specification and of the roles' argument specs, so a new one is tried as well.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.core.layers import validate_layer
from ansible_collections.storlab.testbed.plugins.module_utils.lab import qemu
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import datastore_plan
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import check, expand, inventory, texts
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.description import OPTIONS, WORDS
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.shape import SECRET
from chain_lab import ROLES, lab_of
from test_chain_built import ESXI, LAB, WINDOWS

# For no variable a text like these is what anybody means.
NEVER = (
    "a\nb",
    "a\r",
    "\x00",
    "a\x1b[2J",
    "a\u2028b",
    "{{ lookup('pipe', 'touch CANARY') }}",
    "{% for x in y %}",
    "x" * 1025,
)
# Names of files, hosts and devices that lead elsewhere, or mean something to a shell or a program.
NOT_A_NAME = (
    "../../CANARY",
    "/CANARY",
    "..",
    "-rf",
    "a/b",
    "$(touch CANARY)",
    "`touch CANARY`",
    "a;touch CANARY",
    "a'b",
    'a"b',
    "a,script=CANARY",
    "%s{0}",
)
# Words whose text is compared, or given to a program or an interface as one whole that needs no quoting: (why).
WHOLE = {
    "testbed.disks.serial": "compared with what the device says",
    "testbed.chap_password": "a secret: one line of a file, never part of a command line",
    "testbed.mutual_chap_password": "the same",
    "testbed.disks.path": "a device or file that the user names; the device guard looks at it",
    "testbed.disks.model": "compared with what Windows says",
    "testbed.guests.image": "a file of the hypervisor, in JSON for QEMU",
    "testbed.guests.esxi.template": "compared with the names of machines",
    "testbed_esxi.is": "only whether it is set",
    "ansible_host": "Ansible's own",
    "ansible_connection": "Ansible's own",
}
# Of these words a text is what it looks like.
MEANT = {"testbed.datastores.mount_options": ("a/b", "a,script=CANARY"), "testbed.datastores.path": ("/CANARY",)}


def variables(options: dict, words: str):
    """(words, option) of every variable that takes texts, however deep."""
    for name, option in options.items():
        inner = option.get("suboptions") or option.get("options")
        if inner:
            yield from variables(inner, f"{words}{name}.")
        yield f"{words}{name}", option


EVERY = sorted(
    {
        words
        for words, _option in [
            *variables(OPTIONS, "testbed."),
            *variables(
                {name: option for name, option in WORDS.items() if name not in ("testbed", *inventory.PRESENT_ONLY)}, ""
            ),
            *(one for role in ROLES.values() for one in variables(role, "")),
        ]
        if words not in inventory.PRESENT_ONLY
    }
)


def nested(words: str, value):
    """The variables of a host in which only this one is set, with lists where a description has them."""
    for name in reversed(words.split(".")):
        value = {name: value}
    return value


def sentences(lab: dict) -> list:
    return [problem.sentence() for problem in texts.problems({"roles": ROLES, **lab})]


@pytest.mark.parametrize("shape", ["plain", "in a list", "in a list of lists", "as a key"])
@pytest.mark.parametrize("text", NEVER, ids=range(len(NEVER)))
def test_every_variable_refuses_what_no_text_may_hold(text, shape):
    assert len(EVERY) > 250
    # A secret may be any text, also one that looks like a template.
    any_text = ("{{" in text or "{%" in text) and shape != "as a key"
    for words in [words for words in EVERY if not (any_text and SECRET.search(words.rpartition(".")[2]))]:
        value = {
            "plain": text,
            "in a list": ["", text],
            "in a list of lists": [[text]],
            "as a key": {text: "fine"},
        }[shape]
        said = sentences({"hosts": {"t1": nested(words, value)}})
        assert len(said) == 1, words
        assert (
            said[0].startswith(words) and said[0].isprintable() and "CANARY" not in said[0]
        ) or shape == "as a key", said


def test_ordinary_texts_are_none_of_these():
    for words in EVERY:
        if not texts.shape_of(words):
            for text in (
                "",
                "plain",
                "ein Name mit Umlaut: Größe",
                "50 % of 'all' \"this\"",
                "a{b}c",
                "C:\\Users\\x",
                "日本",
            ):
                assert sentences({"hosts": {"t1": nested(words, text)}}) == []


@pytest.mark.parametrize("name", ["../../x", "a/b", ".hidden", "-rf", "a\nb", "x" * 300, "{{ x }}"])
def test_a_host_whose_name_cannot_be_part_of_a_files_name_is_refused(name):
    (said,) = sentences({"hosts": {name: {}, "fine-1.example": {}}})
    assert said.isprintable() and "name of a file" in said


def test_what_a_playbook_of_the_user_keeps_under_a_name_that_only_looks_like_ours_is_not_judged():
    """Such as the output of a command that was registered: nothing of the collection reads it."""
    kept = {"rc": 0, "stdout": "ARRAY /dev/md127\nARRAY /dev/md126"}
    assert sentences({"hosts": {"t1": {"raid_before": kept, "datastore_seen": kept}}}) == []
    (said,) = sentences({"hosts": {"t1": {"raid_before": kept, "raid_arrays": [kept]}}})
    assert said.startswith("raid_arrays[0].stdout contains a line break")
    # Its name is told when it is much like one of ours.
    (said,) = sentences({"hosts": {"t1": {"raid_\nbefore": kept}}})
    assert said.isprintable()


def test_what_is_nested_without_end_is_refused():
    deep: list = []
    for _level in range(3000):
        deep = [deep]
    assert len(sentences({"hosts": {"t1": {"testbed": deep}}})) == 1


def leaves(value, path=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield from leaves(part, (*path, key))
    if isinstance(value, str):
        yield path


TRIED = [(text, path) for text in (LAB, ESXI, WINDOWS) for path in leaves(yaml.safe_load(text))]


def words_of(path: tuple) -> str:
    """The variable without its indices, and without the group and host that it is set for."""
    words = path[1:] if path[0] == "all" else path[2:]
    return ".".join(key for key in words if isinstance(key, str))


@pytest.mark.parametrize(
    ("text", "path"), TRIED, ids=[f"{index}-{words_of(path)}" for index, (_text, path) in enumerate(TRIED)]
)
def test_what_becomes_a_name_or_part_of_a_command_is_refused_in_one_sentence(text, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = words_of(path)
    for hostile in NOT_A_NAME:
        content = copy.deepcopy(yaml.safe_load(text))
        place = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = hostile
        lab = lab_of(yaml.safe_dump(content))
        problems = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
        assert all(said.isprintable() for said in problems)
        if words not in WHOLE and hostile not in MEANT.get(words, ()):
            assert problems, (words, hostile)
    assert os.listdir(tmp_path) == []


def test_a_secret_is_any_text():
    secrets = [words for words in EVERY if SECRET.search(words.rpartition(".")[2])]
    assert "testbed.chap_password" in secrets and len(secrets) > 2
    for words in secrets:
        for text in ("a{%b-twelve-xy", "{{twelve-chars", "{#no-comment#}"):
            assert sentences({"hosts": {"t1": nested(words, text)}}) == []
        assert len(sentences({"hosts": {"t1": nested(words, "a\nb")}})) == 1


@pytest.mark.parametrize("text", ["../../evil", "/etc/evil", "..", ".hidden", "-rf", "a/b", "a\\b"])
def test_what_becomes_a_path_is_refused_wherever_it_is_said(text):
    identifiers = [words for words in EVERY if words.rpartition(".")[2].rpartition("_")[2] in texts.IDENTIFIERS]
    assert {"testbed_run_id", "testbed.disks.name", "embedded_lab_netns", "benchmark_variants.name"} <= {*identifiers}
    for words in [*identifiers, "benchmark_profile", "testbed.guests.taps"]:
        if words != "testbed_id":
            (said,) = sentences({"hosts": {"t1": nested(words, text)}})
            assert said.startswith(f"{words} contains characters that it cannot have") and text not in said


def test_names_of_runs_are_what_they_were():
    for name in ("20260301T101500Z", "latest", "before-1", "a.b_c", "x" * 100):
        assert sentences({"hosts": {"t1": {"testbed_run_id": name}}}) == []
    assert len(sentences({"hosts": {"t1": {"testbed_run_id": "x" * 101}}})) == 1


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", ".x", "a\nb", "", "x" * 201, "a\x00"])
def test_a_layer_cannot_be_kept_outside_of_its_folder(name):
    layer = {
        "name": name,
        "kind": "backing",
        "host": "h",
        "path": "/dev/ram0",
        "parent": None,
        "purpose": "data",
        "size_bytes": 1,
        "identity": {},
    }
    with pytest.raises(Failure) as caught:
        validate_layer(layer)
    assert caught.value.code == "bad_value"
    assert validate_layer({**layer, "name": "datastore-my store (ä)"})["name"]


@pytest.mark.parametrize(
    ("change", "variable"),
    [
        ({"mount_point": "../../srv/x"}, "mount_point"),
        ({"mount_point": "$(touch /tmp/x)/y"}, "mount_point"),
        ({"mount_options": "noatime dev"}, "mount_options"),
        ({"mount_options": "noatime,\nexec"}, "mount_options"),
        ({"mount_options": "-o x"}, "mount_options"),
        ({"mount_options": "$(x)"}, "mount_options"),
    ],
)
def test_where_and_how_a_datastore_is_mounted(change, variable):
    plain = {
        "name": "ds1",
        "mount_point": "/srv/storlab/ds1",
        "mount_options": "noatime",
        "layer": None,
        "device": None,
        "benchmark_file_mib": 0,
    }
    with pytest.raises(Failure) as caught:
        datastore_plan.resolve({"datastores": [{**plain, **change}], "layers": {}})
    assert variable in caught.value.details["variable"]


def test_a_tap_is_no_option_of_qemu():
    machine = {
        "name": "vm",
        "run_dir": "/run/x",
        "disks": [],
        "nics": [{"tap": "tap0,script=/tmp/x", "mac": "52:54:00:12:34:56"}],
    }
    with pytest.raises(Failure):
        qemu.check_definition(machine)
    assert Path("/run").is_dir()
