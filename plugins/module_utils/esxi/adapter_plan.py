# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for the software iSCSI adapter of an ESXi host: pure functions of its state, of the targets wanted, and of the record.

A state is that of ``adapter.read``; steps are carried out by ``adapter.Adapter``.
"""

from __future__ import annotations

from typing import Any, cast

from ..core.failure import Failure, bad_value
from ..core.iscsi_names import iqn_key, portal_text, same_iqn
from ..core.secrets import same_secret
from ..core.steps import Step
from . import options as host_options
from . import scsi
from .session import stamp
from .states import AdapterLun, AdapterState, AdapterTarget, AdapterWant, Chap

QUEUE_DEPTH_MODULE, QUEUE_DEPTH_OPTION = "iscsi_vmk", "iscsivmk_LunQDepth"
ORDER = (
    "enable",
    "name",
    "alias",
    "options",
    "host_option",
    "queue_depth",
    "bind",
    "remove_target",
    "end_sessions",
    "unbind",
    "add_target",
    "chap",
    "discover",
    "chap_found",
    "rescan",
)
# Steps that only look.
LOOKING = ("discover", "end_sessions", "rescan")
SECRETS = ("chap_password", "mutual_chap_password")
CHAP = ("chap_user", "chap_password", "mutual_chap_user", "mutual_chap_password")
ADAPTER = "adapter"


def entries(targets: list[Any]) -> list[Any]:
    """The configuration for these targets: a static target for each, and a send target for every portal that is asked for targets.

    Each has the CHAP settings of its own; one portal has one, so targets behind it that want CHAP in discovery must agree.
    """
    by_key: dict[str, Any] = {}
    for target in targets:
        portal = {"address": target["portal"]["address"], "port": target["portal"]["port"]}
        chap = {key: target.get(key) or "" for key in CHAP}
        dynamic = target.get("discovery", "dynamic") == "dynamic"
        if dynamic:
            send = {
                "method": "send",
                **portal,
                "iqn": None,
                "found": False,
                **(chap if target.get("discovery_chap") else dict.fromkeys(CHAP, "")),
            }
            if by_key.setdefault(entry_key(send), send) != send:
                raise bad_value(
                    f"iscsi_initiator_targets {target['iqn']} discovery_chap",
                    target.get("discovery_chap"),
                    f"Another target at {portal_text(**portal)} wants other CHAP settings in discovery; use discovery: static for one of them.",
                )
        entry = {"method": "static", **portal, "iqn": target["iqn"], "found": dynamic, **chap}
        by_key[entry_key(entry)] = entry
    return list(by_key.values())


def entry_key(entry: dict[str, Any] | AdapterTarget) -> str:
    """A configured target by its method, portal and name; the name in lower case, because a portal may report it in another case than it was given."""
    return f"{entry['method']} {portal_text(entry['address'], entry['port'])}" + (
        f" {iqn_key(entry['iqn'])}" if entry["iqn"] else ""
    )


def reported_by(target: AdapterTarget, senders: Any) -> bool:
    """Whether one of these send targets, given by their keys, has reported a discovered target. Hosts write no brackets around an address of IPv6, or do."""
    if not target["discovered"] or not target.get("parent"):
        return False
    names = {_plain_parent(f"send {target['parent']}{port}") for port in ("", ":3260")}
    return bool(names & {_plain_parent(key) for key in senders})


def _plain_parent(key: str) -> str:
    return key.replace("[", "").replace("]", "")


def is_ours(target: AdapterTarget, memory: dict[str, Any]) -> bool:
    """Whether a configured target is this testbed's: configured by it, or reported by one of its send targets.

    One that others' send target reports is theirs, whatever its name is. memory: the testbed's record of this host.
    """
    recorded = memory.get("targets", [])
    if target["discovered"] and target.get("parent"):
        senders = [key for key in recorded if key.startswith("send ")]
        # The adapter's own name as the parent says nothing of who reported it.
        if reported_by(target, senders) or ":" in (target["parent"] or ""):
            return reported_by(target, senders)
    return entry_key(target) in recorded


def others_of(state: AdapterState, memory: dict[str, object]) -> list[AdapterTarget]:
    """The targets on the adapter that this testbed has not put there."""
    return [target for target in state["targets"] if not is_ours(target, memory)]


def came_later(state: AdapterState, memory: dict[str, Any]) -> list[AdapterTarget]:
    """The targets of others that were not there before the testbed: they know the adapter only as the testbed has set it."""
    before = memory["before"]["targets"]
    senders = [key for key in before if key.startswith("send ")]
    return [
        target
        for target in others_of(state, memory)
        if entry_key(target) not in before and not reported_by(target, senders)
    ]


def held_by(state: AdapterState, testbed_id: str) -> str | None:
    """The other testbed whose stamp the adapter carries."""
    prefix = stamp("")
    holder = str(state["alias"])[len(prefix) :] if str(state["alias"]).startswith(prefix) else ""
    return holder if holder and holder != testbed_id else None


def name_of_others(state: AdapterState, want: AdapterWant, others: list[AdapterTarget], holder: str | None) -> Failure:
    targets = [entry_key(target) for target in others]
    if holder:
        return Failure(
            "adapter_in_use",
            f"The adapter {state['device']} is that of testbed {holder}, by the name {state['iqn']}; testbed {want['testbed_id']} "
            f"wants the name {want['name']}, and a host has one software adapter.",
            f"Set iscsi_initiator_name to {state['iqn']}, so that both share it, or tear testbed {holder} down first.",
            targets=targets,
            testbeds=[holder, want["testbed_id"]],
        )
    return Failure(
        "adapter_in_use",
        f"The adapter {state['device']} has the name {state['iqn']} and targets of others.",
        f"Set iscsi_initiator_name to {state['iqn']}, or remove those targets.",
        targets=targets,
    )


def plan(state: AdapterState, want: AdapterWant, memory: dict[str, Any]) -> list[Step]:
    """The steps from the state to what is wanted: [{op, target, was, will, …}], in the order in which they are done.

    want: {testbed_id, name, options, host_options, queue_depth, port_binding, targets}. memory: the testbed's record of this host.
    """
    others = others_of(state, memory) if state["enabled"] else []
    holder = held_by(state, want["testbed_id"]) if others else None
    steps = [
        *_own_steps(state, want, others, holder),
        *_option_steps(state, want, holder),
        *_host_option_steps(state, want),
        *_binding_steps(state, want["port_binding"], memory.get("bound", [])),
        *_adapter_chap_steps(state, want["adapter_chap"], memory.get("secrets", {})),
        *_target_steps(state, want["targets"], memory),
        # Always, because a host may go on showing a LUN, or a datastore on it, whose disk has been replaced since.
        _step("rescan", device_of(state), None, "rescanned"),
    ]
    return sorted(steps, key=lambda item: ORDER.index(item["op"]))


def _step(op: str, target: str, was: object, will: object, **more: object) -> Step:
    return cast(Step, {"op": op, "target": target, "was": was, "will": will, **more})


def device_of(state: AdapterState) -> str:
    """The adapter's name on its host; before it is enabled it has none."""
    return state["device"] or "adapter"


def _own_steps(state: AdapterState, want: AdapterWant, others: list[AdapterTarget], holder: str | None) -> list[Step]:
    """Steps for the adapter itself and its names."""
    steps = []
    if not state["enabled"]:
        steps.append(_step("enable", "software iSCSI adapter", "disabled", "enabled"))
    if not same_iqn(state["iqn"], want["name"]):
        if others:
            raise name_of_others(state, want, others, holder)
        steps.append(_step("name", device_of(state), state["iqn"], want["name"]))
    # Two testbeds of one name share the adapter, and the first keeps it.
    if state["alias"] != stamp(want["testbed_id"]) and not holder:
        steps.append(_step("alias", device_of(state), state["alias"], stamp(want["testbed_id"])))
    return steps


def _option_steps(state: AdapterState, want: AdapterWant, holder: str | None) -> list[Step]:
    # Before there is an adapter nothing is known of its options.
    options = want["options"]
    if state["device"]:
        options = as_the_host_has_them(options, state["options"], state["limits"])
    differing = {key: value for key, value in options.items() if state["options"].get(key) != value}
    if differing and holder:
        key = sorted(differing)[0]
        raise Failure(
            "adapter_in_use",
            f"The option {key} of the adapter {state['device']} is {state['options'].get(key)} for testbed {holder}, and testbed "
            f"{want['testbed_id']} wants {differing[key]}.",
            "Give both testbeds the same iscsi_initiator_esxi_options, or tear one of them down first.",
            testbeds=[holder, want["testbed_id"]],
        )
    now = {key: state["options"].get(key) for key in differing}
    return [_step("options", device_of(state), now, differing)] if differing else []


def _host_option_steps(state: AdapterState, want: AdapterWant) -> list[Step]:
    """Steps for options that the host has for all its adapters, and for its driver's queue depth."""
    steps, variable = [], "iscsi_initiator_esxi_host_options"
    for key, given in want["host_options"].items():
        now, known = state["host_options"][key], state["host_limits"].get(key)
        value = host_options.allowed(variable, key, host_options.meant(variable, key, given, now), now, known)
        if now != value:
            steps.append(_step("host_option", key, now, value, at_start=bool(known and known["at_start"])))
    if want["queue_depth"]:
        text = host_options.with_option(state["module_options"], QUEUE_DEPTH_OPTION, want["queue_depth"])
        if text != state["module_options"]:
            steps.append(_step("queue_depth", QUEUE_DEPTH_MODULE, state["module_options"], text))
    return steps


def _binding_steps(state: AdapterState, wanted: list[str], recorded: list[str]) -> list[Step]:
    bound = [_step("bind", name, None, "bound") for name in wanted if name not in state["bound"]]
    going = [name for name in recorded if name in state["bound"] and name not in wanted]
    unbound = [_step("unbind", name, "bound", None) for name in going]
    return [*bound, *unbound, *([_step("end_sessions", device_of(state), None, "rescanned")] if unbound else [])]


def _adapter_chap_steps(state: AdapterState, own: dict[str, Any] | None, secrets: dict[str, Any]) -> list[Step]:
    if not own:
        return []
    if state["chap"] and ADAPTER not in secrets:
        raise Failure(
            "adapter_in_use",
            f"The adapter {state['device']} logs in with CHAP as {state['chap']['name']} already, for others.",
            "Give the CHAP settings at the targets instead of iscsi_initiator_esxi_adapter_chap.",
        )
    names: Chap = {"name": own["chap_user"], "mutual_name": own["mutual_chap_user"]}
    if state["chap"] == names and _known(own, secrets.get(ADAPTER, {})):
        return []
    was = (state["chap"] or {}).get("name")
    return [_step("chap", ADAPTER, was, own["chap_user"], entry={"method": ADAPTER, **own})]


def _target_steps(state: AdapterState, targets: list[Any], memory: dict[str, Any]) -> list[Step]:
    """Steps for the configured targets and the CHAP settings of each."""
    configured = {entry_key(target): target for target in state["targets"]}
    wanted = {entry_key(entry): entry for entry in entries(targets)}
    unwanted = [key for key in memory.get("targets", []) if key not in wanted]
    steps = [
        _step("remove_target", key, "configured", None, entry=target)
        for key, target in configured.items()
        # With a send target goes what it reported at other addresses of the portal.
        if key not in wanted and is_ours(target, memory) and (key in unwanted or reported_by(target, unwanted))
    ]
    for key, entry in wanted.items():
        if key not in configured and not entry["found"]:
            steps.append(_step("add_target", key, None, "configured", entry=entry))
        there = [configured[key]] if key in configured and not entry["found"] else faces(entry, state["targets"])
        steps += _target_chap_steps(key, entry, there, memory.get("secrets", {}).get(key, {}))
    if any(item["op"] == "chap_found" for item in steps):
        steps.append(_step("discover", device_of(state), None, "rescanned"))
    return steps


def _target_chap_steps(
    key: str, entry: dict[str, object], there: list[AdapterTarget], secrets: dict[str, object]
) -> list[Step]:
    """there: the entries of the host that this one is, or will be reported as."""
    names = {"name": entry["chap_user"], "mutual_name": entry["mutual_chap_user"]} if entry["chap_user"] else None
    differing = [target for target in there if target["chap"] != names]
    if not differing and (there or not names) and _known(entry, secrets):
        return []
    was = next(((target["chap"] or {}).get("name") for target in differing or there), None)
    op = "chap_found" if entry["found"] else "chap"
    return [_step(op, key, was, entry["chap_user"] or "none", entry=entry)]


def _known(entry: dict[str, Any], kept: dict[str, Any]) -> bool:
    return all(not entry[secret] or same_secret(entry[secret], kept.get(secret)) for secret in SECRETS)


def as_the_host_has_them(wanted: dict[str, Any], options: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    """The adapter's options that are wanted, each in the type that it has on the host and within its bounds; raises bad_value."""
    variable = "iscsi_initiator_esxi_options"
    for key in wanted:
        if key not in options:
            raise bad_value(
                variable,
                key,
                f"The adapter has no such option; it has {', '.join(sorted(options))}.",
            )
    meant = {key: host_options.meant(variable, key, wanted[key], options[key]) for key in wanted}
    return {
        key: host_options.allowed(variable, key, value, options[key], limits.get(key, {}))
        for key, value in meant.items()
    }


def faces(entry: dict[str, Any], targets: list[AdapterTarget]) -> list[AdapterTarget]:
    """The configured targets of a discovered one: a portal may name several addresses of it."""
    key = entry_key(entry)
    return [
        target
        for target in targets
        if target["method"] == "static"
        and same_iqn(target["iqn"], entry["iqn"])
        and (target["discovered"] or entry_key(target) == key)
    ]


def missing(shown: list[AdapterLun], targets: list[Any]) -> list[Any]:
    """[(iqn, lun)] that no working device stands for."""
    there = {(iqn_key(lun["iqn"]), lun["lun"]) for lun in shown if scsi.works(lun["state"])}
    return [
        (target["iqn"], lun["lun"])
        for target in targets
        for lun in target["luns"]
        if (iqn_key(target["iqn"]), lun["lun"]) not in there
    ]


def absent_plan(state: AdapterState, memory: dict[str, Any]) -> list[Step]:
    """The steps that give the adapter back as it was before the testbed, but for what is ``kept`` for others."""
    if not memory:
        return []
    steps: list[Step] = []

    def step(op: str, target: str, was: object, will: object, **more: object) -> None:
        steps.append(cast(Step, {"op": op, "target": target, "was": was, "will": will, **more}))

    before, device = memory["before"], state["device"]
    for target in reversed(state["targets"]):
        # A portal may report more targets than the testbed's, and each becomes a static one.
        if is_ours(target, memory) and entry_key(target) not in before["targets"]:
            step("remove_target", entry_key(target), "configured", None, entry=target)
    shared = bool(came_later(state, memory))
    bound = [] if shared else [name for name in memory.get("bound", []) if name in state["bound"]]
    if steps or bound or state["luns"]:
        # A host lets go of an interface only when no session goes through it any more.
        step("end_sessions", device or "adapter", None, "rescanned")
    for name in bound:
        step("unbind", name, "bound", None)
    if not shared:
        steps += _settings_back(state, memory)
    for key, value in before["host_options"].items():
        if key in state["host_options"] and state["host_options"][key] != value:
            known = state["host_limits"].get(key)
            step("host_option", key, state["host_options"][key], value, at_start=bool(known and known["at_start"]))
    if "module_options" in before and state["module_options"] != before["module_options"] and memory.get("queue_depth"):
        step("queue_depth", QUEUE_DEPTH_MODULE, state["module_options"], before["module_options"])
    removed = {item["target"] for item in steps if item["op"] == "remove_target"}
    others = [target for target in state["targets"] if entry_key(target) not in removed]
    if state["enabled"] and not before["enabled"] and not others:
        step("disable", device or ADAPTER, "enabled", "disabled")
    return steps


def _settings_back(state: AdapterState, memory: dict[str, Any]) -> list[Step]:
    """The steps that give the adapter its own settings back: CHAP, options, name and alias."""
    before, device = memory["before"], state["device"]
    steps: list[Step] = []
    if state["chap"] and ADAPTER in memory.get("secrets", {}):
        entry = {"method": ADAPTER, **dict.fromkeys(CHAP, "")}
        steps.append({"op": "chap", "target": ADAPTER, "was": state["chap"]["name"], "will": "none", "entry": entry})
    options = {
        key: value
        for key, value in before["options"].items()
        if state["options"].get(key) != value and key in memory.get("options", [])
    }
    if options and device:
        was = {key: state["options"].get(key) for key in options}
        steps.append({"op": "options", "target": device, "was": was, "will": options})
    # Also where it is disabled at the end: a host keeps the settings of a disabled adapter, and enabling it brings them back.
    for op, now, then in (("name", state["iqn"], before["iqn"]), ("alias", state["alias"], before["alias"])):
        if before["iqn"] and device and now != then:
            steps.append({"op": op, "target": device, "was": now, "will": then})
    return steps


def kept(state: AdapterState, memory: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings that a teardown leaves as the testbed has set them, for targets of others: [{setting, value, before}]; given back later."""
    if not memory or not came_later(state, memory):
        return []
    left = []
    for step in _settings_back(state, memory):
        if step["op"] == "options":
            left += [
                {"setting": f"option {key}", "value": step["was"][key], "before": step["will"][key]}
                for key in step["will"]
            ]
        else:
            setting = "CHAP" if step["op"] == "chap" else step["op"]
            left.append(
                {"setting": setting, "value": step["was"], "before": None if setting == "CHAP" else step["will"]}
            )
    left += [
        {"setting": f"bound {name}", "value": "bound", "before": None}
        for name in memory.get("bound", [])
        if name in state["bound"]
    ]
    if state["enabled"] and not memory["before"]["enabled"]:
        left.append({"setting": "adapter", "value": "enabled", "before": "disabled"})
    return left


def refuse_used(state: AdapterState, steps: list[Step], mapped: dict[str, list[str]]) -> None:
    """Refuse to log out of a LUN that somebody uses: a host removes a target whatever is on it. mapped: {uuid of a LUN: machines to which it is mapped}."""
    removed = [step["target"] for step in steps if step["op"] == "remove_target"]
    left = {iqn_key(target["iqn"]) for target in state["targets"] if entry_key(target) not in removed}
    gone = {iqn_key(target["iqn"]) for target in state["targets"] if entry_key(target) in removed} - left
    others = {lun["name"] for lun in state["luns"] if iqn_key(lun["iqn"]) not in gone}
    for lun in state["luns"]:
        users = [f"the datastore {name}" for name in lun["datastores"]]
        users += [f"the machine {name}, to which it is mapped," for name in mapped.get(lun["uuid"], [])]
        if iqn_key(lun["iqn"]) in gone and lun["name"] not in others and users:
            raise Failure(
                "in_use",
                f"LUN {lun['lun']} of {lun['iqn']} ({lun['name']}) is not logged out of: {' and '.join(users)} would be lost.",
                "Unmount the datastore, or take the LUN out of the machine, and run again.",
                name=lun["name"],
                users=users,
            )


def as_done(state: AdapterState, steps: list[Step]) -> AdapterState:
    """The state that the host will show once it shows these steps. Removed things are left as they are."""
    state = {**state, "options": dict(state["options"]), "host_options": dict(state["host_options"])}
    shown = {entry_key(target) for target in state["targets"]}
    for step in steps:
        op, will = step["op"], step["will"]
        if op == "enable":
            state["enabled"] = True
        elif op in ("name", "alias"):
            state["iqn" if op == "name" else "alias"] = will
        elif op == "options":
            state["options"].update(will)
        elif op == "host_option":
            state["host_options"][step["target"]] = will
        elif op == "queue_depth":
            state["module_options"] = will
        elif op == "bind" and step["target"] not in state["bound"]:
            state["bound"] = [*state["bound"], step["target"]]
        elif op == "add_target" and step["target"] not in shown:
            entry = {key: step["entry"][key] for key in ("method", "address", "port", "iqn")}
            target = cast(AdapterTarget, {**entry, "discovered": False, "parent": None, "chap": None})
            state["targets"] = [*state["targets"], target]
        elif op == "chap" and step["target"] == ADAPTER:
            state["chap"] = {"name": will}
    return state


def settled(state: AdapterState, want: AdapterWant, memory: dict[str, object]) -> bool:
    """Whether the host shows all that was done; it shows a change a while after the call that made it."""
    try:
        return all(step["op"] in LOOKING for step in plan(state, want, memory))
    except Failure:
        return False
