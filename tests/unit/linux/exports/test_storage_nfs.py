# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NFS on both sides: what is exported to whom, the server's start and stop, and which file system a mount shows."""

from __future__ import annotations

import copy
import os
import uuid
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.converge import converge
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.linux import record
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import nfs_mount
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import nfs_volumes
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import nfs_export, nfs_plan
from unchanged import broken_off, refused

UUID = "6d6a2a1c-3f0e-5c3b-9a55-0c1d2e3f4a5b"
PATH = "/srv/storlab/ds1"
LAYER = {
    "name": "datastore-ds1",
    "kind": "datastore",
    "identity": {"mount_point": PATH, "uuid": UUID},
    "detail": {"provider": "filesystem"},
}
SERVER = {"versions": ["4.2"], "addresses": ["10.0.5.10"], "threads": 8}
OPTIONS = f"rw,sync,no_subtree_check,no_root_squash,sec=sys,fsid={UUID}"
ETAB = f"""\
{PATH}\t10.0.5.21(rw,sync,wdelay,hide,nocrossmnt,secure,no_root_squash,no_all_squash,no_subtree_check,secure_locks,acl,no_pnfs,fsid={UUID},anonuid=65534,anongid=65534,sec=sys,rw,secure,no_root_squash,no_all_squash)
/home\t192.168.7.0/24(ro,sync,wdelay,hide,root_squash,sec=sys)
/with\\040blank\t[fd00::5](rw,async)
"""


def wanted(*clients, layer=None, **change) -> list:
    entry = {"name": "share", "layer": "datastore-ds1", "clients": list(clients), "sync": True, "read_only": False}
    layers = {"datastore-ds1": layer or LAYER}
    return nfs_plan.resolve({"exports": [{**entry, **change}], "layers": layers})


def current(**change) -> dict:
    bare = {"threads": 0, "versions": set(), "started": None, "file": None, "etab": {}, "ours": set(), "others": set()}
    return {**bare, **change}


def built(*clients) -> dict:
    """What is there once the exports to these clients were made."""
    entries = wanted(*clients)
    return current(
        threads=8,
        versions={"4", "4.1", "4.2"},
        started=SERVER,
        file=nfs_plan.table("lab", entries),
        etab={(PATH, client): set(OPTIONS.split(",")) | {"wdelay"} for client in clients},
        ours={(PATH, client) for client in clients},
    )


def ops(now, entries, server=SERVER) -> list:
    text = nfs_plan.table("lab", entries) if entries else None
    return [(step["op"], step["target"]) for step in nfs_plan.plan(now, entries, server if entries else None, text)]


# ---------------------------------------------------------------- whom it is open to


@pytest.mark.parametrize(
    "client",
    ["*", "0.0.0.0/0", "::/0", "", "10.0.5.*", "client01", "@trusted", "10.0.5.21/24", "gss/krb5", "10.0.5.21(rw)"],
)
def test_an_export_is_never_open_to_all_and_clients_are_addresses(client):
    with pytest.raises(Failure) as caught:
        wanted("10.0.5.21", client)
    assert caught.value.code == "bad_value" and "never open to all" in str(caught.value.remedy)
    with pytest.raises(Failure):
        wanted()


def test_the_table_names_each_client_with_its_options():
    entries = wanted("10.0.5.21", "10.0.6.0/24", "fd00::21", "10.0.5.21")
    assert nfs_plan.table("lab", entries).splitlines()[1:] == [
        f"{PATH} 10.0.5.21({OPTIONS}) 10.0.6.0/24({OPTIONS}) fd00::21({OPTIONS})"
    ]
    slack = wanted("10.0.5.21", sync=False, read_only=True)[0]["options"].split(",")
    assert slack[:2] == ["ro", "async"]
    assert nfs_plan.argument(PATH, "fd00::21") == f"[fd00::21]:{PATH}"
    assert nfs_plan.argument(PATH, "10.0.6.0/24") == f"10.0.6.0/24:{PATH}"


@pytest.mark.parametrize(
    "layer",
    [
        {**LAYER, "kind": "initiator"},
        {**LAYER, "identity": {"uuid": UUID}},
        {**LAYER, "identity": {"mount_point": PATH}},
        {**LAYER, "identity": {"mount_point": "/srv/two words", "uuid": UUID}},
        {**LAYER, "detail": {"provider": "nfs", "server": "10.0.5.9"}},
    ],
)
def test_only_a_file_system_of_this_host_is_exported(layer):
    with pytest.raises(Failure) as caught:
        wanted("10.0.5.21", layer=layer)
    assert caught.value.code == "bad_value"


def test_a_layer_that_nobody_made_is_not_exported():
    entry = {"name": "share", "layer": "datastore-ds2", "clients": ["10.0.5.21"], "sync": True, "read_only": False}
    with pytest.raises(Failure) as caught:
        nfs_plan.resolve({"exports": [entry], "layers": {"datastore-ds1": LAYER}})
    assert caught.value.code == "layer_missing"


@pytest.mark.parametrize(
    "change",
    [
        {"addresses": []},
        {"addresses": ["0.0.0.0"]},  # noqa: S104
        {"addresses": ["::"]},
        {"addresses": ["target01"]},
        {"versions": []},
        {"threads": 0},
    ],
)
def test_a_server_never_listens_on_every_address(change):
    params = {"addresses": ["10.0.5.10"], "versions": ["4.2", "3"], "threads": 3, **change}
    with pytest.raises(Failure) as caught:
        nfs_plan.check_server(params)
    assert caught.value.code == "bad_value" and next(iter(change)) in str(caught.value)


def test_the_server_is_started_with_what_is_wanted_and_nothing_else():
    both = nfs_plan.check_server({"addresses": ["10.0.5.10", "fd00::10"], "versions": ["4.2", "3"], "threads": 3})
    assert nfs_plan.server_argv(both) == ["rpc.nfsd", "-G", "10", "-H", "10.0.5.10", "-H", "fd00::10", "3"]
    assert nfs_plan.mountd_argv(both) == ["rpc.mountd"]
    assert nfs_plan.server_argv(SERVER)[3:5] == ["-N", "3"]
    assert nfs_plan.mountd_argv(SERVER) == ["rpc.mountd", "-N", "2", "-N", "3"]
    assert nfs_plan.server_argv({**SERVER, "versions": ["3"]})[3:5] == ["-N", "4"]


# ---------------------------------------------------------------- what is there


def test_what_is_announced_is_read():
    found = nfs_plan.parse_etab(ETAB)
    assert set(found) == {(PATH, "10.0.5.21"), ("/home", "192.168.7.0/24"), ("/with blank", "fd00::5")}
    assert set(OPTIONS.split(",")) <= found[PATH, "10.0.5.21"]
    assert "root_squash" in found["/home", "192.168.7.0/24"]
    assert nfs_plan.parse_versions("-2 -3 +4 +4.1 +4.2") == {"4", "4.1", "4.2"}


STATES = """\
- 0x0000000132ab4a5f7b5e0c6101000000: { type: open, access: rw, deny: --, superblock: "01:1f:13", filename: "storlab-benchmark.dat", owner: "open id:..." }
- 0x0000000132ab4a5f7b5e0c6102000000: { type: deleg, access: w, superblock: "fd:0a:131074", filename: "x" }
"""


def test_what_clients_have_open_is_read(tmp_path, monkeypatch):
    assert nfs_plan.parse_states(STATES) == {"1:31", "253:10"}
    monkeypatch.setattr(nfs_export, "NFSD", str(tmp_path))
    for number, (address, status) in enumerate(
        [("10.0.5.21:801", "confirmed"), ("10.0.5.22:802", "courtesy"), ("[fd00::21]:803", "confirmed")]
    ):
        folder = tmp_path / "clients" / str(number)
        folder.mkdir(parents=True)
        (folder / "info").write_text(f'clientid: 0x6\naddress: "{address}"\nstatus: {status}\n', encoding="utf-8")
        (folder / "states").write_text(STATES, encoding="utf-8")
    assert nfs_export.open_on("10.0.5.21") == nfs_export.open_on("10.0.5.0/24") == {"1:31", "253:10"}
    assert nfs_export.open_on("fd00::21") == {"1:31", "253:10"}
    # One that went away without a word, and one that has nothing open.
    assert nfs_export.open_on("10.0.5.22") == nfs_export.open_on("10.0.5.2") == set()


# ---------------------------------------------------------------- the plan


def test_a_bare_host_gets_the_file_the_server_and_each_export():
    assert ops(current(), wanted("10.0.5.21", "10.0.5.22")) == [
        ("write_file", "file of exports"),
        ("start_server", "NFS server"),
        ("export", f"{PATH} to 10.0.5.21"),
        ("export", f"{PATH} to 10.0.5.22"),
    ]


def test_what_is_built_needs_no_step():
    assert ops(built("10.0.5.21"), wanted("10.0.5.21")) == []


def test_a_client_that_comes_or_goes_leaves_the_others_alone():
    assert ops(built("10.0.5.21"), wanted("10.0.5.21", "10.0.5.22")) == [
        ("write_file", "file of exports"),
        ("export", f"{PATH} to 10.0.5.22"),
    ]
    assert ops(built("10.0.5.21", "10.0.5.22"), wanted("10.0.5.22")) == [
        ("withdraw", f"{PATH} to 10.0.5.21"),
        ("write_file", "file of exports"),
    ]


def test_options_that_differ_are_announced_again():
    now = built("10.0.5.21")
    now["etab"][PATH, "10.0.5.21"] -= {"sync"}
    assert ops(now, wanted("10.0.5.21")) == [("export", f"{PATH} to 10.0.5.21")]


def test_removing_withdraws_what_is_ours_and_stops_the_server_that_was_started():
    now = built("10.0.5.21")
    now["etab"]["/home", "192.168.7.0/24"] = {"ro"}
    assert ops(now, []) == [
        ("withdraw", f"{PATH} to 10.0.5.21"),
        ("remove_file", "file of exports"),
        ("stop_server", "NFS server"),
    ]
    assert ops({**now, "started": None}, [])[-1] == ("remove_file", "file of exports")
    assert ops(current(etab={("/home", "192.168.7.0/24"): {"ro"}}, threads=8), []) == []


def test_a_server_that_ran_already_is_used_as_it_is_or_refused():
    runs = current(threads=64, versions={"3", "4", "4.1", "4.2"})
    assert "start_server" not in dict(ops(runs, wanted("10.0.5.21")))
    with pytest.raises(Failure) as caught:
        ops({**runs, "versions": {"3"}}, wanted("10.0.5.21"))
    assert caught.value.code == "nfs_version_off" and "4.2" in str(caught.value)


def test_a_server_of_ours_that_shall_be_another_is_started_anew():
    more = {**SERVER, "versions": ["3", "4.2"]}
    assert ops(built("10.0.5.21"), wanted("10.0.5.21"), more) == [
        ("stop_server", "NFS server"),
        ("start_server", "NFS server"),
    ]


def test_what_somebody_else_exports_is_not_touched():
    entries = wanted("10.0.5.21")
    with pytest.raises(Failure) as caught:
        ops(current(etab={(PATH, "10.9.9.9"): {"rw"}}), entries)
    assert caught.value.code == "export_foreign"


# ---------------------------------------------------------------- carried out, on a host that only notes it


@pytest.fixture
def host(monkeypatch, tmp_path):
    return noting(monkeypatch, tmp_path)


def noting(monkeypatch, tmp_path) -> tuple:
    """A host whose commands are noted, and change the table of exports; its folders lie in tmp_path. (commands, ended processes, {program: pids})"""
    said: list = []
    monkeypatch.setattr(record, "RUN_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(record.Record.__init__, "__defaults__", (str(tmp_path / "run"),))
    monkeypatch.setattr(nfs_export, "EXPORTS_DIR", str(tmp_path / "exports.d"))
    monkeypatch.setattr(nfs_export, "ETAB", str(tmp_path / "etab"))
    monkeypatch.setattr(nfs_export, "NFSD", str(tmp_path / "nfsd"))
    (tmp_path / "nfsd").mkdir()
    (tmp_path / "nfsd" / "threads").write_text("0\n", encoding="utf-8")
    monkeypatch.setattr(nfs_export.Exports, "refuse_unproven", staticmethod(lambda _wanted: None))
    started: dict = {}
    monkeypatch.setattr(nfs_export, "pids_of", lambda name: started.get(name, []))
    monkeypatch.setattr(nfs_export, "start_ticks", lambda pid: f"ticks-{pid}")
    ended: list = []
    monkeypatch.setattr(nfs_export.Exports, "_end", staticmethod(lambda process: ended.append(process["pid"])))

    etab = tmp_path / "etab"

    def note(argv, **_more):
        said.append(argv)
        lines = etab.read_text(encoding="utf-8").splitlines(keepends=True) if etab.exists() else []
        if argv[:2] == ["exportfs", "-o"]:
            client, _colon, path = argv[3].partition(":")
            etab.write_text("".join([*lines, f"{path}\t{client}({argv[2]})\n"]), encoding="utf-8")
        elif argv[:2] == ["exportfs", "-u"]:
            client, _colon, path = argv[2].partition(":")
            etab.write_text(
                "".join(line for line in lines if not line.startswith(f"{path}\t{client}(")), encoding="utf-8"
            )
        if argv[0] in ("rpc.mountd", "rpcbind"):
            started[argv[0]] = [4000 + len(argv[0])]

    monkeypatch.setattr(nfs_export, "run", note)
    return said, ended, started


def params(testbed_id="lab", state="present", **change) -> dict:
    entry = {"name": "share", "layer": "datastore-ds1", "clients": ["10.0.5.21"], "sync": True, "read_only": False}
    return {
        "testbed_id": testbed_id,
        "state": state,
        "layers": {"datastore-ds1": LAYER},
        "addresses": ["10.0.5.10"],
        "versions": ["4.2"],
        "threads": 8,
        "exports": [entry],
        **change,
    }


def test_what_was_made_goes_exactly(host, tmp_path):
    said, ended, _started = host
    (tmp_path / "etab").write_text("".join(ETAB.splitlines(keepends=True)[1:]), encoding="utf-8")
    made = converge(nfs_export.Area, params(), check_mode=False)
    assert made["changed"] and [layer["name"] for layer in made["layers"]] == ["target-share"]
    assert made["layers"][0]["path"] is None and made["layers"][0]["parent"] == "datastore-ds1"
    assert [argv[0] for argv in said] == ["rpc.mountd", "rpc.nfsd", "exportfs"]
    assert said[-1] == ["exportfs", "-o", OPTIONS, f"10.0.5.21:{PATH}"]
    assert (tmp_path / "exports.d" / "storlab-lab.exports").is_file()
    # The kernel's side, which is not here.
    (tmp_path / "etab").write_text(ETAB, encoding="utf-8")
    (tmp_path / "nfsd" / "threads").write_text("8\n", encoding="utf-8")
    assert not converge(nfs_export.Area, params(), check_mode=False)["changed"]
    del said[:]
    assert converge(nfs_export.Area, params(state="absent"), check_mode=False)["changed"]
    assert said == [["exportfs", "-u", f"10.0.5.21:{PATH}"], ["exportfs", "-f"], ["rpc.nfsd", "0"]]
    assert ended == [4010]
    assert not (tmp_path / "exports.d").exists() and not (tmp_path / "run").exists()


@pytest.mark.parametrize("ports, stopped", [(None, []), ("\n", []), ("tcp 2049\n", [["rpc.nfsd", "0"]])])
def test_a_server_that_runs_no_more_needs_no_stop(host, tmp_path, ports, stopped):
    """A record that came back after the teardown that had stopped the server: `rpc.nfsd 0` fails where there is none."""
    said, ended, _started = host
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "etab").write_text("", encoding="utf-8")
    assert (tmp_path / "nfsd" / "threads").read_text(encoding="utf-8") == "0\n"
    if ports:
        (tmp_path / "nfsd" / "portlist").write_text(ports, encoding="utf-8")
    del said[:]
    assert converge(nfs_export.Area, params(state="absent"), check_mode=False)["changed"]
    assert said == stopped and ended == [4010] and not (tmp_path / "run").exists()


def test_check_mode_changes_nothing(host, tmp_path):
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    made = converge(nfs_export.Area, params(), check_mode=True)
    assert made["changed"] and made["layers"] and not host[0]
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_the_last_testbed_stops_the_server(host, tmp_path):
    said, ended, _started = host
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "nfsd" / "threads").write_text("8\n", encoding="utf-8")
    (tmp_path / "nfsd" / "versions").write_text("-2 -3 +4 +4.1 +4.2\n", encoding="utf-8")
    other = copy.deepcopy(LAYER)
    other["identity"] = {"mount_point": "/srv/storlab/other", "uuid": str(uuid.UUID(int=77))}
    converge(nfs_export.Area, params("second", layers={"datastore-ds1": other}), check_mode=False)
    del said[:]
    converge(nfs_export.Area, params(state="absent"), check_mode=False)
    assert ["rpc.nfsd", "0"] not in said and not ended
    converge(nfs_export.Area, params("second", state="absent"), check_mode=False)
    assert said[-1] == ["rpc.nfsd", "0"] and ended == [4010]


ANNOUNCED = "/home\t192.168.7.0/24(ro,sync)\n"


def test_a_server_that_somebody_else_exports_by_is_left_to_them(host, tmp_path):
    said, ended, _started = host
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "nfsd" / "threads").write_text("8\n", encoding="utf-8")
    (tmp_path / "nfsd" / "versions").write_text("-2 -3 +4 +4.1 +4.2\n", encoding="utf-8")
    (tmp_path / "etab").write_text(ETAB.splitlines()[0] + "\n" + ANNOUNCED, encoding="utf-8")
    del said[:]
    planned = converge(nfs_export.Area, params(state="absent"), check_mode=True)
    assert not said and not ended
    removed = converge(nfs_export.Area, params(state="absent"), check_mode=False)
    assert planned["steps"] == removed["steps"]
    left = next(step for step in removed["steps"] if step["target"] == "NFS server")
    assert (left["op"], left["will"]) == ("leave_server", "kept for /home to 192.168.7.0/24")
    # Ours is withdrawn, and nothing that the others need is ended, unmounted or unloaded.
    assert any(argv[:2] == ["exportfs", "-u"] for argv in said) and not ended
    assert not [argv for argv in said if argv[0] in ("rpc.nfsd", "umount", "modprobe", "rmmod")]
    assert not converge(nfs_export.Area, params(state="absent"), check_mode=False)["changed"]


def test_a_server_that_somebody_else_exports_by_is_not_restarted(host, tmp_path):
    change = {"versions": ["3", "4.2"]}
    said, ended, _started = host
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "nfsd" / "threads").write_text("8\n", encoding="utf-8")
    (tmp_path / "nfsd" / "versions").write_text("-2 -3 +4 +4.1 +4.2\n", encoding="utf-8")
    (tmp_path / "etab").write_text(ETAB.splitlines()[0] + "\n" + ANNOUNCED, encoding="utf-8")
    del said[:]
    for check_mode in (True, False):
        with refused(tmp_path, said, ended, match=r"/home to 192\.168\.7\.0/24") as caught:
            converge(nfs_export.Area, params(**change), check_mode=check_mode)
        assert caught.value.code == "nfs_server_shared"
    assert not said and not ended
    (tmp_path / "etab").write_text(ETAB.splitlines()[0] + "\n", encoding="utf-8")
    converge(nfs_export.Area, params(state="absent"), check_mode=False)
    assert said[-1] == ["rpc.nfsd", "0"] and ended == [4010]


def test_what_was_announced_before_the_server_was_started_does_not_hold_it(host, tmp_path):
    said, ended, _started = host
    (tmp_path / "etab").write_text(ANNOUNCED, encoding="utf-8")
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "etab").write_text(ETAB.splitlines()[0] + "\n" + ANNOUNCED, encoding="utf-8")
    (tmp_path / "nfsd" / "threads").write_text("8\n", encoding="utf-8")
    converge(nfs_export.Area, params(state="absent"), check_mode=False)
    assert said[-1] == ["rpc.nfsd", "0"] and ended == [4010] and not (tmp_path / "run").exists()


def test_a_daemon_that_ran_already_is_left_alone(host):
    said, ended, started = host
    started["rpc.mountd"] = [17]
    converge(nfs_export.Area, params(versions=["3", "4.2"]), check_mode=False)
    assert [argv[0] for argv in said] == ["rpcbind", "rpc.nfsd", "exportfs"]
    converge(nfs_export.Area, params(state="absent"), check_mode=False)
    assert ended == [4007]


@pytest.mark.parametrize(
    "found, ours",
    [
        pytest.param({4010: (["rpc.mountd", "-N", "2", "-N", "3"], 7_000)}, [4010], id="that of the killed run"),
        pytest.param({17: (["rpc.mountd", "-N", "2", "-N", "3"], 6_999)}, [], id="one that ran before"),
        pytest.param({18: (["/usr/sbin/rpc.mountd"], 7_001)}, [], id="one that somebody else has started since"),
        pytest.param({}, [], id="none"),
    ],
)
@pytest.mark.parametrize("next_run", ["absent", "present"])
def test_a_daemon_that_a_killed_run_had_started_is_ours(host, tmp_path, monkeypatch, found, ours, next_run):
    """Killed after the start, and before anybody knew which process it had become."""
    said, ended, started = host
    monkeypatch.setattr(nfs_export, "ticks_now", lambda: 7_000)

    def killed(name):
        if said:
            raise KeyboardInterrupt
        return []

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(nfs_export, "pids_of", killed)
        converge(nfs_export.Area, params(), check_mode=False)
    assert [argv[0] for argv in said] == ["rpc.mountd"]
    started["rpc.mountd"] = list(found)
    monkeypatch.setattr(nfs_export, "read_cmdline", lambda pid: found[pid][0] if pid in found else [])
    monkeypatch.setattr(nfs_export, "start_ticks", lambda pid: str(found[pid][1]) if pid in found else "9000")
    if next_run == "present":
        converge(nfs_export.Area, params(), check_mode=False)
        # Where none runs it is started again.
        assert [argv[0] for argv in said].count("rpc.mountd") == (1 if found else 2)
        assert "starting" not in (tmp_path / "run" / "lab" / "nfs_export.json").read_text(encoding="utf-8")
        ours = ours or ([] if found else [4010])
    converge(nfs_export.Area, params(state="absent"), check_mode=False)
    assert ended == ours and not (tmp_path / "run").exists()


def test_what_a_client_has_open_is_not_withdrawn(host, tmp_path, monkeypatch):
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "etab").write_text(ETAB.splitlines()[0] + "\n", encoding="utf-8")
    monkeypatch.setattr(nfs_export.mounts, "read", lambda: [{"mount_point": PATH, "numbers": "1:31"}])
    monkeypatch.setattr(nfs_export, "open_on", lambda client: {"1:31"} if client == "10.0.5.21" else set())
    monkeypatch.setattr(nfs_export.Exports.refuse_used, "__defaults__", (0,))
    with refused(tmp_path, host[0]) as caught:
        converge(nfs_export.Area, params(state="absent"), check_mode=False)
    assert caught.value.code == "export_in_use"


def test_what_is_not_the_layers_file_system_is_not_exported(monkeypatch):
    table = [{"mount_point": PATH, "source": "/dev/ram0", "numbers": "1:0"}]
    monkeypatch.setattr(nfs_export.mounts, "read", lambda: table)
    shows = {"uuid": UUID}
    monkeypatch.setattr(nfs_export.filesystem, "read_superblock", lambda _device: shows)
    nfs_export.Exports.refuse_unproven(wanted("10.0.5.21"))
    for broken in ("uuid", "source", "mount_point"):
        shows["uuid"] = str(uuid.UUID(int=5)) if broken == "uuid" else UUID
        table[0] = {"mount_point": PATH, "source": "/dev/ram0", "numbers": "1:0"}
        if broken != "uuid":
            table[0][broken] = "other"
        with pytest.raises(Failure) as caught:
            nfs_export.Exports.refuse_unproven(wanted("10.0.5.21"))
        assert caught.value.code == "export_unproven"


# ---------------------------------------------------------------- clients

ENTRY = {
    "name": "share",
    "server": "10.0.5.10",
    "export": PATH,
    "layer": "target-share",
    "nfs_version": "4.2",
    "mount_options": "noatime",
    "mount_point": "/mnt/share",
    "uuid": UUID,
    "generation": "g1",
}
WHOLE = "6d6a2a1c3f0e5c3b:9a550c1d2e3f4a5b"
MOUNTED = {"source": f"10.0.5.10:{PATH}", "numbers": "0:45"}
VOLUMES = f"""\
NV SERVER   PORT DEV          FSID                              FSC
v4 0a00050a  801 0:45         {WHOLE} no
v3 0a00050b  801 0:46         ab12:0                            no
"""


def test_a_mount_is_known_by_the_fsid_that_is_its_file_systems_uuid():
    assert nfs_volumes.volumes(VOLUMES) == {"0:45": WHOLE, "0:46": "ab12:0"}
    assert nfs_volumes.volumes("") == {}
    assert WHOLE in nfs_volumes.fsids(UUID)
    # 0x6d6a2a1c3f0e5c3b ^ 0x9a550c1d2e3f4a5b, as a server whose bytes are in this order sends it.
    assert f"{0x6D6A2A1C3F0E5C3B ^ 0x9A550C1D2E3F4A5B:x}:0" in nfs_volumes.fsids(UUID)
    assert (
        f"{int.from_bytes((0x6D6A2A1C3F0E5C3B ^ 0x9A550C1D2E3F4A5B).to_bytes(8, 'big'), 'little'):x}:0"
        in nfs_volumes.fsids(UUID)
    )
    assert not nfs_volumes.fsids(UUID) & nfs_volumes.fsids(str(uuid.UUID(int=99)))


def there(**change) -> dict:
    known = {"mounted": MOUNTED, "fsid": WHOLE, "options": "vers=4.2,proto=tcp,noatime", "generation": "g1"}
    return {**known, **change}


@pytest.mark.parametrize(
    ("now", "steps"),
    [
        (there(), []),
        (there(mounted=None, fsid=None), ["mount"]),
        (there(generation="g0"), ["detach", "mount"]),
        (there(fsid="1:2"), ["detach", "mount"]),
        (there(fsid=None), ["detach", "mount"]),
        (there(options="vers=3,proto=tcp,nolock,noatime"), ["detach", "mount"]),
        (there(mounted={**MOUNTED, "source": "10.0.5.11:/else"}), ["detach", "mount"]),
    ],
)
def test_what_is_mounted_over_nfs_is_what_is_meant_or_is_mounted_again(now, steps):
    assert [step["op"] for step in nfs_mount.plan(now, ENTRY)] == steps


def test_options_follow_the_version():
    assert nfs_mount.options({**ENTRY, "nconnect": 8}) == "vers=4.2,proto=tcp,nconnect=8,noatime"
    assert nfs_mount.options({**ENTRY, "nfs_version": "3"}) == "vers=3,proto=tcp,nolock,noatime"
    assert nfs_mount.options({**ENTRY, "mount_options": ""}) == "vers=4.2,proto=tcp"
    assert nfs_mount.source({**ENTRY, "server": "fd00::10"}) == f"[fd00::10]:{PATH}"


@pytest.mark.parametrize(
    "change",
    [{"server": None}, {"export": None}, {"layer": None}, {"export": "srv"}, {"export": "/a b"}, {"server": "-o,x"}],
)
def test_what_nfs_needs_is_asked_for(change):
    nfs_mount.check(ENTRY)
    with pytest.raises(Failure) as caught:
        nfs_mount.check({**ENTRY, **change})
    assert next(iter(change)) in str(caught.value)


def test_a_mount_whose_server_is_silent_is_not_looked_at(monkeypatch):
    monkeypatch.setattr(nfs_mount, "reach", lambda _server, _port: "filtered")
    with pytest.raises(Failure) as caught:
        nfs_mount.refuse_silent("10.0.5.10", "datastore share")
    assert caught.value.code == "server_silent"
    monkeypatch.setattr(
        nfs_mount, "reach", lambda server, port: "open" if (server, port) == ("10.0.5.10", 2049) else ""
    )
    nfs_mount.refuse_silent("10.0.5.10", "datastore share")


def test_what_the_kernel_loaded_for_a_client_goes_with_the_server(tmp_path, monkeypatch):
    """Found on a real kernel: rpcsec_gss_krb5 came with the first mount, and held what came with the server."""
    unloaded: list = []
    monkeypatch.setattr(record, "unload_modules", unloaded.extend)
    monkeypatch.setattr(record, "loaded_modules", set)
    needs = {"auth_rpcgss": {"rpcsec_gss_krb5"}, "nfsd": set()}
    monkeypatch.setattr(nfs_export, "modules_that_need", lambda names: set().union(*(needs[name] for name in names)))
    exports = nfs_export.Exports.__new__(nfs_export.Exports)
    exports.record = record.Record("lab", "nfs_export", str(tmp_path))
    exports.record.data["modules"] = ["auth_rpcgss", "nfsd"]
    exports.record.save()
    exports.forget()
    assert unloaded == ["auth_rpcgss", "nfsd", "rpcsec_gss_krb5"]
    assert not (tmp_path / "lab").exists()


# ---------------------------------------------------------------- a full /var


def without_room(monkeypatch, free: int) -> None:
    """Free blocks of the file system of the table; real figures elsewhere."""
    room = os.statvfs

    def statvfs(path):
        if path != os.path.dirname(nfs_export.ETAB):
            return room(path)
        return SimpleNamespace(f_bfree=free, f_frsize=4096)

    monkeypatch.setattr(nfs_export.os, "statvfs", statvfs)


@pytest.mark.parametrize("state", ["present", "absent"])
def test_exportfs_is_not_called_where_its_table_has_no_room(host, tmp_path, monkeypatch, state):
    """On a full file system exportfs (2.6.2, seen in a machine) writes an empty table, ends with 0, and all exports of the host are gone."""
    said, _ended, _started = host
    others = "/srv/theirs\t10.9.9.1(rw,fsid=7)\n"
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "etab").write_text(ETAB + others, encoding="utf-8")
    if state == "present":
        (tmp_path / "etab").write_text(others, encoding="utf-8")
    without_room(monkeypatch, 1)
    with refused(said, tmp_path) as caught:
        converge(nfs_export.Area, params(state=state), check_mode=False)
    assert caught.value.code == "export_table_full"
    assert f"{tmp_path / 'etab'} has no room to be written again: 4096 bytes are free" in str(caught.value)
    # With room again it goes on.
    without_room(monkeypatch, 99)
    assert converge(nfs_export.Area, params(state=state), check_mode=False)["changed"]


def test_what_changes_no_export_needs_no_room(host, tmp_path, monkeypatch):
    converge(nfs_export.Area, params(), check_mode=False)
    (tmp_path / "nfsd" / "threads").write_text("8\n", encoding="utf-8")
    without_room(monkeypatch, 0)
    assert converge(nfs_export.Area, params(), check_mode=False)["changed"] is False


def test_an_export_that_is_not_in_the_table_afterwards_is_no_success(host, tmp_path, monkeypatch):
    announce = nfs_export.run

    def run(argv, **more):
        announce(argv, **more)
        if argv[0] == "exportfs":
            (tmp_path / "etab").write_text("", encoding="utf-8")

    monkeypatch.setattr(nfs_export, "run", run)
    with broken_off() as caught:
        converge(nfs_export.Area, params(), check_mode=False)
    assert caught.value.code == "export_not_announced" and f"{PATH} to 10.0.5.21" in str(caught.value)
    monkeypatch.setattr(nfs_export, "run", announce)
    assert converge(nfs_export.Area, params(state="absent"), check_mode=False)["changed"]
    assert not (tmp_path / "run").exists()
