# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the installation of an operating system takes in a virtual machine of an ESXi host, and the host's counters of that time.

The machine itself remembers its installation in its extraConfig, so that a run whose connection broke, or that was ended, can be joined again::

    storlab.testbed.installation: {run_id, armed_utc}                                   about to be turned on
                                  {run_id, started_utc}                                 going on
                                  {run_id, started_utc, finished_utc, ended_by[, uncertain_s][, ahead_s]}
                                  {run_id, started_utc, given_up_utc}                   turned off because it took too long

When the machine was turned on and off is known from events, so these times are by the clock of what we are logged in to: the host, or its vCenter. The rest is
reported and kept is of the host's own clock (ahead_s later), as its counters are. Where there is no event (VMware Tools began to run, an address was
reported), or it is lost, the time is that of the look that saw it, and uncertain_s how long before that the last look was.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from typing import Any

from ..core.failure import Failure
from ..core.steps import Step, shown
from ..core.times import unix_s, utc
from . import counters as esxi_counters
from . import session as esxi
from .installation_plan import RECORD_KEY, UNTIL, fresh, iso_of, plan, record_of, system_disk
from .machine import Machine
from .machine_state import find, read, usable_address
from .params import InstallationParams
from .session import Session
from .states import HostSystem, InstallationWant, MachineState, Samples, VirtualMachine

# In addition to the connection's.
SPEC: dict[str, Any] = {
    "testbed_id": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "run_id": {"type": "str", "required": True},
    "repetition": {"type": "int"},
    "until": {"type": "str", "choices": list(UNTIL), "default": "powered_off"},
    "installation_timeout_s": {"type": "int", "default": 7200},
    "power_off_at_timeout": {"type": "bool", "default": False},
    "settle_s": {"type": "int", "default": 20},
    "reconnect_s": {"type": "int", "default": 600},
    "join": {"type": "bool", "default": False},
    # For the action plugin, which writes the results.
    "results_dir": {"type": "path"},
    "guest": {"type": "str"},
    "layer": {"type": "str"},
    "image": {"type": "path"},
}
POLL_S = 1.0
# A host keeps samples for an hour; read in time, a longer installation has all of them.
READ_EVERY_S = 1800
# The last sample that is of the installation alone ends at most this long before it.
SAMPLE_S = 20
# A sample appears some seconds after it ended.
SAMPLE_PATIENCE_S = 60
# The errors of a connection that broke, or of a host that restarts its services.
LOST = ("connection_lost", "host_unreachable", "session_lost")
EVENTS = {"VmPoweredOnEvent": "on", "DrsVmPoweredOnEvent": "on", "VmPoweredOffEvent": "off"}
MOST_EVENTS = 100


# ---------------------------------------------------------------- judging what was seen, pure


def began(events: list[Any], boot_s: float | None, armed_s: float | None, now_s: float) -> float:
    """When the machine was turned on for its installation. events: [(on|off, moment)]; armed_s: just before that; None when it ran already.

    Of a machine that ran already the last start is taken: what was before it is not known to be the same installation.
    """
    moments = [at_s for kind, at_s in events if kind == "on"]
    if armed_s is None:
        moment = max(moments, default=boot_s)
        if moment is None:
            raise Failure(
                "start_unknown",
                "The host does not report when the machine was turned on.",
                "Recreate it and leave it off.",
            )
        return moment
    after = [at_s for at_s in moments if at_s >= armed_s]
    return min(after) if after else boot_s if boot_s is not None and boot_s >= armed_s else now_s


@dataclass
class Watch:
    """Tells from one look after the other whether the installation has ended.

    A look: {from_s, now_s, power: on|off|suspended, clean, tools: bool, address, question}. from_s and now_s are the host's time before and after it; clean
    says whether the last power-off was an orderly one, or is None.
    """

    want: InstallationWant
    started_s: float
    alive_s: float | None = None  # the last look at which it went on
    off_s: float | None = None  # since when looks say that it is off

    def look(self, seen: dict[str, Any], events: Any) -> dict[str, Any] | None:
        """{ended_by, finished_s[, uncertain_s]} when it has ended, None while it goes on; a failure says why it cannot end. events: asked when needed."""
        name, until, now_s = self.want["name"], self.want["until"], seen["now_s"]
        if seen["question"]:
            raise Failure(
                "vm_asks",
                f"The virtual machine {name} waits for an answer: {' '.join(seen['question'].split())}.",
                "Answer it in the host's client, and run again with the same run_id: the installation is joined.",
                name=name,
            )
        if seen["power"] == "off":
            return self._off(seen, events)
        self.off_s = None
        if (
            seen["power"] == "on"
            and {"powered_off": False, "tools_running": seen["tools"], "address": bool(seen["address"])}[until]
        ):
            return {"ended_by": until, "finished_s": now_s, "uncertain_s": self._since_alive(now_s)}
        if now_s - self.started_s > self.want["installation_timeout_s"]:
            tools = "running" if seen["tools"] else "not running"
            raise Failure(
                "installation_timeout",
                f"The installation of {name} has not ended in {self.want['installation_timeout_s']} s; it is {seen['power']}, its tools are {tools}.",
                "Look at its console. Allow more time in installation_timeout_s and run again with the same run_id to join it, or recreate it.",
                name=name,
                power=seen["power"],
                tools=tools,
            )
        # It may have ended while it was looked at, but not before.
        self.alive_s = seen["from_s"]
        return None

    def _off(self, seen: dict[str, Any], events: Any) -> dict[str, object] | None:
        name, now_s = self.want["name"], seen["now_s"]
        self.off_s = now_s if self.off_s is None else self.off_s
        # Installers restart the machine, and some turn it off and on for that.
        if now_s - self.off_s < self.want["settle_s"]:
            return None
        if self.want["until"] != "powered_off" or seen["clean"] is False:
            what = (
                "crashed"
                if seen["clean"] is False
                else f"was turned off before its installation had ended ({self.want['until']})"
            )
            raise Failure(
                "installation_broken",
                f"The virtual machine {name} {what}.",
                "Look at its console and its log, and recreate it.",
                name=name,
            )
        moments = [at_s for kind, at_s in events() if kind == "off" and self.started_s < at_s <= now_s]
        if moments:
            return {"ended_by": "powered_off", "finished_s": max(moments)}
        return {"ended_by": "powered_off", "finished_s": self.off_s, "uncertain_s": self._since_alive(self.off_s)}

    def _since_alive(self, now_s: float) -> float:
        if self.alive_s is None:
            raise Failure(
                "end_unseen",
                f"The installation of {self.want['name']} ended while nothing was watching, and the host no longer reports when.",
                "Recreate the machine, and run again.",
                name=self.want["name"],
            )
        return round(now_s - self.alive_s, 3)


# ---------------------------------------------------------------- the report, pure


def counted(samples: Samples, started_s: float, finished_s: float, datastore: str) -> dict[str, Any]:
    """The host's counters in the whole samples during the installation: processor use, and the commands per second of a datastore.

    {interval_s, samples, sample_s, cpu, datastore: {name, read_iops, …, commands_s: {mean, p95, max}}[, simulated]}. p95 is of the samples' means.
    """
    rows = [row for row in samples["host_samples"]["rows"] if row[0] - row[1] >= started_s and row[0] <= finished_s]
    if not rows:
        raise Failure(
            "interval_too_short",
            f"In the {finished_s - started_s:.1f} s of the installation there is no whole sample of {samples['sample_s']} s.",
            "Nothing is known of what the host counted then.",
        )
    figures = esxi_counters.figures(samples, rows[0][0] - rows[0][1], rows[-1][0])
    store = {"name": datastore, **figures.get("datastores", {}).get(datastore, {})}
    rates = _commands(samples, rows, datastore)
    if rates:
        store["commands_s"] = {
            "mean": sum(rates) / len(rates),
            "p95": sorted(rates)[math.ceil(0.95 * len(rates)) - 1],
            "max": max(rates),
        }
    return {
        "interval_s": figures["interval_s"],
        "samples": figures["samples"],
        "sample_s": samples["sample_s"],
        "cpu": figures["cpu"],
        "datastore": store,
        **({"simulated": True} if samples["simulated"] else {}),
    }


def _commands(samples: Samples, rows: list[Any], datastore: str) -> list[Any]:
    """Reads and writes a second of each sample; nothing when the host has no counters of this datastore, or has gaps in them."""
    instance = next((key for key, name in samples["names"]["datastores"].items() if name == datastore), None)
    columns: list[tuple[str | None, ...]] = [tuple(column) for column in samples["host_samples"]["columns"]]
    wanted = [(f"datastore.{counter}.average", instance) for counter in ("numberReadAveraged", "numberWriteAveraged")]
    if any(column not in columns for column in wanted):
        return []
    places = [2 + columns.index(column) for column in wanted]
    values = [[row[place] for place in places] for row in rows]
    return [] if any(value is None for pair in values for value in pair) else [sum(pair) for pair in values]


def line(timed: dict[str, Any]) -> str:
    """'vm01 on lab-ds1: installed in 512.3 s; 212 commands/s on average, 95 % below 391, at most 400 (25 samples)'."""
    repetition = f", repetition {timed['repetition']}" if "repetition" in timed else ""
    text = f"{timed['guest']} on {timed['datastore']}{repetition}: installed in {timed['duration_s']:.1f} s"
    if timed.get("uncertain_s"):
        text += f" (up to {timed['uncertain_s']:.1f} s less)"
    counters = timed.get("counters", {})
    rates = counters.get("datastore", {}).get("commands_s")
    if rates:
        text += (
            f"; {rates['mean']:.0f} commands/s on average, 95 % of samples at most {rates['p95']:.0f}, highest {rates['max']:.0f}"
            f" ({counters['samples']} samples of {counters['sample_s']} s{', simulated' if counters.get('simulated') else ''})"
        )
    elif "counters_missed" in timed:
        text += f"; no counters: {timed['counters_missed']}"
    return text


# ---------------------------------------------------------------- doing


@dataclass
class Installation:
    """One installation. ``time`` may be called again after a connection broke: all that matters is remembered by the machine itself."""

    params: InstallationParams
    want: InstallationWant
    check_mode: bool
    plans: list[Any] = field(default_factory=list)  # the first is what the user is told
    watch: Watch | None = None
    reached_at: float | None = None  # this machine's clock
    turned_on: bool = False  # by us, just now
    without_events: str | None = None  # why the host tells none
    samples: Samples | None = None
    missed: str | None = None
    samples_at: float = field(default_factory=time.monotonic)

    def run(self) -> dict[str, Any]:
        """The module's result. A host that is lost during it is looked for again."""
        while True:
            try:
                with esxi.Session(self.params) as session:
                    return self.time(session)
            except Failure as failure:
                # Before it was reached once nothing goes on that could be joined.
                if failure.code not in LOST or self.reached_at is None:
                    raise
                if time.monotonic() - self.reached_at > self.want["reconnect_s"]:
                    raise Failure(
                        "host_lost",
                        f"The host has not answered for {self.want['reconnect_s']} s while {self.want['name']} was being installed.",
                        "The installation goes on without us: run again with the same run_id to join it.",
                        name=self.want["name"],
                        last=failure.what,
                    ) from None
            time.sleep(POLL_S)

    def time(self, session: esxi.Session) -> dict[str, Any]:
        host = session.host()
        vm, here = find(session, host, self.want["name"])
        state: Any = read(session, host, vm) if vm is not None else None
        if state is None and self.check_mode:
            # A playbook in check mode would have made it before.
            return {**shown(fresh(self.want)), "about": session.about}
        steps = plan(state, self.want)
        if not here:
            raise Failure(
                "vm_elsewhere",
                f"The virtual machine {self.want['name']} is on another host.",
                "Move it, or name its host in esxi_host.",
                name=self.want["name"],
            )
        self.plans.append(steps)
        machine = Machine(session, host, vm, self.want)
        record = record_of(state)
        if steps and not self.check_mode:
            record = self.finish(session, machine, *self.begin(session, machine, steps, state, record))
        result = {**shown(self.plans[0]), "about": session.about}
        if "finished_utc" in record:
            result["installation"] = self.timing(state, record)
            result.update(self.count(session, host, state, record))
        return result

    def begin(
        self, session: Session, machine: Any, steps: list[Step], state: MachineState, record: dict[str, Any]
    ) -> tuple[Any, ...]:
        """(record, when it was turned on by the host's clock)."""
        # From here on something may go on that a lost connection does not end.
        self.reached_at = self.reached_at or time.monotonic()
        ops = [step["op"] for step in steps]
        armed_s, begun = None, False
        if "armed_utc" in record:
            armed_s = unix_s(record["armed_utc"])
            # It may have been turned on, and have ended, before the run that did so could note it.
            begun = any(kind == "on" and at_s >= armed_s for kind, at_s in self.events(session, machine.vm))
        if "power_on" in ops and not begun:
            if armed_s is None:
                armed_s = self.now(session)
                self.remember(machine, {"run_id": self.want["run_id"], "armed_utc": utc(armed_s)})
            machine.apply([step for step in steps if step["op"] == "power_on"], state, {})
            self.turned_on = True
            self.booting(session, machine.vm)
        if "started_utc" in record:
            return record, unix_s(record["started_utc"])
        seen = self.see(session, machine.vm)
        started_s = began(self.events(session, machine.vm), seen["boot_s"], armed_s, seen["now_s"])
        record = {"run_id": self.want["run_id"], "started_utc": utc(started_s)}
        self.remember(machine, record)
        return record, started_s

    def finish(self, session: Session, machine: Any, record: dict[str, Any], started_s: float) -> dict[str, Any]:
        vm = machine.vm
        if self.watch is None:
            # A machine that was turned on just now was seen to be alive then.
            self.watch = Watch(self.want, started_s, alive_s=started_s if self.turned_on else None)
        while True:
            seen = self.see(session, vm)
            self.reached_at = time.monotonic()
            try:
                ended = self.watch.look(seen, lambda: self.events(session, vm))
            except Failure as failure:
                if failure.code == "installation_timeout" and self.want["power_off_at_timeout"]:
                    machine.apply([{"op": "kill"}], {}, {})
                    self.remember(machine, {**record, "given_up_utc": utc(self.now(session))})
                raise
            if ended:
                finished_utc = utc(ended.pop("finished_s"))
                record = {**record, "finished_utc": finished_utc, **ended, **self.host_ahead(session, machine.host)}
                self.remember(machine, record)
                return record
            if time.monotonic() - self.samples_at > READ_EVERY_S:
                self.sample(session, machine.host, seen["now_s"] - started_s, 0, 0)
            time.sleep(POLL_S)

    def host_ahead(self, session: Session, host: HostSystem) -> dict[str, Any]:
        """{ahead_s}: how far the host's clock is ahead of that of the events, which is its vCenter's; nothing for a host on its own."""
        if session.about["kind"] == "HostAgent":
            return {}
        own, theirs = esxi_counters.clock(session, host), esxi_counters.session_clock(session)
        return {"ahead_s": round(own["offset_s"] - theirs["offset_s"], 4)}

    def timing(self, state: MachineState, record: dict[str, Any]) -> dict[str, Any]:
        disk = system_disk(state)
        timed: dict[str, Any] = {key: record[key] for key in ("ended_by", "uncertain_s") if key in record}
        timed.update(
            {key: utc(unix_s(record[key]) + record.get("ahead_s", 0.0)) for key in ("started_utc", "finished_utc")}
        )
        duration_s = unix_s(record["finished_utc"]) - unix_s(record["started_utc"])
        return {
            **timed,
            "duration_s": round(duration_s, 3),
            "datastore": disk["path"][1:].partition("]")[0],
            "iso": iso_of(state),
            "vm": {
                "name": self.want["name"],
                **{key: state[key] for key in ("guest_id", "vcpus", "memory_mib")},
                "disk": {key: disk[key] for key in ("controller", "size_bytes", "provisioning")},
            },
        }

    # -------------------------------------------------------- counters

    def count(
        self, session: Session, host: HostSystem, state: MachineState, record: dict[str, Any]
    ) -> dict[str, object]:
        """{clock, samples} or {clock, counters_missed}: an installation is no less timed when its host does not return its counters."""
        clock = esxi_counters.clock(session, host)
        ago_s, since_end_s = (self.now(session) - unix_s(record[key]) for key in ("started_utc", "finished_utc"))
        self.sample(session, host, ago_s, since_end_s + SAMPLE_S, SAMPLE_PATIENCE_S)
        return {"clock": clock, **({"samples": self.samples} if self.samples else {"counters_missed": self.missed})}

    def sample(self, session: esxi.Session, host: HostSystem, ago_s: float, until_ago_s: float, wait_s: int) -> None:
        now_s, self.samples_at = time.time(), time.monotonic()
        try:
            self.samples = esxi_counters.merge(
                self.samples, esxi_counters.read(session, host, now_s - ago_s, now_s - until_ago_s, wait_s)
            )
        except Failure as failure:
            if failure.code in LOST:
                raise
            self.missed = str(failure)

    # -------------------------------------------------------- the host

    def now(self, session: Session) -> float:
        with session.doing("read its clock"):
            return float(session.instance.CurrentTime().timestamp())

    def see(self, session: Session, vm: VirtualMachine) -> dict[str, Any]:
        """One look at the machine, with the host's time before and after it."""
        from_s = self.now(session)
        values = self.properties(
            session,
            vm,
            "runtime.powerState",
            "runtime.cleanPowerOff",
            "runtime.question",
            "guest.toolsRunningStatus",
            "guest.ipAddress",
            "summary.runtime.bootTime",
        )
        question, boot = values.get("runtime.question"), values.get("summary.runtime.bootTime")
        return {
            "from_s": from_s,
            "now_s": self.now(session),
            "power": {"poweredOn": "on", "poweredOff": "off"}.get(str(values["runtime.powerState"]), "suspended"),
            "clean": values.get("runtime.cleanPowerOff"),
            "tools": str(values.get("guest.toolsRunningStatus")) == "guestToolsRunning",
            "address": usable_address(values.get("guest.ipAddress")),
            "question": question.text if question else None,
            "boot_s": boot.timestamp() if boot else None,
        }

    def properties(self, session: Session, vm: VirtualMachine, *names: str) -> dict[str, Any]:
        with session.doing(f"look at the virtual machine {self.want['name']}"):
            values: dict[str, Any] = session.properties(vm, *names)
            return values

    def events(self, session: Session, vm: VirtualMachine) -> list[Any]:
        """[(on|off, moment)] of the machine. Hosts on their own know no QueryEvents, but collectors.

        A host that returns none is not a reason to lose an installation that took an hour: its looks are exact to a second or two, and it is reported.
        """
        spec = session.vim.event.EventFilterSpec
        try:
            with session.doing(f"read the events of the virtual machine {self.want['name']}"):
                collector = session.content.eventManager.CreateCollectorForEvents(
                    spec(
                        entity=spec.ByEntity(entity=vm, recursion="self"),
                        eventTypeId=list(EVENTS),
                        maxCount=MOST_EVENTS,
                    )
                )
                try:
                    # A page has 10 events otherwise, whatever the filter says.
                    collector.SetCollectorPageSize(MOST_EVENTS)
                    page = collector.latestPage or []
                finally:
                    collector.DestroyCollector()
        except Failure as failure:
            if failure.code in LOST:
                raise
            self.without_events = f"{failure.what} So the times of {self.want['name']} are from polling it."
            return []
        return [
            (EVENTS[kind], event.createdTime.timestamp())
            for event in page
            if (kind := type(event).__name__.rsplit(".", 1)[-1]) in EVENTS
        ]

    def remember(self, machine: Machine, record: dict[str, Any]) -> None:
        spec = machine.vim.vm.ConfigSpec(extraConfig=machine.options({RECORD_KEY: json.dumps(record, sort_keys=True)}))
        machine.task(
            f"note the installation in the virtual machine {self.want['name']}",
            lambda: machine.vm.ReconfigVM_Task(spec),
        )

    def booting(self, session: Session, vm: VirtualMachine) -> None:
        """Without its image the machine would wait for a disk to boot from until the time is over."""
        values = self.properties(session, vm, "config.hardware.device", "runtime.powerState")
        if str(values["runtime.powerState"]) != "poweredOn":
            return  # It has booted and gone off again; the drives of a machine that is off are connected to nothing.
        drives = [
            device
            for device in values["config.hardware.device"]
            if isinstance(device, session.vim.vm.device.VirtualCdrom)
        ]
        if not any(drive.connectable and drive.connectable.connected for drive in drives):
            raise Failure(
                "iso_not_connected",
                f"The virtual machine {self.want['name']} was turned on, but the host did not connect the image in its drive.",
                "Look whether the image is still on its datastore, and recreate the machine.",
                name=self.want["name"],
            )
