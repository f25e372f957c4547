# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kind of storage that was there before is known wherever one is: a kind that was added to a list alone fails here."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from actions import checked
from ansible_collections.storlab.testbed.plugins.action import benchmark
from ansible_collections.storlab.testbed.plugins.doc_fragments.testbed import ModuleDocFragment
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import attached
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import directions
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import plan
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain import (
    check,
    devices,
    doctor,
    drawing,
    expand,
    offers,
)
from ansible_collections.storlab.testbed.plugins.plugin_utils.chain.stages import existing_storage
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import diagnosis
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import existing
from chain_lab import expanded, lab_of
from places import ROOT

# {kind: the words of an entry, with each of its own words}
EXAMPLES = {
    "device": {"path": "/dev/sdq", "serial": "S1", "naa": "6001405aa", "wwid": "naa.6001405aa", "uuid": "LVM-a"},
    "disk": {"unique_id": "6001405AA", "serial": "S1"},
    "esxi_datastore": {},
    "guest": {"serial": "S1", "naa": "6001405aa", "wwid": "naa.6001405aa", "uuid": "LVM-a"},
    "iscsi": {
        "portal": "192.0.2.10",
        "iqn": "iqn.2026-11.test.array:a",
        "lun": 3,
        "serial": "S1",
        "naa": "6001405aa",
        "chap_user": "reader",
        "chap_password": "sixteen-letters1",
        "mutual_chap_user": "array",
        "mutual_chap_password": "fifteen-letter2",
    },
    "nfs": {
        "server": "192.0.2.10",
        "export": "/v",
        "nfs_version": "4.1",
        "mount_options": "rsize=65536",
        "file": "a.img",
    },
    "path": {"path": "/tank", "file": "a.img"},
    "smb": {
        "server": "192.0.2.10",
        "share": "vms",
        "smb_version": "3.0",
        "user": "reader",
        "password": "sixteen-letters1",
        "domain": "LAB",
        "mount_options": "seal",
        "file": "a.img",
    },
    "volume": {"path": "E:\\vms", "file": "b\\a.vhdx"},
}
# The inventory says this of hosts of a platform.
PLATFORMS = {"esxi": {"testbed_esxi": {"is": "set"}}, "windows": {"testbed_windows": True}}
# Kinds on a server, with its port; the others are on a disk of the host, or where the host has it mounted.
SERVERS = {"iscsi": 3260, "nfs": 2049, "smb": 445}
# What a guest's entry has in the place of a disk.
FOLDER = {"path": "/data", "file": "a.img"}
# Words of kinds that no example has: with access: write alone.
WRITING = {existing_storage.OWN_SIZE}
# Kinds that new_lab never writes, and why.
NOT_OFFERED = {
    "iscsi": "a session that is there is offered as the device that it shows; new_lab knows no portal of others",
    "smb": "a share that is mounted is offered as the path where it is; new_lab knows no password of others",
}
KINDS = sorted(existing_storage.KINDS)


def lab_with(kind: str, words: dict) -> str:
    own = yaml.safe_dump(
        {"existing": [{"name": "it", "kind": kind, **words}]}, default_flow_style=True, width=9999
    ).strip()
    group = {"guest": "guests", "esxi_datastore": "hypervisors"}.get(kind, "clients")
    host = {"ansible_host": "192.0.2.21", **PLATFORMS.get(existing_storage.KINDS[kind].platform, {})}
    return f"all: {{testbed_id: lab, testbed: {own}}}\n{group}: {{host01: {json.dumps(host)}}}\n"


def test_each_kind_has_an_example_with_all_of_its_words():
    assert sorted(EXAMPLES) == KINDS
    for kind, known in existing_storage.KINDS.items():
        more = FOLDER if kind == "guest" else {}
        assert {*EXAMPLES[kind], *more} | WRITING >= set(known.words) >= {*EXAMPLES[kind]}, kind
        assert set(known.needed) <= set(EXAMPLES[kind])


def test_the_description_documents_each_kind_and_word():
    options = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]["testbed"]["suboptions"]["existing"][
        "suboptions"
    ]
    assert options["kind"]["choices"] == KINDS
    text = " ".join(options["kind"]["description"])
    assert [kind for kind in KINDS if f"V({kind})" not in text] == []
    words = {word for known in existing_storage.KINDS.values() for word in known.words}
    assert words | {*existing_storage.COMMON} == set(options), "no word is documented that no kind has"


@pytest.mark.parametrize("kind", KINDS)
def test_show_draws_it_in_words(kind):
    testbed = expanded(lab_with(kind, EXAMPLES[kind]))
    (layer,) = testbed.layers
    assert (layer["kind"], layer["purpose"]) == (existing_storage.KINDS[kind].layer, "read")
    assert not re.search(r"\b(None|null|of ,)|: ,|''", " ".join(drawing.draw(testbed)))
    assert layer["what"].split(",")[0].strip() not in ("", "disk of", "folder")
    assert "sixteen" not in drawing.as_yaml(testbed)


def test_windows_storage_may_be_written_to():
    volume = {**EXAMPLES["volume"], "access": "write", "benchmark_file": "3MiB"}
    del volume["file"]
    testbed = expanded(lab_with("volume", volume))
    (entry,) = testbed.hosts["host01"].variables["existing_storage_entries"]
    assert (entry["access"], entry["benchmark_file_mib"], entry["folder"]) == ("write", 3, "E:\\vms")
    assert testbed.layers[0]["purpose"] == "scratch" and "in a file of its own" in testbed.layers[0]["what"]
    assert devices.lost(testbed) == []
    testbed = expanded(lab_with("disk", {"unique_id": "6001405A37", "access": "write"}))
    assert (testbed.layers[0]["purpose"], testbed.layers[0]["kind"]) == ("scratch", "initiator")
    (device,) = devices.lost(testbed)
    assert device.fate == "OVERWRITTEN" and "unique_id 6001405A37" in device.sentence()


@pytest.mark.parametrize("kind", KINDS)
def test_the_doctor_looks_for_its_server(kind):
    peers = doctor.needs(expanded(lab_with(kind, EXAMPLES[kind])), "host01").get("peers", [])
    assert peers == ([{"address": "192.0.2.10", "port": SERVERS[kind]}] if kind in SERVERS else [])


@pytest.mark.parametrize("kind", KINDS)
def test_diagnose_looks_at_the_way_to_its_server(kind):
    """The playbook takes addresses from the variables of the roles, and the answer from the layer."""
    text = (ROOT / "playbooks/diagnose.yml").read_text(encoding="utf-8")
    # A host that only logs in has no entries, and a guest has no sessions.
    assert "__testbed_variables.get('existing_storage_entries', []) | selectattr('server', 'defined')" in text
    assert "__testbed_variables.get('iscsi_initiator_targets', []) | map(attribute='portal.address')" in text
    variables = expanded(lab_with(kind, EXAMPLES[kind])).hosts["host01"].variables
    entries = variables.get("existing_storage_entries") or []
    targets = variables.get("iscsi_initiator_targets") or []
    addresses = [entry["server"] for entry in entries if "server" in entry] + [
        it["portal"]["address"] for it in targets
    ]
    assert addresses == (["192.0.2.10"] if kind in SERVERS else [])
    if kind in existing_storage.ELSEWHERE:
        return
    if existing_storage.KINDS[kind].platform == "windows":
        layer = existing._layer({"parent": None, "access": "read", **entries[0]}, "E:\\a.vhdx", 1, {}, {})
    else:
        plain = {key: option.get("default") for key, option in attached.SPEC["entries"]["options"].items()}
        layer = attached._layer({**plain, **entries[0]}, path="/p", size_bytes=1, identity={})
    assert (
        layer["detail"]["existing"] in (*attached.NEEDED, "disk", "volume")
        and layer["detail"]["provider"] == "existing"
    )
    way = diagnosis._way({**layer, "host": "host01"}, {"192.0.2.10": {"before": "", "after": ""}}, ())
    assert (way == {"note": "the look at it did not end"}) == (kind in SERVERS)


@pytest.mark.parametrize("kind", KINDS)
def test_new_lab_takes_it_from_a_host_or_says_why_not(kind):
    """A host's own words for it pass the check of what becomes a line of an inventory."""
    entry = {"kind": kind, **{key: value for key, value in EXAMPLES[kind].items() if isinstance(value, str)}}
    raw = {"name": "it", "entry": entry, "what": "something", "shared": False}
    assert offers._is_plain(raw)
    places = ("module_utils/linux/clients/offered.py", "plugin_utils/windows/existing.py", "module_utils/esxi/room.py")
    source = "".join((ROOT / "plugins" / place).read_text(encoding="utf-8") for place in places)
    inside = [existing_storage.KINDS[word].layer for word in existing_storage.OUTSIDE] if kind == "guest" else []
    assert bool(inside) or (f'"kind": "{kind}"' in source) != (kind in NOT_OFFERED)


@pytest.mark.parametrize("kind", KINDS)
def test_the_pages_have_a_row_for_it(kind):
    page = (ROOT / "docs/existing.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", page, re.MULTILINE)
    words = {*re.findall(r"`(\w+)`", row)}
    missing = {*existing_storage.KINDS[kind].words} - words - WRITING
    assert not missing, f"docs/existing.md does not name {missing} of {kind}"
    assert f"kind: {kind}" in (ROOT / "docs/platforms.md").read_text(encoding="utf-8")


def test_the_role_attaches_what_the_description_has():
    """All but the kinds of other roles; a guest's disk is one of a device or a path."""
    linux = [kind for kind in KINDS if existing_storage.KINDS[kind].platform == "linux"]
    kinds = {existing_storage._role_kind({"kind": kind, **EXAMPLES[kind]}) for kind in linux}
    assert kinds | {"path"} == {*attached.NEEDED, "iscsi"}
    text = (ROOT / "roles/existing_storage/meta/argument_specs.yml").read_text(encoding="utf-8")
    assert [kind for kind in attached.NEEDED if f"C({kind})" not in text] == []


@pytest.fixture(scope="module")
def workloads() -> dict:
    """{profile: its workloads} of the collection."""
    folder = ROOT / "roles" / "benchmark" / "files" / "profiles"
    wanted = {}
    for name in sorted(path.stem for path in folder.glob("*.yml")):
        given = {"testbed_id": "lab", "run_id": "one", "results_dir": "/tmp/r", "profile": name}
        wanted[name] = plan.validate(checked(benchmark, **given), profile.find(name, [str(folder)], yaml.safe_load))
    return {name: options["workloads"] for name, options in wanted.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_profile_that_writes_is_refused_and_every_other_one_is_not(kind, workloads):
    """Before anything is touched. Files of an ESXi host's datastore are written by guests alone, so that guest is refused, whatever it would measure."""
    text = lab_with(kind, EXAMPLES[kind])
    writers = {name for name, wanted in workloads.items() if any("write" in directions(each) for each in wanted)}
    assert len(writers) > 20 and len(workloads) - len(writers) > 4
    if kind == existing_storage.STORE:
        guest = "guests: [{name: vm01, datastore: it, disk_size: 2GiB, memory: 1GiB}]"
        text = text.replace("testbed: {", f"testbed: {{{guest}, ") + "guests: {vm01: {ansible_host: 192.0.2.31}}\n"
        writers = set(workloads)
    refused = set()
    for name, wanted in workloads.items():
        lab = lab_of(text, workloads={"host01": wanted, "vm01": wanted})
        sentences = [problem.sentence() for problem in check.check(lab, expand.expand(lab))]
        assert all("there before" in sentence and "access: write" in sentence for sentence in sentences), sentences
        refused |= {name} if sentences else set()
    assert refused == writers
