# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records that a host has lost: what comes back from the controller names exactly what the testbed made there, and nothing that came later."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import actions
import pytest
from ansible_collections.storlab.testbed.plugins.action import testbed_claims as action
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux.record import RUN_DIR, Record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import claims, ownership
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import ledger
from hypothesis import given, settings
from hypothesis import strategies as st
from places import in_memory
from unchanged import refused

OURS = "lab"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


class Host:
    """A folder in the place of a host, and the controller's two folders beside it."""

    def __init__(self, root: Path):
        self.run, self.configfs = str(root / "run" / "storlab"), str(root / "config")
        self.state, self.results = root / "state", root / "results"
        self.devices = root / "dev"
        self.devices.mkdir()

    def make(self, path: Path) -> None:
        """A thing of this name. One that was there of that name is gone, and is never the same one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.mkdir()
        if path.exists():
            # Kept, so that its number in the file system is not given again.
            path.rename(path.with_name(f".{path.name}.{os.stat(path).st_ino}"))
        new.rename(path)

    def device(self, name: str) -> Path:
        return self.devices / name

    def target(self, name: str) -> Path:
        return Path(self.configfs, "target", "iscsi", name)

    def record(self, area: str, **data) -> Record:
        record = Record(OURS, area, self.run)
        record.data = data
        record.save()
        return record

    def there(self, area: str) -> dict:
        return {key: value for key, value in Record(OURS, area, self.run).data.items() if key != "boot_id"}

    def files(self) -> dict:
        folder = Path(self.run, OURS)
        return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}

    def lose(self) -> None:
        shutil.rmtree(self.run, ignore_errors=True)

    def play(self, state: str, name: str = "t1", check: bool = False) -> dict:
        """What the task of the playbook answers, whose module runs in this process."""
        arguments = {
            "state": state,
            "testbed_id": OURS,
            "state_dir": str(self.state),
            "results_dir": str(self.results),
        }
        task = actions.make(action, arguments, check=check)
        task._low_level_execute_command = self._command
        task._execute_module = lambda **given: self._module(check, **given["module_args"])
        return task.run(task_vars={"inventory_hostname": name})

    def _command(self, text: str, sudoable: bool) -> dict:
        done = subprocess.run(
            ["sh", "-c", text.replace(RUN_DIR, self.run)], capture_output=True, text=True, check=False
        )
        return {"rc": done.returncode, "stdout": done.stdout.replace(self.run, RUN_DIR)}

    def _module(self, check: bool, testbed_id: str, **given) -> dict:
        # As it is when it comes from a host.
        given = json.loads(json.dumps(given))
        places = {"run_dir": self.run, "configfs": self.configfs}
        try:
            if "claims" not in given:
                return json.loads(json.dumps({"changed": False, "claims": claims.kept(testbed_id, **places)}))
            answer = claims.restore(testbed_id, given["claims"], check, **places)
        except Failure as failure:
            return {"failed": True, **failure.as_result()}
        return {**answer, "changed": bool(answer["restored"]), "claims": claims.kept(testbed_id, **places)}


@pytest.fixture
def host(tmp_path) -> Host:
    return Host(tmp_path)


def warned(answer: dict) -> str:
    return " ".join(answer.get("warnings", []))


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_disks():
    """Hundreds of ledgers are written here, and none of them has to outlive this machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ledger.os, "fsync", lambda descriptor: None)
        yield


def disk(host: Host, name: str) -> dict:
    return {"provider": "zram", "path": str(host.device(name)), "size_bytes": 4096}


@settings(max_examples=500, deadline=None)
@given(
    made=st.dictionaries(
        st.sampled_from(("bench", "ds1", "bench-2", "b")), st.sampled_from(("kept", "gone", "another")), max_size=4
    ),
    served=st.dictionaries(
        st.sampled_from(("iqn.2026-01.t:lab:one", "iqn.2026-01.t:lab", "iqn.2026-01.t:lab:one-2")),
        st.sampled_from(("kept", "gone", "another")),
        max_size=3,
    ),
    lost=st.sets(st.sampled_from(("ramdisk", "lio_target", "raid"))),
    foreign=st.sets(st.sampled_from(("ramdisk", "lio_target", "iscsi_session"))),
)
def test_what_comes_back_is_what_was_made_and_is_there_still(made, served, lost, foreign):
    folder = tempfile.mkdtemp(prefix="storlab-claims-", dir=in_memory())
    try:
        host = Host(Path(folder))
        for path in [*map(host.device, made), *map(host.target, served)]:
            host.make(path)
        whole = {
            "ramdisk": {"provider": "zram", "order": sorted(made), "disks": {name: disk(host, name) for name in made}},
            "lio_target": {"targets": sorted(served), "core": {"core/iblock_0/storlab-lab-b": ["s1"]}, "modules": []},
            "raid": {"arrays": {"r": {"uuid": "u-1"}}},
        }
        for area, data in whole.items():
            host.record(area, **data)
        for area in foreign:
            Record("lab-2", area, host.run).save()
        assert host.play("kept") == {"changed": False}
        for path, fate in [(host.device(name), fate) for name, fate in made.items()] + [
            (host.target(name), fate) for name, fate in served.items()
        ]:
            if fate == "another":
                host.make(path)
            elif fate == "gone":
                path.rmdir()
        for area in lost:
            Path(host.run, OURS, f"{area}.json").unlink()
        others = {path: path.read_bytes() for path in Path(host.run, "lab-2").glob("*")}
        answer = host.play("restored")
        assert answer["restored"] == sorted(lost) and answer["changed"] == bool(lost)
        strangers = {name for name, fate in {**made, **served}.items() if fate == "another"}
        left = {name: entry for name, entry in whole["ramdisk"]["disks"].items() if name not in strangers}
        expected = {
            **whole,
            **({"ramdisk": {"provider": "zram", "order": sorted(left), "disks": left}} if "ramdisk" in lost else {}),
            **(
                {"lio_target": {**whole["lio_target"], "targets": sorted(set(served) - strangers)}}
                if "lio_target" in lost
                else {}
            ),
        }
        assert {area: host.there(area) for area in whole} == expected
        told = {
            f"t1: {', '.join(sorted(set(names) & strangers))} ({area}) is not what the testbed made there; it stays."
            for area, names in (("ramdisk", made), ("lio_target", served))
            if area in lost and set(names) & strangers
        }
        assert {text for text in answer.get("warnings", []) if "it stays" in text} == told
        # Of other testbeds nothing is read and nothing written.
        assert {path: path.read_bytes() for path in Path(host.run, "lab-2").glob("*")} == others
        before = host.files()
        assert host.play("restored")["changed"] is False and host.files() == before
    finally:
        shutil.rmtree(folder)


def test_a_damaged_record_is_as_good_as_a_lost_one(host):
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    host.play("kept")
    Path(host.run, OURS, "raid.json").write_text('{"arrays": {"r"', encoding="utf-8")
    with refused(Path(host.run)) as caught:
        host.there("raid")
    assert caught.value.code == "record_damaged"
    assert host.play("restored")["restored"] == ["raid"]
    assert host.there("raid") == {"arrays": {"r": {"uuid": "u-1"}}}


def test_a_record_that_is_there_stays_though_the_copy_is_older(host):
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    host.play("kept")
    host.record("raid", arrays={"r": {"uuid": "u-2"}})
    before = host.files()
    assert host.play("restored") == {"changed": False, "restored": [], "warnings": []} and host.files() == before


def test_a_host_that_has_all_its_records_is_not_asked_further(host):
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    host.record("ramdisk", provider="zram", order=[], disks={})
    host.play("kept")
    seen, host._module = (
        [],
        lambda *given, **named: (
            seen.append(named)
            or {"restored": [], "doubtful": {}, "changed": False, "claims": {"boot_id": "b", "areas": {}}}
        ),
    )
    assert host.play("restored") == {"changed": False, "restored": []} and seen == []
    host.record("raid", arrays={"r": {"uuid": "u-2"}})
    host.play("restored")
    assert len(seen) == 1


def test_what_is_forgotten_is_claimed_no_more_and_nobody_is_asked(host):
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    host.play("kept")
    host._module = None
    assert host.play("forgotten", check=True) == {"changed": False} and (host.state / "claims" / "t1.json").exists()
    assert host.play("forgotten") == {"changed": False}
    host.lose()
    assert host.play("restored") == {"changed": False, "restored": []} and host.files() == {}
    assert [line["areas"] for line in ledger.read(str(host.results / OURS))[0]] == [["raid"], []]


def test_after_a_teardown_nothing_is_claimed_though_something_of_that_name_is_there_again(host):
    host.make(host.device("bench"))
    host.record("ramdisk", provider="zram", order=["bench"], disks={"bench": disk(host, "bench")})
    host.play("kept")
    host.lose()
    host.play("kept")
    host.make(host.device("bench"))
    assert host.play("restored") == {"changed": False, "restored": []}
    assert host.files() == {} and not (host.state / "claims" / "t1.json").exists()


def test_where_the_kernel_tells_no_device_from_the_next_a_disk_is_not_claimed(host, monkeypatch):
    host.make(host.device("bench"))
    host.record("ramdisk", provider="zram", order=["bench"], disks={"bench": disk(host, "bench")})
    monkeypatch.setattr(claims.block_device, "instance", lambda path: None)
    host.play("kept")
    host.lose()
    answer = host.play("restored")
    assert host.there("ramdisk") == {"provider": "zram", "order": [], "disks": {}}
    assert "bench (ramdisk) is not what the testbed made" in warned(answer)


def restarted(host) -> None:
    """The host starts again: its records are gone, and the copy tells of an earlier start."""
    content = (host.state / "claims" / "t1.json").read_text(encoding="utf-8")
    earlier = content.replace(BOOT_ID, "0" * len(BOOT_ID))
    assert earlier != content
    (host.state / "claims" / "t1.json").write_text(earlier, encoding="utf-8")
    sha256 = action.hashlib.sha256(earlier.encode()).hexdigest()
    ledger.append(str(host.results / OURS), "claimed", host="t1", sha256=sha256)
    host.lose()


def test_after_a_restart_what_is_gone_with_it_is_not_restored(host):
    """RAM disks, targets and processes are gone; an array has the testbed's name in its superblocks."""
    host.make(host.device("zram3"))
    host.record("ramdisk", provider="zram", order=["bench"], disks={"bench": disk(host, "zram3")}, modules=["zram"])
    host.record("lio_target", targets=["iqn.2026-01.t:lab:one"], mounted_configfs=True)
    host.record("tgt_target", made_folder=True, modules=["ib_core"])
    host.record("database", folder="/srv/db", user="postgres", pid=7, start_ticks="8")
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    host.play("kept")
    restarted(host)
    assert host.play("restored")["restored"] == [] and host.files() == {}


MULTIPATH = {"files": {"/etc/multipath/wwids": None}, "wwids": ["36001"]}
# {area: (record of a build, the part of it that a restart does not end)}
PARTS = {
    "datastore": (
        {
            "modules": ["xfs"],
            "datastores": {
                "ds1": {
                    "mount_point": "/srv/storlab/lab/ds1",
                    "uuid": "u-3",
                    "device": "/dev/sdz9",
                    "folders": ["/srv/storlab/lab/ds1", "/srv/storlab/lab"],
                    "mount_options": "noatime",
                    "generation": "g7",
                },
                "far": {
                    "mount_point": "/srv/storlab/lab/far",
                    "uuid": "u-4",
                    "server": "192.0.2.7",
                    "folders": ["/srv/storlab/lab/far"],
                },
            },
        },
        {
            "datastores": {
                "ds1": {
                    "mount_point": "/srv/storlab/lab/ds1",
                    "uuid": "u-3",
                    "device": "/dev/sdz9",
                    "folders": ["/srv/storlab/lab/ds1", "/srv/storlab/lab"],
                },
                "far": {
                    "mount_point": "/srv/storlab/lab/far",
                    "uuid": "u-4",
                    "server": "192.0.2.7",
                    "folders": ["/srv/storlab/lab/far"],
                },
            }
        },
    ),
    "existing": (
        {
            "modules": ["nfsv4"],
            "mounts": {"nas": {"mount_point": "/srv/storlab/lab/nas", "source": "nas:/x", "folders": ["/srv/storlab"]}},
        },
        {"mounts": {"nas": {"mount_point": "/srv/storlab/lab/nas", "source": "nas:/x", "folders": ["/srv/storlab"]}}},
    ),
    "iscsi_session": (
        {
            "modules": ["iscsi_tcp", "sg"],
            "daemon": "process",
            "folders": ["/var/lib/iscsi/nodes", "/var/lib/iscsi"],
            "multipath": MULTIPATH,
        },
        {"folders": ["/var/lib/iscsi/nodes", "/var/lib/iscsi"], "multipath": MULTIPATH},
    ),
    "nfs_export": (
        {
            "modules": ["nfsd"],
            "exports": {"/srv/storlab/lab/ds1": ["192.0.2.9"]},
            "folder": "/etc/exports.d",
            "server": {"threads": 8},
            "daemons": {"rpc.mountd": [{"pid": 5, "start_ticks": "6"}]},
            "mounted": True,
            "announced_before": [],
        },
        {"exports": {"/srv/storlab/lab/ds1": ["192.0.2.9"]}, "folder": "/etc/exports.d"},
    ),
}


def test_after_a_restart_what_outlives_one_is_restored(host):
    """Folders, files of exports and node records are on disks. No process, mount, module or session outlives a restart."""
    for area, (record, _part) in PARTS.items():
        host.record(area, **record)
    host.play("kept")
    restarted(host)
    check = host.play("restored", check=True)
    assert check["restored"] == sorted(PARTS) and check["changed"] and host.files() == {}
    answer = host.play("restored")
    assert answer["restored"] == sorted(PARTS) and answer["changed"]
    assert {area: host.there(area) for area in PARTS} == {area: part for area, (_record, part) in PARTS.items()}
    assert [text.partition(" is taken")[0] for text in answer["warnings"]] == [
        "t1 was restarted since: what outlives that of the testbed's records of datastore, existing, iscsi_session, nfs_export"
    ]
    before = host.files()
    host.play("kept")
    assert host.play("restored")["changed"] is False and host.files() == before


def test_what_is_mounted_since_a_restart_is_somebody_elses(host, monkeypatch):
    """The testbed's own mounts ended with the restart, so a teardown must not take this one for its own."""
    table = [{"mount_point": place, "numbers": "8:1", "source": "/dev/sdq"} for place in ("/", "/srv/storlab/lab/ds1")]
    for area in ("datastore", "existing"):
        host.record(area, **PARTS[area][0])
    host.play("kept")
    restarted(host)
    monkeypatch.setattr(claims.mounts, "read", lambda: [*table, {**table[0], "mount_point": "/srv/storlab/lab/nas"}])
    answer = host.play("restored")
    assert sorted(host.there("datastore")["datastores"]) == ["far"] and host.there("existing") == {"mounts": {}}
    assert "t1: ds1 (datastore) is not what the testbed made there; it stays." in answer["warnings"]
    assert "t1: nas (existing) is not what the testbed made there; it stays." in answer["warnings"]


def test_a_record_of_an_earlier_start_that_lies_there_still_is_replaced(host):
    """/run is not emptied by each restart, of a container for one. What is made since then has a record that stays."""
    host.record("iscsi_session", **PARTS["iscsi_session"][0])
    host.record("datastore", **PARTS["datastore"][0])
    host.play("kept")
    old = Path(host.run, OURS, "iscsi_session.json").read_text(encoding="utf-8").replace(BOOT_ID, "0" * 36)
    restarted(host)
    host.record("datastore", datastores={})
    Path(host.run, OURS, "iscsi_session.json").write_text(old, encoding="utf-8")
    assert host.play("restored")["restored"] == ["iscsi_session"]
    assert host.there("iscsi_session") == PARTS["iscsi_session"][1] and host.there("datastore") == {"datastores": {}}


@pytest.mark.parametrize("how", ["copy", "ledger", "no ledger", "another host"])
def test_a_copy_that_the_ledger_does_not_tell_of_is_not_believed(host, how):
    host.record("datastore", datastores={"ds1": {"mount_point": "/srv/ds1", "uuid": "u-1"}})
    host.play("kept")
    copy, lines = host.state / "claims" / "t1.json", host.results / OURS / ledger.FILE
    if how == "copy":
        copy.write_text(copy.read_text(encoding="utf-8").replace("/srv/ds1", "/home"), encoding="utf-8")
    elif how == "ledger":
        ledger.append(str(host.results / OURS), "built", layers=[])
        lines.write_bytes(lines.read_bytes().replace(b'"areas":["datastore"]', b'"areas":["databases"]'))
    elif how == "no ledger":
        shutil.rmtree(host.results)
    else:
        copy.rename(copy.with_name("t2.json"))
    host.lose()
    answer = host.play("restored", name="t2" if how == "another host" else "t1")
    assert answer["restored"] == [] and host.files() == {}
    assert "does not match the ledg" in warned(answer)


def test_no_secret_and_nothing_derived_from_one_leaves_the_host(host):
    host.record("tgt_target", accounts={"user": {"salt": "5a17", "hash": "b0b0"}}, modules=["m1"])
    host.record("iscsi_session", logins={"iqn.t:a": {"digest": "d16e"}}, folders=["/etc/iscsi"])
    host.play("kept")
    copy = host.state / "claims" / "t1.json"
    written = copy.read_text(encoding="utf-8") + (host.results / OURS / ledger.FILE).read_text(encoding="utf-8")
    assert not [word for word in ("5a17", "b0b0", "d16e", "user") if word in written]
    assert copy.stat().st_mode & 0o777 == 0o600
    host.lose()
    host.play("restored")
    assert host.there("tgt_target") == {"modules": ["m1"]} and host.there("iscsi_session") == {
        "folders": ["/etc/iscsi"]
    }


def test_an_area_that_is_a_path_is_refused(host):
    claim = {"boot_id": BOOT_ID, "areas": {"../../x": {"record": {"a": 1}, "witnesses": {}}}}
    with refused(Path(host.run).parent) as caught:
        claims.restore(OURS, claim, run_dir=host.run, configfs=host.configfs)
    assert caught.value.code == "bad_value" and not Path(host.run).exists()


def test_in_check_mode_nothing_is_kept_or_restored_and_it_is_told(host):
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    assert host.play("kept", check=True) == {"changed": False} and not host.state.exists()
    host.play("kept")
    host.lose()
    answer = host.play("restored", check=True)
    assert (answer["changed"], answer["restored"], host.files()) == (True, ["raid"], {})


def test_a_second_build_adds_no_line(host):
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    host.play("kept")
    before = (host.results / OURS / ledger.FILE).read_bytes()
    host.play("kept")
    assert (host.results / OURS / ledger.FILE).read_bytes() == before
    assert [line["event"] for line in ledger.read(str(host.results / OURS))[0]] == ["claimed"]


def test_a_results_folder_that_cannot_be_written_stops_nothing_and_is_told(host):
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    host.results.write_text("a file", encoding="utf-8")
    answer = host.play("kept")
    assert not answer.get("failed") and "on record there only" in warned(answer)
    host.lose()
    assert not host.play("restored").get("failed") and host.files() == {}


def named(host: Host, name: str = "t1") -> dict:
    return json.loads((host.state / "made" / f"{name}.json").read_text(encoding="utf-8"))


def test_what_records_name_is_kept_until_it_is_proven_gone(host):
    """Of a build that was cut there is no copy of the records; a later record adds, and forgetting the copy takes nothing away."""
    host.make(host.device("zram3"))
    host.record("ramdisk", provider="zram", order=["bench"], disks={"bench": disk(host, "zram3")}, modules=["zram"])
    host.play("restored", check=True)
    assert not (host.state / "made").exists()
    host.play("restored")
    assert named(host)["devices"] == ["zram3"] and named(host)["modules"] == ["zram"]
    host.record("raid", arrays={"r": {"uuid": "u-1", "device": "/dev/md7"}})
    host.play("kept")
    host.lose()
    host.play("forgotten")
    kept = named(host)
    assert kept["devices"] == ["md7", "zram3"] and kept["arrays"] == ["u-1"] and kept["areas"] == ["raid", "ramdisk"]
    assert kept["boot_id"] == BOOT_ID and list(kept["witnesses"]) == [str(host.device("zram3"))]
    # A damaged one is written anew.
    (host.state / "made" / "t1.json").write_text("[7", encoding="utf-8")
    host.record("raid", arrays={"s": {"uuid": "u-2"}})
    host.play("kept")
    assert named(host)["arrays"] == ["u-2"] and named(host)["devices"] == []


def test_a_host_without_records_and_without_a_copy_is_not_asked(host):
    host._module = None
    assert host.play("restored") == {"changed": False, "restored": []}


def test_names_mean_nothing_that_came_later(host):
    """After a restart only what outlives one is looked for, and a device that came later under the number of ours is not ours."""
    host.make(host.device("zram3"))
    host.make(host.device("zram4"))
    disks = {name: disk(host, name) for name in ("zram3", "zram4")}
    host.record("ramdisk", provider="zram", order=list(disks), disks=disks)
    host.record("raid", arrays={"r": {"uuid": "u-1"}})
    made = claims.made(claims.kept(OURS, host.run, host.configfs))
    assert claims.still(made) == made and claims.still({}) == {}
    host.make(host.device("zram3"))
    assert claims.still(made)["devices"] == ["zram4"]
    assert claims.still({**made, "boot_id": "another"}) == {"arrays": ["u-1"], "files": []}
    later = claims.made({"boot_id": "another", "areas": {}}, made)
    assert (later["arrays"], later["devices"], later["witnesses"]) == (["u-1"], [], {})


@pytest.mark.parametrize(
    "shape", [7, "text", [1], {"disks": 5}, {"disks": {"a": 3}}, {"modules": 4, "core": "x", "targets": [7]}]
)
def test_a_record_of_another_shape_names_nothing(shape):
    areas = ("ramdisk", "raid", "datastore", "lio_target", "nfs_export", "iscsi_session")
    names = ownership.names_of(dict.fromkeys(areas, shape))
    assert {kind: sorted(several) for kind, several in names.items() if several} == {}
