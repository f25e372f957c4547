# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""esxi_counters through Ansible, against the simulated ESXi and vCenter, and into a stored run and its report.

The expected figures are made of a request of the test's own in the API's other format. The run is SYNTHETIC, and so are the host's numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.storlab.testbed.plugins.action.esxi_counters import utc
from ansible_collections.storlab.testbed.plugins.plugin_utils.compare import alike
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import environment, markup, model, views
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load, run_folder
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import VmomiSupport, vim

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("support", "standins", "unit")]
import esxsim_process
from fixtures.report import make_fixture
from unchanged import unchanged
from waiting import until

PASSWORD = "sl-esxsim-pw-4711"
HOSTS = {"esx": "localhost.localdomain", "vpx": "DC0_H1"}
# How far the host's clock is ahead of this machine's, which a vCenter has too.
AHEAD_S = {"esx": 0.0, "vpx": 40.0}
SCHEMA = json.loads((ROOT / "docs" / "schema" / "storlab.result-1.schema.json").read_text(encoding="utf-8"))


class Lab:
    """A simulated host with a machine on it, and a run of that machine's disk that was measured in the last minutes."""

    def __init__(self, kind: str, folder: Path, ready: dict):
        self.kind, self.folder, self.ready = kind, folder, ready
        self.address, _colon, self.port = ready["address"].partition(":")
        self.instance = SmartConnect(
            host=self.address,
            port=int(self.port),
            user="root",
            pwd=PASSWORD,
            sslContext=ssl.create_default_context(cafile=ready["certificate"]),
        )
        self.content = self.instance.RetrieveContent()
        self.host = next(host for host in self.objects(vim.HostSystem) if host.name == HOSTS[kind])
        self.disk = next(
            lun.canonicalName
            for lun in self.host.configManager.storageSystem.storageDeviceInfo.scsiLun
            if isinstance(lun, vim.host.ScsiDisk)
        )
        self.machine = self._machine()
        self.uuid = next(
            device.backing.uuid
            for device in self.machine.config.hardware.device
            if isinstance(device, vim.vm.device.VirtualDisk)
        )
        self.run_dir = folder / "run"
        self.measured_s = time.time() - 200
        self._run()

    def objects(self, kind) -> list:
        return list(self.content.viewManager.CreateContainerView(self.content.rootFolder, [kind], True).view)

    def _machine(self):
        above = self.host
        while not isinstance(above, vim.Datacenter):
            above = above.parent
        controller = vim.vm.device.ParaVirtualSCSIController(key=1000, busNumber=0, sharedBus="noSharing")
        disk = vim.vm.device.VirtualDisk(
            key=2000,
            controllerKey=1000,
            unitNumber=3,
            capacityInKB=1024,
            backing=vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName="", diskMode="persistent"),
        )
        changes = [
            vim.vm.device.VirtualDeviceSpec(operation="add", device=controller),
            vim.vm.device.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk),
        ]
        made = self.done(
            above.vmFolder.CreateVM_Task(
                vim.vm.ConfigSpec(
                    name="vm01",
                    numCPUs=1,
                    memoryMB=64,
                    files=vim.vm.FileInfo(vmPathName=f"[{self.host.datastore[0].name}]"),
                    deviceChange=changes,
                ),
                pool=self.host.parent.resourcePool,
                host=self.host,
            )
        )
        self.done(made.PowerOnVM_Task())
        return made

    @staticmethod
    def done(task):
        until(lambda: task.info.state in ("success", "error"))
        assert task.info.state == "success", task.info.error
        return task.info.result

    def _run(self) -> None:
        layers = {
            "backing-a": {"host": "target01", "kind": "backing", "parent": None, "identity": {}},
            "initiator-a": {
                "host": "esxi01",
                "kind": "initiator",
                "parent": "backing-a",
                "identity": {"naa": self.disk},
            },
            "guest-vm01": {
                "host": "guest01",
                "kind": "guest",
                "parent": "initiator-a",
                "identity": {"serial": self.uuid.replace("-", "")},
            },
        }
        run_folder.add_layers(
            str(self.run_dir),
            {
                name: {"name": name, "path": None, "purpose": "data", "size_bytes": 1 << 20, **layer}
                for name, layer in layers.items()
            },
        )
        for host in ("guest01", "target01"):
            run_folder.remember_clock(str(self.run_dir), host, {"offset_s": 0.0, "uncertain_s": 0.001})
        for name, layer, kind, host, length_s in (
            ("long", "guest-vm01", "guest", "guest01", 100),
            ("brief", "guest-vm01", "guest", "guest01", 5),
            ("below", "backing-a", "backing", "target01", 100),
        ):
            made = make_fixture.result(make_fixture.LAYERS[1], make_fixture.WORKLOADS[0], 1, 0)
            counted = {
                "interval_s": length_s,
                "started_utc": utc(self.measured_s),
                "finished_utc": utc(self.measured_s + length_s),
            }
            (self.run_dir / "points" / name).mkdir(parents=True)
            run_folder.write_point(
                str(self.run_dir),
                name,
                {
                    **made,
                    "point_id": name,
                    "layer": layer,
                    "layer_kind": kind,
                    "host": host,
                    "path": "/dev/sdb",
                    "workload_id": f"{made['workload_id']}-{name}",
                    "counters": counted,
                },
                {},
            )

    def task(self, *options: str, password: str = PASSWORD, **arguments) -> dict:
        given = {
            "hostname": self.address,
            "port": int(self.port),
            "username": "root",
            "password": password,
            "ca_path": self.ready["certificate"],
            "esxi_host": HOSTS[self.kind],
            **arguments,
        }
        done = subprocess.run(
            [
                "ansible",
                "esxi01",
                "-i",
                "esxi01,",
                "-c",
                "local",
                "-m",
                "storlab.testbed.esxi_counters",
                "-a",
                json.dumps(given),
                "-e",
                json.dumps({"ansible_python_interpreter": sys.executable}),
                *options,
            ],
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert password not in done.stdout + done.stderr
        # Other callbacks may have their say after it.
        return json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))[0]["plays"][0]["tasks"][0]["hosts"][
            "esxi01"
        ]

    def own_mean(self, name: str, instance: str, entity=None) -> float:
        """A counter over the long point's time, asked for by the test itself."""
        manager = self.content.perfManager
        number = next(
            info.key
            for info in manager.perfCounter
            if f"{info.groupInfo.key}.{info.nameInfo.key}.{info.rollupType}" == name
        )
        told = manager.QueryPerf(
            [
                vim.PerformanceManager.QuerySpec(
                    entity=entity or self.host,
                    intervalId=20,
                    format="normal",
                    metricId=[vim.PerformanceManager.MetricId(counterId=number, instance=instance)],
                )
            ]
        )[0]
        ends = [sample.timestamp.timestamp() - AHEAD_S[self.kind] for sample in told.sampleInfo]
        shares = [max(0.0, min(end, self.measured_s + 100) - max(end - 20, self.measured_s)) for end in ends]
        return sum(value * share for value, share in zip(told.value[0].value, shares)) / sum(shares)

    def trouble(self, counter: str, device: str, times: int) -> None:
        order = json.dumps({"method": counter, "name": device, "times": times}).encode()
        urllib.request.urlopen(
            urllib.request.Request(f"http://{self.ready['control']}/trouble", data=order, method="POST")
        ).close()

    def contents(self) -> dict:
        return {
            str(path.relative_to(self.run_dir)): path.read_bytes()
            for path in sorted(self.run_dir.rglob("*"))
            if path.is_file()
        }


@pytest.fixture(scope="module", params=["esx", "vpx"])
def simulated(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    # The other way is tried below.
    lenient = ("short-latencies",)
    with esxsim_process.running(folder / "home", PASSWORD, request.param, lenient) as ready:
        made = Lab(request.param, folder, ready)
        yield made
        Disconnect(made.instance)


@pytest.fixture
def lab(simulated, tmp_path):
    """The simulated host with a run of this test's own, in which nothing of the host is kept yet."""
    simulated.run_dir = tmp_path / "run"
    simulated._run()
    return simulated


def test_a_run_gets_what_the_simulated_host_counted(lab):
    before = lab.contents()
    foreseen = lab.task("--check", run_dir=str(lab.run_dir))
    assert (
        foreseen["changed"]
        and foreseen["added"] == ["long"]
        and "20 s" in foreseen["missed"]["brief"]
        and lab.contents() == before
    )
    done = lab.task(run_dir=str(lab.run_dir))
    assert {key: done[key] for key in ("changed", "added", "missed")} == {
        key: foreseen[key] for key in ("changed", "added", "missed")
    }
    # The simulator runs on this machine; the hosts of its vCenter have a clock of their own.
    assert abs(done["clock"]["offset_s"] - AHEAD_S[lab.kind]) < 0.5
    found = dict(run_folder.results(str(lab.run_dir)))
    assert "esxi" not in found["below"]["counters"] and found["brief"]["flags"][-1] == "esxi_interval_too_short"
    for result in found.values():
        jsonschema.Draft202012Validator(SCHEMA).validate(result)
    esxi, host = found["long"]["counters"]["esxi"], found["long"]["counters"]["hosts"]["esxi01"]
    assert (esxi["simulated"], host["simulated"], esxi["device"], esxi["virtual_disk"]["name"]) == (
        True,
        True,
        lab.disk,
        "vm01:scsi0:3",
    )
    assert (esxi["samples"], esxi["partial_samples"]) in ((4, 2), (5, 0))
    # Clocks of one machine agree to a fraction of a millisecond, but results say times in them.
    assert esxi["device_iops"] == pytest.approx(lab.own_mean("disk.commandsAveraged.average", lab.disk), rel=1e-3)
    assert host["cpu"]["used_mhz"] == pytest.approx(lab.own_mean("cpu.usagemhz.average", ""), rel=1e-3)
    assert host["cpu"]["vm_mhz"] == {
        "vm01": pytest.approx(lab.own_mean("cpu.usagemhz.average", "", lab.machine), rel=1e-3)
    }
    assert esxi["virtual_disk"]["read_iops"] == pytest.approx(
        lab.own_mean("virtualDisk.numberReadAveraged.average", "scsi0:3", lab.machine), rel=1e-3
    )
    assert host["cpu"]["mhz_per_iops"] == pytest.approx(
        host["cpu"]["used_mhz"] / found["long"]["total"]["iops"], rel=1e-3
    )
    assert esxi["gavg_ns"] == pytest.approx(esxi["kavg_ns"] + esxi["davg_ns"]) and esxi["below_resolution"] == [
        "qavg_ns"
    ]
    raw = (lab.run_dir / "points" / "long" / esxi["raw"]["file"]).read_bytes()
    assert hashlib.sha256(raw).hexdigest() == esxi["raw"]["sha256"] and PASSWORD not in "".join(
        map(str, lab.contents().values())
    )
    after = lab.contents()
    again = lab.task(run_dir=str(lab.run_dir))
    assert (again["changed"], again["added"]) == (False, []) and lab.contents() == after


def test_latencies_below_a_millisecond_are_said_to_be_that_and_are_never_0(tmp_path):
    with esxsim_process.running(tmp_path / "home", PASSWORD, "esx") as ready:
        fast = Lab("esx", tmp_path, ready)
        assert fast.task(run_dir=str(fast.run_dir))["added"] == ["long"]
        esxi = dict(run_folder.results(str(fast.run_dir)))["long"]["counters"]["esxi"]
        assert set(esxi["below_resolution"]) == {"gavg_ns", "kavg_ns", "davg_ns", "qavg_ns"}
        assert not {"gavg_ns", "kavg_ns", "davg_ns", "qavg_ns"} & set(esxi)
        assert fast.own_mean("disk.totalLatency.average", fast.disk) == 0
        # Virtual disks are counted in microseconds.
        assert 0 < esxi["virtual_disk"]["read_latency_mean_ns"] < 1_000_000
        Disconnect(fast.instance)


@pytest.mark.parametrize(
    ("trouble", "codes"),
    [
        ({}, []),
        ({"commandsAborted": 3}, ["commands_aborted"]),
        ({"commandsAborted": 1, "busResets": 2}, ["commands_aborted", "bus_resets"]),
    ],
)
def test_a_point_whose_lun_had_commands_aborted_is_failed(tmp_path, trouble, codes):
    with esxsim_process.running(tmp_path / "home", PASSWORD, "esx") as ready:
        host = Lab("esx", tmp_path, ready)
        for counter, times in trouble.items():
            host.trouble(counter, host.disk, times)
        # What another device has is not the point's.
        host.trouble("commandsAborted", "naa.other", 9)
        done = host.task(run_dir=str(host.run_dir))
        point = dict(run_folder.results(str(host.run_dir)))["long"]
        Disconnect(host.instance)
    esxi = point["counters"]["esxi"]
    # The 100 s share time with five or six samples.
    samples = esxi["samples"] + esxi["partial_samples"]
    assert esxi["commands_aborted"] == samples * trouble.get("commandsAborted", 0)
    assert esxi["bus_resets"] == samples * trouble.get("busResets", 0)
    assert [failure["code"] for failure in point["failures"]] == codes
    assert point["status"] == ("failed" if codes else "measured")
    assert list(done["failed_points"]) == (["long"] if codes else []) and done["added"] == ["long"]
    jsonschema.Draft202012Validator(SCHEMA).validate(point)


@pytest.mark.long
def test_two_runs_under_other_settings_of_the_host_are_unlike(tmp_path):
    """What was changed through the API is what the runs are found to differ in, and nothing else is."""
    with esxsim_process.running(tmp_path / "home", PASSWORD, "esx") as ready:
        lab = Lab("esx", tmp_path, ready)
        storage = lab.host.configManager.storageSystem
        storage.UpdateSoftwareInternetScsiEnabled(True)

        def adapter():
            shown = storage.storageDeviceInfo.hostBusAdapter
            return next((each for each in shown if isinstance(each, vim.host.InternetScsiHba)), None)

        def delayed(value: bool) -> None:
            option = vim.host.InternetScsiHba.ParamValue(key="DelayedAck", value=value)
            storage.UpdateInternetScsiAdvancedOptions(iScsiHbaDevice=adapter().device, options=[option])
            until(lambda: {each.key: each.value for each in adapter().advancedOptions}["DelayedAck"] is value)

        def measured(name: str):
            lab.run_dir = tmp_path / name
            lab._run()
            assert lab.task(run_dir=str(lab.run_dir))["added"] == ["long"]
            return load.read_run(str(lab.run_dir))

        until(lambda: adapter() is not None)
        runs = [measured("first"), measured("same")]
        delayed(False)
        runs.append(measured("prompt"))
        delayed(True)
        lab.host.configManager.advancedOption.UpdateOptions(
            [vim.option.OptionValue(key="ISCSI.MaxIoSizeKB", value=VmomiSupport.vmodlTypes["long"](512))]
        )
        runs.append(measured("large"))
        lab.host.configManager.networkSystem.UpdateVirtualNic("vmk0", vim.host.VirtualNic.Specification(mtu=1400))
        runs.append(measured("narrow"))
        Disconnect(lab.instance)

    def unlike(one, other) -> dict:
        texts = [alike.facts(run, [run_of(run)], {"guest-vm01"}) for run in (one, other)]
        return {
            entry["fact"]: (entry.get("baseline"), entry.get("candidate"))
            for entry in alike.differences(*texts, [])
            if entry["status"] == "unexpected"
        }

    def run_of(run) -> dict:
        return next(result for result in run.results if result["point_id"] == "long")

    assert unlike(runs[0], runs[1]) == {}
    assert unlike(runs[0], runs[2]) == {"hosts.esxi01.iscsi_adapter.DelayedAck": ("yes", "no")}
    assert unlike(runs[0], runs[3]) == {"hosts.esxi01.host_options.ISCSI.MaxIoSizeKB": ("128", "512")}
    assert unlike(runs[3], runs[4]) == {"hosts.esxi01.network.vmk0.mtu": ("1500", "1400")}
    host = runs[0].environments["esxi01"]
    assert host["power_policy"] and host["network"]["vSwitch0"] == {"mtu": 1500}
    assert host["network"]["vmnic0"] == {"driver": "nvmxnet3", "speed_mbit_s": 10000}
    assert host["devices"]["initiator-a"]["path_policy"] == "VMW_PSP_FIXED"
    rows = dict(environment.describe("esxi01", host)["rows"])
    assert rows["Delayed ACK"] == "yes" and rows["vmk0"] == "MTU 1500" and rows["Largest iSCSI I/O"] == "128 KiB"


def test_the_report_of_the_run_shows_it_as_simulated(lab):
    assert lab.task(run_dir=str(lab.run_dir))["added"] == ["long"]
    built = model.build(load.read_run(str(lab.run_dir)))
    tables = [
        view(waterfall, views.base.Choices(built))
        for waterfall in built.waterfalls
        for view in (views.esxi.table, views.cpu.table)
    ]
    grid = markup.templates().get_template("table.html.j2").module.grid
    pages = "".join(grid(table) for table in tables if table)
    assert "guest-vm01 (simulated)" in pages and "esxi01 (simulated)" in pages and "MHz per IOPS" in pages
    assert any("esxi01: simulated" in flag["text"] for flag in built.flags)


def test_samples_that_were_kept_do_for_points_that_come_later(lab):
    kept = lab.task(run_dir=str(lab.run_dir), state="recorded")
    assert kept["changed"] and json.loads((lab.run_dir / "samples" / "esxi01.json").read_text())["sample_s"] == 20
    assert not any(name.endswith("samples") for name in load.read_run(str(lab.run_dir)).environments)


@pytest.mark.long
def test_what_a_host_counted_is_kept_after_every_round_because_it_forgets(tmp_path):
    """The role in rounds, on a host that measures and on an ESXi host."""
    measured = {"name": "ceiling-target01", "kind": "ceiling", "host": "target01", "path": None, "parent": None}
    measured.update(purpose="scratch", size_bytes=1 << 30, identity={})
    with esxsim_process.running(tmp_path / "home", PASSWORD, "esx", ("short-latencies",)) as ready:
        lab = Lab("esx", tmp_path / "rounds", ready)
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "benchmark_testbed_id": "rounds",
            "benchmark_results_dir": str(tmp_path),
            "benchmark_run_id": lab.run_dir.name,
            "benchmark_ceiling": False,
            "benchmark_layers": {"ceiling-target01": measured},
            "benchmark_repetitions": 2,
            "benchmark_workloads": [{"block_size": "4k", "queue_depth": 1, "ramp_s": 0, "runtime_s": 1}],
            "benchmark_beat": False,
            "benchmark_progress": "none",
            "benchmark_platform": "{{ 'esxi' if inventory_hostname == 'esxi01' else 'linux' }}",
        }
        login = {"hostname": lab.address, "port": int(lab.port), "username": "root", "password": PASSWORD}
        login.update(ca_path=ready["certificate"], esxi_host=HOSTS["esx"])
        play = {
            "hosts": "target01,esxi01",
            "gather_facts": False,
            "module_defaults": {"group/storlab.testbed.esxi": login},
            "tasks": [{"import_role": {"name": "storlab.testbed.benchmark"}, "throttle": 1, "vars": variables}],
        }
        (tmp_path / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
        # Samples of three hours ago, which the host no longer has.
        assert lab.task(run_dir=str(lab.run_dir), state="recorded")["changed"]
        kept = lab.run_dir / "samples" / "esxi01.json"
        old = json.loads(kept.read_text(encoding="utf-8"))
        for table in (old["host_samples"], *old["machines"].values()):
            table["rows"] = [[row[0] - 3 * 3600, *row[1:]] for row in table["rows"]]
        kept.write_text(json.dumps(old), encoding="utf-8")
        done = subprocess.run(
            ["ansible-playbook", "-i", "target01,esxi01,", str(tmp_path / "play.yml")],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            capture_output=True,
            text=True,
            check=False,
        )
        Disconnect(lab.instance)
    assert done.returncode == 0, done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    assert done.stdout.count("Store the ESXi host's counters of the last hour]") == 2
    before, after = (
        [row[0] for row in samples["host_samples"]["rows"]]
        for samples in (old, json.loads(kept.read_text(encoding="utf-8")))
    )
    assert set(before) < set(after) and max(after) > max(before) + 2 * 3600


def test_any_time_can_be_asked_for(lab):
    told = lab.task(started_utc=utc(lab.measured_s), finished_utc=utc(lab.measured_s + 100))
    assert told["changed"] is False and told["figures"]["cpu"]["used_mhz"] == pytest.approx(
        lab.own_mean("cpu.usagemhz.average", ""), rel=1e-3
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"run_dir": "/nonexistent/run"}, "run_missing"),
        ({"state": "recorded"}, "bad_value"),
        ({"started_utc": "noon"}, "bad_value"),
        ({"started_utc": "2026-11-21T10:00:10Z", "finished_utc": "2026-11-21T10:00:10Z"}, "bad_value"),
        ({"password": "other"}, "login_refused"),
        ({"esxi_host": "none"}, "bad_value"),
        ({"started_utc": "2026-01-01T00:00:00Z", "finished_utc": "2026-01-01T01:00:00Z"}, "not_observed"),
    ],
)
@pytest.mark.parametrize("simulated", ["esx"], indirect=True)
def test_what_cannot_be_done_is_a_failure_with_a_remedy(lab, arguments, code):
    with unchanged(lab.run_dir, esxsim_process.changes(lab.ready)):
        told = lab.task(**arguments)
    assert told["failed"] and told["failure"]["code"] == code and "Traceback" not in json.dumps(told)


@pytest.mark.parametrize("simulated", ["esx"], indirect=True)
def test_what_the_host_refuses_is_said_and_nothing_is_written(lab):
    fault = json.dumps({"method": "QueryPerf", "fault": "NoPermission", "times": 1}).encode()
    urllib.request.urlopen(
        urllib.request.Request(f"http://{lab.ready['control']}/fault", data=fault, method="POST")
    ).close()
    with unchanged(lab.run_dir, esxsim_process.changes(lab.ready)):
        told = lab.task(run_dir=str(lab.run_dir), state="recorded")
    assert told["failure"]["code"] == "no_permission" and "read its counters" in told["msg"]


def test_one_session_and_one_request_do(lab):
    def calls() -> dict:
        with urllib.request.urlopen(f"http://{lab.ready['control']}/calls") as answer:
            return json.loads(answer.read())

    calls()
    lab.task(started_utc=utc(lab.measured_s), finished_utc=utc(lab.measured_s + 100))
    counted = calls()
    assert (counted["Login"], counted["QueryPerf"], counted["Logout"]) == (1, 1, 1)
