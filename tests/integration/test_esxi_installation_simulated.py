# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""esxi_installation and the playbook os_installation against the simulated ESXi and vCenter.

No guest runs there: a machine's settings say how its installation goes, and the simulator turns it off and on, or lets its tools run. Times are compared with
the events that the test reads itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.storlab.testbed.plugins.module_utils.core.times import unix_s, utc
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import installation as util
from ansible_collections.storlab.testbed.plugins.modules import esxi_installation, esxi_vm
from pyVim.connect import Disconnect, SmartConnect
from pyVmomi import vim

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / room) for room in ("support", "standins")]
import esxsim_process
from unchanged import unchanged

PASSWORD = "sl-esxsim-pw-2209"
HOSTS = {"esx": "localhost.localdomain", "vpx": "DC0_H1"}
# How far the clock of a vCenter's host is ahead of that of the events; told to some milliseconds, over the network.
AHEAD_S = {"esx": 0.0, "vpx": 40.0}
ABOUT_S = {"esx": 0.002, "vpx": 0.5}
KEY = "storlab.testbed.installation"
PATIENCE_S = 120


class Lab:
    """A simulated host with an ISO image on its datastore, and ways to it that are not the module's."""

    def __init__(self, kind: str, home: Path, ready: dict):
        self.kind, self.home, self.ready = kind, home, ready
        self.address, _colon, port = ready["address"].partition(":")
        self.port = int(port)
        self.connect()
        self.store = self.host().datastore[0].name
        (Path(self.host().datastore[0].summary.url) / "setup.iso").write_bytes(b"an image that nobody reads")

    def connect(self) -> None:
        self.instance = SmartConnect(
            host=self.address,
            port=self.port,
            user="root",
            pwd=PASSWORD,
            sslContext=ssl.create_default_context(cafile=self.ready["certificate"]),
        )
        self.content = self.instance.RetrieveContent()

    def objects(self, kind) -> list:
        return list(self.content.viewManager.CreateContainerView(self.content.rootFolder, [kind], True).view)

    def host(self):
        return next(host for host in self.objects(vim.HostSystem) if host.name == HOSTS[self.kind])

    def vm(self, name: str):
        return next((vm for vm in self.host().vm if vm.name == name), None)

    def record(self, name: str) -> dict:
        return json.loads({option.key: option.value for option in self.vm(name).config.extraConfig}.get(KEY) or "{}")

    def events(self, name: str, kind: str) -> list:
        """When the machine was turned on or off, oldest first."""
        spec = vim.event.EventFilterSpec(
            entity=vim.event.EventFilterSpec.ByEntity(entity=self.vm(name), recursion="self")
        )
        collector = self.content.eventManager.CreateCollectorForEvents(spec)
        collector.SetCollectorPageSize(1000)
        return sorted(
            event.createdTime.timestamp() for event in collector.latestPage if type(event).__name__.endswith(kind)
        )

    def length_s(self, name: str) -> float:
        """Of a machine that was turned on once, and ended."""
        (began,), (ended,) = (self.events(name, kind) for kind in ("VmPoweredOnEvent", "VmPoweredOffEvent"))
        return ended - began

    def order(self, what: str, **order) -> None:
        request = urllib.request.Request(
            f"http://{self.ready['control']}/{what}", data=json.dumps(order).encode(), method="POST"
        )
        urllib.request.urlopen(request).close()  # noqa: S310, of this machine

    def given(self, **arguments) -> dict:
        return {
            "hostname": self.address,
            "port": self.port,
            "username": "root",
            "password": PASSWORD,
            "ca_path": self.ready["certificate"],
            "esxi_host": HOSTS[self.kind],
            "testbed_id": "tb-os",
            **arguments,
        }

    def call(self, module, check: bool = False, **arguments) -> dict:
        output = io.StringIO()
        given = {**self.given(**arguments), "_ansible_check_mode": check, "_ansible_remote_tmp": str(self.home)}
        with patch_module_args(given), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
            module.main()
        assert PASSWORD not in output.getvalue().partition('"invocation"')[0]
        return json.loads(output.getvalue())

    def make(self, name: str, course: dict | None = None, **arguments) -> None:
        settings = {
            "guestinfo.storlab.ip": "10.77.3.4",
            **({"guestinfo.storlab.installation": json.dumps(course)} if course else {}),
        }
        made = self.call(
            esxi_vm,
            **{
                "name": name,
                "datastore": self.store,
                "guest_id": "winXPProGuest",
                "vcpus": 3,
                "memory_mib": 772,
                "iso": {"path": "setup.iso"},
                "disks": [{"name": "system", "size_mib": 37, "controller": "ide", "provisioning": "thin"}],
                "extra_config": settings,
                **arguments,
            },
        )
        assert not made.get("failed"), made.get("msg")

    def set(self, name: str, settings: dict) -> None:
        options = [vim.option.OptionValue(key=key, value=value) for key, value in settings.items()]
        done(self.vm(name).ReconfigVM_Task(vim.vm.ConfigSpec(extraConfig=options)))

    def time(self, name: str, check: bool = False, **arguments) -> dict:
        return self.call(esxi_installation, check, **{"name": name, "run_id": "run-1", "settle_s": 0, **arguments})

    def timed(self, name: str, **arguments) -> dict:
        answer = self.time(name, **arguments)
        assert not answer.get("failed"), answer.get("msg")
        return answer

    def refused(self, name: str, **arguments) -> str:
        """The failure's code; no call has changed anything, and the machine remembers what it did."""
        with unchanged(esxsim_process.changes(self.ready), lambda: self.vm(name) and self.record(name)):
            return self.broken(name, **arguments)

    def broken(self, name: str, **arguments) -> str:
        """The failure's code of what had begun."""
        answer = self.time(name, **arguments)
        assert answer.get("failed"), answer
        return answer["failure"]["code"]


def done(task) -> None:
    wait(lambda: task.info.state in ("success", "error"))
    assert task.info.state == "success", task.info.error


def wait(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ops(answer: dict) -> list:
    return [step["op"] for step in answer["steps"]]


@pytest.fixture(scope="module", params=["esx", "vpx"])
def lab(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param) / "home"
    with esxsim_process.running(home, PASSWORD, request.param) as ready:
        made = Lab(request.param, home, ready)
        yield made
        Disconnect(made.instance)


standalone = pytest.mark.parametrize("lab", ["esx"], indirect=True)


@pytest.fixture
def name(lab, request, monkeypatch):
    """A machine's name, gone after the test."""
    monkeypatch.setattr(util, "POLL_S", 0.1)
    made = f"vm-{request.node.originalname.removeprefix('test_')[:40]}"
    yield made
    lab.order("clear")
    lab.order("answer")
    left = lab.vm(made)
    if left is not None:
        if left.runtime.powerState == "poweredOn":
            done(left.PowerOffVM_Task())
        done(left.Destroy_Task())


def test_installation_with_a_restart_is_timed_by_the_events_of_the_host(lab, name):
    lab.make(name, {"seconds": 0.6, "reboots": 1, "ends": "powered_off"})
    foreseen = lab.timed(name, check=True)
    assert (lab.record(name), lab.vm(name).runtime.powerState, "installation" in foreseen) == ({}, "poweredOff", False)
    # Much longer than the simulator has a machine off that restarts, on a busy machine, too.
    told = lab.timed(name, settle_s=8)
    assert told["steps"] == foreseen["steps"] and ops(told) == ["remember", "power_on", "wait"]
    ons, offs = lab.events(name, "VmPoweredOnEvent"), lab.events(name, "VmPoweredOffEvent")
    assert (len(ons), len(offs)) == (2, 2)
    found = told["installation"]
    ahead_s, about_s = AHEAD_S[lab.kind], ABOUT_S[lab.kind]
    assert unix_s(found["started_utc"]) == pytest.approx(ons[0] + ahead_s, abs=about_s)
    assert unix_s(found["finished_utc"]) == pytest.approx(offs[1] + ahead_s, abs=about_s)
    assert found["duration_s"] == pytest.approx(offs[1] - ons[0], abs=0.003) and found["duration_s"] > 1.0
    assert (found["ended_by"], found["datastore"], found["iso"]) == (
        "powered_off",
        lab.store,
        f"[{lab.store}] setup.iso",
    )
    assert found["vm"] == {
        "name": name,
        "guest_id": "winXPProGuest",
        "vcpus": 3,
        "memory_mib": 772,
        "disk": {"controller": "ide", "size_bytes": 37 << 20, "provisioning": "thin"},
    }
    assert "uncertain_s" not in found and "simulated" in told["about"]["product"]
    again = lab.timed(name)
    assert (again["changed"], again["installation"]) == (False, found)
    assert lab.refused(name, run_id="run-2") == "already_installed"
    assert len(lab.events(name, "VmPoweredOnEvent")) == 2


@standalone
def test_installation_with_more_events_than_a_page_shows_is_timed_from_the_first(lab, name):
    """A collector shows the last 10 events unless it is told to show more."""
    lab.make(name, {"seconds": 0.7, "reboots": 6, "ends": "powered_off"})
    # Much longer than the simulator has a machine off that restarts, on a busy machine, too.
    found = lab.timed(name, settle_s=8)["installation"]
    ons, offs = lab.events(name, "VmPoweredOnEvent"), lab.events(name, "VmPoweredOffEvent")
    assert (len(ons), len(offs)) == (7, 7)
    assert unix_s(found["started_utc"]) == pytest.approx(ons[0], abs=0.002)
    assert found["duration_s"] == pytest.approx(offs[-1] - ons[0], abs=0.003)
    assert "uncertain_s" not in found


@standalone
@pytest.mark.parametrize(("until", "ends"), [("tools_running", "tools"), ("address", "address")])
def test_what_no_event_tells_is_known_to_a_look(lab, name, until, ends):
    lab.make(name, {"seconds": 0.4, "ends": ends})
    begun = time.monotonic()
    found = lab.timed(name, until=until)["installation"]
    took_s = time.monotonic() - begun
    assert found["ended_by"] == until
    assert 0.4 <= found["duration_s"] < took_s and 0 < found["uncertain_s"] <= found["duration_s"]
    assert lab.vm(name).runtime.powerState == "poweredOn"


@standalone
def test_host_that_tells_no_events_is_looked_at_and_the_user_is_told(lab, name, monkeypatch):
    warnings: list = []
    # Where parts of the controller are loaded, too, Ansible shows them and leaves them out of the answer.
    monkeypatch.setattr(esxi_installation.AnsibleModule, "warn", lambda _module, text: warnings.append(text))
    lab.make(name, {"seconds": 0.4, "ends": "powered_off"})
    lab.order("fault", method="CreateCollectorForEvents", fault="NoPermission")
    told = lab.timed(name)
    lab.order("clear")
    found = told["installation"]
    assert len(warnings) == 1 and "read the events" in warnings[0] and found["uncertain_s"] > 0
    # The start is what the host tells of its boot, rounded as it rounds.
    assert found["duration_s"] - found["uncertain_s"] - 0.05 <= lab.length_s(name) <= found["duration_s"] + 0.05


@standalone
def test_a_machine_that_is_turned_off_before_its_tools_ran_is_no_installation(lab, name):
    lab.make(name, {"seconds": 0.3, "ends": "powered_off"})
    answer = lab.time(name, until="tools_running")
    assert answer["failure"]["code"] == "installation_broken" and "tools_running" in answer["msg"]
    assert "finished_utc" not in lab.record(name)


@standalone
def test_time_that_is_over_leaves_the_machine_as_it_is_and_can_be_extended(lab, name):
    lab.make(name, {"seconds": 1.5, "ends": "powered_off"})
    answer = lab.time(name, installation_timeout_s=1)
    assert (answer["failure"]["code"], answer["failure"]["details"]["power"]) == ("installation_timeout", "on")
    assert lab.vm(name).runtime.powerState == "poweredOn"
    assert lab.refused(name, run_id="run-2") == "installation_running"
    told = lab.timed(name, installation_timeout_s=60)
    assert ops(told) == ["wait"] and told["installation"]["duration_s"] == pytest.approx(lab.length_s(name), abs=0.003)


@standalone
def test_machine_that_took_too_long_is_turned_off_when_that_is_wanted(lab, name):
    lab.make(name, {"seconds": 60, "ends": "powered_off"})
    assert lab.broken(name, installation_timeout_s=1, power_off_at_timeout=True) == "installation_timeout"
    assert lab.vm(name).runtime.powerState == "poweredOff"
    # Its being off is no end of an installation.
    assert lab.refused(name) == "installation_given_up"


@standalone
def test_question_of_the_host_is_told_and_the_answered_machine_is_joined(lab, name):
    lab.make(name, {"seconds": 0.6, "asks": "The disk is full.\n Retry or cancel?", "ends": "powered_off"})
    answer = lab.time(name)
    assert answer["failure"]["code"] == "vm_asks" and "The disk is full. Retry or cancel?" in answer["msg"]
    lab.order("answer")
    assert lab.timed(name)["installation"]["duration_s"] == pytest.approx(lab.length_s(name), abs=0.003)


@pytest.fixture
def cutter(lab, name):
    """Cuts the connection for some seconds as soon as the machine runs and remembers its start."""

    def begin(seconds: float) -> None:
        def act():
            wait(lambda: "started_utc" in lab.record(name))
            lab.order("cut", seconds=seconds)

        thread = threading.Thread(target=act)
        threads.append(thread)
        thread.start()

    threads: list = []
    yield begin
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@standalone
def test_lost_host_is_found_again_and_the_end_that_nobody_saw_is_in_its_events(lab, name, cutter):
    lab.make(name, {"seconds": 0.7, "ends": "powered_off"})
    cutter(1.2)
    found = lab.timed(name, reconnect_s=30)["installation"]
    lab.connect()
    assert found["duration_s"] == pytest.approx(lab.length_s(name), abs=0.003) and "uncertain_s" not in found


@standalone
def test_host_that_stays_away_fails_and_the_next_run_joins(lab, name, cutter):
    lab.make(name, {"seconds": 0.7, "ends": "powered_off"})
    cutter(30)
    answer = lab.time(name, reconnect_s=0)
    assert answer["failure"]["code"] == "host_lost" and "run_id" in answer["msg"]
    lab.order("clear")
    lab.connect()
    told = lab.timed(name)
    # On a busy machine the installation may have ended before this run came: then there is nothing to wait for.
    assert ops(told) in ([], ["wait"])
    assert told["installation"]["duration_s"] == pytest.approx(lab.length_s(name), abs=0.003)


@standalone
def test_host_that_was_never_reached_is_not_waited_for(lab, name):
    lab.order("cut", seconds=30)
    with unchanged(esxsim_process.changes(lab.ready)):
        assert lab.broken(name, reconnect_s=30) == "host_unreachable"
    lab.order("clear")
    lab.connect()


@standalone
def test_what_cannot_be_installed_is_refused_and_left_as_it_is(lab, name):
    assert lab.refused(name) == "vm_missing"
    # A playbook in check mode would have made it before.
    assert ops(lab.timed(name, check=True)) == ["remember", "power_on", "wait"]
    lab.make(name, testbed_id="another")
    assert lab.refused(name) == "vm_foreign"
    assert lab.vm(name).runtime.powerState == "poweredOff"
    done(lab.vm(name).Destroy_Task())
    lab.make(name, iso=None)
    assert lab.refused(name) == "iso_missing"
    done(lab.vm(name).Destroy_Task())
    lab.make(name, disks=[])
    assert lab.refused(name) == "disk_missing"
    assert (
        lab.refused(name, settle_s=-1)
        == lab.refused(name, installation_timeout_s=0)
        == lab.refused(name, testbed_id="A B")
        == "bad_value"
    )
    assert lab.record(name) == {}


@standalone
def test_image_that_is_gone_is_noticed_when_the_machine_is_turned_on(lab, name):
    image = Path(lab.host().datastore[0].summary.url) / "gone.iso"
    image.write_bytes(b"soon gone")
    lab.make(name, iso={"path": "gone.iso"})
    image.unlink()
    assert lab.broken(name) == "iso_not_connected"


@standalone
def test_machine_that_runs_already_is_joined_only_when_asked_for(lab, name):
    lab.make(name, {"seconds": 1, "ends": "powered_off"})
    done(lab.vm(name).PowerOnVM_Task())
    assert lab.refused(name) == "vm_running"
    assert lab.record(name) == {}
    told = lab.timed(name, join=True)
    assert ops(told) == ["remember", "wait"]
    assert unix_s(told["installation"]["started_utc"]) == pytest.approx(
        lab.events(name, "VmPoweredOnEvent")[0], abs=0.002
    )


@standalone
@pytest.mark.parametrize("ended", [True, False])
def test_run_that_was_cut_off_between_noting_and_turning_on_is_taken_up(lab, name, ended):
    lab.make(name, {"seconds": 0.3, "ends": "powered_off"})
    lab.set(name, {KEY: json.dumps({"run_id": "run-1", "armed_utc": utc(time.time())})})
    if ended:
        done(lab.vm(name).PowerOnVM_Task())
        wait(lambda: lab.vm(name).runtime.powerState == "poweredOff")
    assert lab.timed(name)["installation"]["duration_s"] == pytest.approx(lab.length_s(name), abs=0.003)


# ---------------------------------------------------------------- the playbook


class Site:
    """An inventory whose guests are to be installed, one on each of two datastores."""

    DISK = {"name": "system", "size_mib": 41, "controller": "lsilogic"}  # noqa: RUF012

    def __init__(self, lab: Lab, folder: Path, repetitions: int = 0):
        self.lab, self.folder = lab, folder
        testbed_id, other = ("tb-turns", "third") if repetitions else ("tb-os", "second")
        (folder / "other").mkdir()
        (folder / "other" / "setup.iso").write_bytes(b"the same image")
        self.second = lab.host().configManager.datastoreSystem.CreateLocalDatastore(other, str(folder / "other"))
        courses = {"ram": {"seconds": 1, "past": 130}, "raid": {"seconds": 1, "ends": "tools"}}
        image, more = {"path": "setup.iso"}, {}
        if repetitions:
            courses = {"ram": {"seconds": 0.3}, "raid": {"seconds": 0.6, "ends": "tools"}}
            (folder / "own.iso").write_bytes(b"an image of the user's")
            image, more = {"src": str(folder / "own.iso"), "path": "tb-os/own.iso"}, {"repetitions": repetitions}
        guests = [
            {
                "name": name,
                "host": name,
                "vcpus": 1,
                "memory_mib": 260,
                "esxi": {
                    "datastore": store,
                    "guest_id": "winXPProGuest",
                    "disks": [self.DISK],
                    "iso": image,
                    "installation": {"until": until, "settle_s": 0, **more},
                    "extra_config": {
                        "guestinfo.storlab.ip": "10.77.3.4",
                        "guestinfo.storlab.installation": json.dumps(courses[name]),
                    },
                },
            }
            for name, store, until in (("ram", lab.store, "powered_off"), ("raid", other, "tools_running"))
        ]
        esxi = {key: lab.given()[key] for key in ("hostname", "port", "username", "password", "ca_path", "esxi_host")}
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "testbed_esxi": esxi,
            "testbed_id": testbed_id,
            "testbed_state_dir": str(folder / "state"),
            "testbed_results_dir": str(folder / "results"),
            "guest_vm_guests": [{"name": "plain", "host": "plain"}, *guests],
        }
        (folder / "hosts.json").write_text(
            json.dumps({"all": {"children": {"guest_hosts": {"hosts": {"esxi01": variables}}}}})
        )
        self.results = folder / "results" / testbed_id / "run-7" / "installations"

    def play(self) -> tuple:
        """(statistics of the host, {task: its results there})."""
        playbook, inventory = ROOT / "playbooks" / "os_installation.yml", self.folder / "hosts.json"
        done = subprocess.run(
            ["ansible-playbook", "-i", str(inventory), str(playbook), "-e", "testbed_run_id=run-7"],
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert PASSWORD not in done.stdout + done.stderr
        answer = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("{"))[0]
        tasks: dict = {}
        for task in [task for play in answer["plays"] for task in play["tasks"] if "esxi01" in task["hosts"]]:
            tasks.setdefault(task["task"]["name"], []).append(task["hosts"]["esxi01"])
        return answer["stats"]["esxi01"], tasks

    def rates(self, store, started_s: float, finished_s: float) -> list:
        """Reads and writes a second of a datastore in the samples that lie in a time, asked for by the test itself."""
        manager, total = self.lab.content.perfManager, {}
        instance = store.summary.url.rstrip("/").rsplit("/", 1)[-1]
        for info in manager.perfCounter:
            if (info.groupInfo.key, info.nameInfo.key) in (
                ("datastore", "numberReadAveraged"),
                ("datastore", "numberWriteAveraged"),
            ):
                told = manager.QueryPerf(
                    [
                        vim.PerformanceManager.QuerySpec(
                            entity=self.lab.host(),
                            intervalId=20,
                            format="normal",
                            metricId=[vim.PerformanceManager.MetricId(counterId=info.key, instance=instance)],
                        )
                    ]
                )[0]
                for sample, value in zip(told.sampleInfo, told.value[0].value):
                    total[sample.timestamp.timestamp()] = total.get(sample.timestamp.timestamp(), 0) + value
        return [value for end_s, value in sorted(total.items()) if end_s - 20 >= started_s and end_s <= finished_s]


@standalone
@pytest.mark.long
def test_playbook_installs_two_guests_and_compares_their_datastores(lab, tmp_path):
    site, first, second = Site(lab, tmp_path), "storlab-tb-os-ram", "storlab-tb-os-raid"
    # One was begun for this run by another controller 130 s ago, the other is yet to be made.
    lab.make(first, {"seconds": 1, "past": 130}, vcpus=1, memory_mib=260, disks=[site.DISK])
    began_s = time.time() - 130
    lab.set(first, {KEY: json.dumps({"run_id": "run-7", "started_utc": utc(began_s)})})
    done(lab.vm(first).PowerOnVM_Task())
    stats, tasks = site.play()
    assert stats["failures"] == 0
    ram, raid = (json.loads((site.results / f"{guest}.json").read_text()) for guest in ("ram", "raid"))
    assert (ram["schema"], ram["run_id"], ram["guest"], ram["host"], ram["layer"], ram["simulated"]) == (
        "storlab.installation/1",
        "run-7",
        "ram",
        "esxi01",
        f"datastore-{lab.store}",
        True,
    )
    finished_s = lab.events(first, "VmPoweredOffEvent")[0]
    assert ram["duration_s"] == pytest.approx(finished_s - began_s, abs=0.01)
    rates = site.rates(lab.host().datastore[0], began_s, finished_s)
    commands, counters = ram["counters"]["datastore"]["commands_s"], ram["counters"]
    assert counters["samples"] == len(rates) >= 5 and counters["interval_s"] == 20 * len(rates)
    assert commands["mean"] == pytest.approx(sum(rates) / len(rates)) and commands["max"] == max(rates)
    assert commands["p95"] == sorted(rates)[math.ceil(0.95 * len(rates)) - 1]
    raw = (site.results / counters["raw"]["file"]).read_bytes()
    assert hashlib.sha256(raw).hexdigest() == counters["raw"]["sha256"]
    # It was so busy because of the installation: the simulator adds 700 reads and 700 writes a second.
    assert min(rates) > 5200 >= max(site.rates(site.second, began_s, finished_s))

    assert (raid["datastore"], raid["ended_by"], raid["iso"]) == ("second", "tools_running", "[second] setup.iso")
    assert "counters" not in raid and "20 s" in raid["counters_missed"]
    lines = [result["msg"] for result in tasks["Duration"]]
    assert (
        len(lines) == 2
        and lines[0].startswith(f"ram on {lab.store}: ")
        and f"highest {max(rates)}" in lines[0]
        and "simulated" in lines[0]
    )
    assert lines[1].startswith("raid on second: ")

    before = {path: path.read_bytes() for path in site.results.rglob("*.json")}
    stats, tasks = site.play()
    assert (stats["changed"], stats["failures"]) == (0, 0) and [result["msg"] for result in tasks["Duration"]] == lines
    assert {path: path.read_bytes() for path in site.results.rglob("*.json")} == before
    assert len(lab.events(second, "VmPoweredOnEvent")) == 1


@standalone
@pytest.mark.long
def test_playbook_installs_in_turns_and_recreates_the_machine_for_each_repetition(lab, tmp_path):
    site = Site(lab, tmp_path, repetitions=2)
    stats, tasks = site.play()
    assert stats["failures"] == 0
    timed = [json.loads(path.read_text()) for path in site.results.glob("*.json")]
    assert {path.name for path in site.results.glob("*.json")} == {
        f"{name}.r{n}.json" for name in ("ram", "raid") for n in (1, 2)
    }
    timed.sort(key=lambda each: each["started_utc"])
    order = [(each["guest"], each["repetition"]) for each in timed]
    # Each guest once before any is installed again, and another one begins.
    assert order == [("ram", 1), ("raid", 1), ("raid", 2), ("ram", 2)]
    assert all(unix_s(one["finished_utc"]) <= unix_s(other["started_utc"]) for one, other in zip(timed, timed[1:]))
    image = hashlib.sha256((tmp_path / "own.iso").read_bytes()).hexdigest()
    assert {each["medium"] for each in timed} == {image} and all(each["simulated"] for each in timed)
    # The machine that is left is that of the last repetition, was turned on once, and both images are still there.
    for name in ("ram", "raid"):
        machine = f"storlab-tb-turns-{name}"
        assert lab.record(machine)["run_id"] == "run-7.r2" and len(lab.events(machine, "VmPoweredOnEvent")) == 1
    assert lab.vm("storlab-tb-turns-raid").datastore[0].summary.name == "third"
    assert (tmp_path / "other" / "tb-os" / "own.iso").read_bytes() == (tmp_path / "own.iso").read_bytes()
    assert [result["msg"].partition(": ")[0] for result in tasks["Duration"]] == [
        f"{guest} on {lab.store if guest == 'ram' else 'third'}, repetition {n}" for guest, n in order
    ]

    before = {path: path.read_bytes() for path in site.results.rglob("*.json")}
    stats, _tasks = site.play()
    assert (stats["changed"], stats["failures"]) == (0, 0)
    assert {path: path.read_bytes() for path in site.results.rglob("*.json")} == before
