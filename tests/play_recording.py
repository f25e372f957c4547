#!/usr/bin/env python3
# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Play a recorded system to the readers of this collection: play_recording.py FILE…

FILE is a recording of the playbook storlab.testbed.record, a tree of files as JSON ({path: text | {link} | {latin1}}), a folder that such a tree was laid out
in, an object of the vSphere API as XML (ObjectContent), or one file of a system. One JSON document per FILE is printed, a line each:
{file, kind, seen: what the readers read, plan: what a build would do or why it would not, unread: what no reader looked at}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
COLLECTIONS = ROOT / ".cache" / "collections"
if not COLLECTIONS.is_dir():
    raise SystemExit(
        "This checkout has no tools yet: run make setup-tools, then .venv/bin/python tests/play_recording.py FILE."
    )
sys.path.insert(0, str(COLLECTIONS))


from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import (
    adapter,
    adapter_plan,
    counters,
    datastore,
    fingerprint,
    machine_state,
    network,
    recording,
    settings,
)
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.session import Session
from ansible_collections.storlab.testbed.plugins.module_utils.linux import mounts
from ansible_collections.storlab.testbed.plugins.module_utils.linux.backing import raid
from ansible_collections.storlab.testbed.plugins.module_utils.linux.clients import open_iscsi
from ansible_collections.storlab.testbed.plugins.module_utils.linux.disks import (
    device_mapper,
    device_safety,
    nfs_volumes,
    wanted_disks,
)
from ansible_collections.storlab.testbed.plugins.module_utils.linux.exports import lio, nfs_plan, tgt
from ansible_collections.storlab.testbed.plugins.module_utils.linux.watch import environment, probe, storage_state
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import storage_state as windows_state

EXAMPLE = {
    "testbed_id": "played",
    "name": "iqn.2026-11.com.storlab:played",
    "options": {},
    "host_options": {},
    "queue_depth": None,
    "port_binding": [],
    "adapter_chap": None,
    "targets": [],
}


def answer(look: Callable[[], Any]) -> Any:
    """The value that a reader reads, or its failure."""
    try:
        return look()
    except Failure as failure:
        return {"failure": {"code": failure.code, "what": failure.what}}
    except Exception as error:
        return {"failure": {"code": "unreadable", "what": f"{type(error).__name__}: {error}"}}


# ---------------------------------------------------------------- Linux


def lay_out(tree: dict[str, Any], folder: str) -> None:
    for path, value in tree.items():
        place = os.path.join(folder, path.lstrip("/"))
        if os.path.commonpath([os.path.normpath(place), folder]) != folder:
            raise SystemExit(f"{path} leads out of the tree.")
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if isinstance(value, dict) and "link" in value:
            os.symlink(value["link"], place)
            continue
        content = value["latin1"].encode("latin1") if isinstance(value, dict) else value.encode()
        Path(place).write_bytes(content)


_OPENED: set[str] = set()
_WATCHED: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _WATCHED and isinstance(arguments[0], str) and arguments[0].startswith(_WATCHED[-1]):
        _OPENED.add(os.path.realpath(arguments[0]))


@contextlib.contextmanager
def watched(folder: str) -> Iterator[None]:
    _OPENED.clear()
    _WATCHED.append(folder)
    try:
        yield
    finally:
        _WATCHED.pop()


def play_tree(folder: str, outputs: dict[str, Any]) -> dict[str, Any]:
    """A file tree below a folder: {seen, plan, unread}."""
    folder = os.path.realpath(folder)
    system = device_safety.System(folder)
    files = [str(path) for path in sorted(Path(folder).rglob("*")) if path.is_file() and not path.is_symlink()]
    with watched(folder):
        seen = {
            "storage_state": answer(lambda: storage_state.examine(folder, "", "", [], "", {}).lines),
            "fingerprint": answer(lambda: environment.fingerprint(system=system)),
            "arrays": answer(lambda: raid.read_arrays(system)),
            "disks": answer(
                lambda: wanted_disks.disks(
                    os.path.join(folder, "sys/block"), os.path.join(folder, "proc/self/mountinfo"), lambda _path: False
                )
            ),
        }
        for line, output in outputs.items():
            for name, read in readers_of(output["out"]):
                seen[f"{line}: {name}"] = answer(lambda read=read, output=output: read(output["out"]))
    disks = seen["disks"] if isinstance(seen["disks"], list) else []
    plan = {"offered": [disk.get("path") or disk.get("name") for disk in disks if not disk.get("used")]}
    unread = [os.path.relpath(path, folder) for path in files if path not in _OPENED]
    return {"seen": {name: value for name, value in seen.items() if value}, "plan": plan, "unread": unread}


# By a pattern of the text, the readers of texts that stand alone.
TEXTS: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("mounts.parse", r"(?m)^\d+ \d+ \d+:\d+ /\S* /.* - \S+ ", mounts.parse),
    ("mounts.swap_spaces", r"\AFilename\s+Type\s+Size", mounts.swap_spaces),
    ("probe.memory_mib", r"(?m)^MemTotal:\s+\d+ kB", probe.memory_mib),
    ("environment.processor", r"(?m)^(processor|vendor_id|cpu|CPU implementer)\s*:", environment.processor),
    ("raid.parse_export", r"(?m)^MD_LEVEL=", raid.parse_export),
    ("tgt.parse_targets", r"(?m)^Target \d+: ", tgt.parse_targets),
    ("nfs_plan.parse_etab", r"(?m)^/\S*\s+\S+\([a-z_,=0-9]*(sync|root_squash)", nfs_plan.parse_etab),
    ("nfs_plan.parse_versions", r"\A[+-]\d(\.\d)?( [+-]\d(\.\d)?)*\s*\Z", nfs_plan.parse_versions),
    ("nfs_plan.parse_states", r"(?m)^- 0x[0-9a-f]+: \{ type:", nfs_plan.parse_states),
    ("nfs_volumes.volumes", r"\ANV SERVER", nfs_volumes.volumes),
    ("lio.parse_session", r"InitiatorName: ", lio.parse_session),
    ("open_iscsi.parse_record", r"(?m)^(node|iface)\.\S+ = ", open_iscsi.parse_record),
    (
        "device_mapper.cache_status",
        r"\A(\S+: )?\d+ \d+ cache ",
        lambda text: [cache(line) for line in text.splitlines()],
    ),
)


def cache(line: str) -> Any:
    return device_mapper.cache_status(line.partition(" cache ")[2])


def readers_of(text: str) -> list[tuple[str, Callable[[str], Any]]]:
    return [(name, read) for name, pattern, read in TEXTS if re.search(pattern, text)]


def play_text(name: str, text: str) -> dict[str, Any]:
    found = {reader: answer(lambda read=read: read(text)) for reader, read in readers_of(text)}
    return {"kind": "linux text", "seen": found, "plan": {}, "unread": [] if found else [name]}


# ---------------------------------------------------------------- ESXi, by single objects


class Offline(Session):
    """A session without a host: it knows one object."""

    def __init__(self) -> None:
        super().__init__({"hostname": "recording", "port": 443, "username": "", "esxi_host": None})
        self.own: dict[str, Any] = {}
        self.content = None

    def all(self, kind: Any, *names: Any) -> list[Any]:
        return []

    def properties(self, managed: Any, *names: str) -> dict[str, Any]:
        values = {name: self.own.get(name) or reach(managed, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}


def reach(item: Any, path: str) -> Any:
    for name in path.split("."):
        item = getattr(item, name, None)
    return item


def objects(text: str) -> list[tuple[str, dict[str, Any]]]:
    """[(type, {property: value})] of ObjectContent elements; several values of one property become a list."""
    from pyVmomi import SoapAdapter

    element = ElementTree.fromstring(text)  # noqa: S314 - a file of the caller's own
    contents = [element] if element.tag == "ObjectContent" else list(element.iter("ObjectContent"))
    found = []
    for content in contents:
        kind = content.find("obj").attrib["type"]
        values: dict[str, Any] = {}
        for part in content.iter("propSet"):
            value = part.find("val")
            value.tag = "val"
            value.set("xmlns", "urn:vim25")
            name = part.findtext("name")
            read = SoapAdapter.Deserialize(
                ElementTree.tostring(value).replace(b"ns0:", b"xsi:").replace(b"xmlns:ns0", b"xmlns:xsi")
            )
            values[name] = (
                [*values[name], read]
                if isinstance(values.get(name), list)
                else [values[name], read]
                if name in values
                else read
            )
        found.append((kind, values))
    return found


def as_host(values: dict[str, Any]) -> Any:
    """A HostSystem whose managers answer from its configuration, as far as it was recorded."""
    config = values.get("config")
    get = lambda name: getattr(config, name, None)  # noqa: E731
    known = {option.key: option for option in get("option") or []}

    def options(key: str) -> list[Any]:
        return [known[key]] if key in known else []

    managers = SimpleNamespace(
        storageSystem=SimpleNamespace(
            storageDeviceInfo=get("storageDevice"), fileSystemVolumeInfo=get("fileSystemVolume")
        ),
        networkSystem=SimpleNamespace(networkInfo=get("network")),
        virtualNicManager=SimpleNamespace(info=get("virtualNicManagerInfo")),
        advancedOption=SimpleNamespace(QueryOptions=options, supportedOption=get("optionDef")),
        kernelModuleSystem=None,
        iscsiManager=None,
        powerSystem=SimpleNamespace(info=get("powerSystemInfo"), capability=get("powerSystemCapability"))
        if get("powerSystemInfo")
        else None,
        dateTimeSystem=SimpleNamespace(dateTimeInfo=get("dateTimeInfo")) if get("dateTimeInfo") else None,
        serviceSystem=SimpleNamespace(serviceInfo=get("service")) if get("service") else None,
    )
    return SimpleNamespace(
        configManager=managers,
        config=config,
        name=values.get("name", "recorded"),
        runtime=values.get("runtime") or SimpleNamespace(bootTime=SimpleNamespace(isoformat=lambda: None)),
        network=[],
        datastore=[],
        vm=[],
    )


def play_objects(text: str) -> dict[str, Any]:
    session, seen, unread, steps = Offline(), {}, [], {}
    for number, (kind, values) in enumerate(objects(text)):
        name = f"{kind} {number}"
        session.own = values
        if kind == "HostSystem":
            host = as_host(values)
            config = values.get("config")
            looks = {
                "adapter": (getattr(config, "storageDevice", None), lambda host=host: adapter.read(session, host)),
                "network": (
                    getattr(config, "virtualNicManagerInfo", None),
                    lambda host=host: network.read(session, host),
                ),
                "settings": (config, lambda host=host: settings.read(session, host)),
                "datastores": (
                    getattr(config, "fileSystemVolume", None),
                    lambda host=host: datastore.read(session, host),
                ),
                "fingerprint": (
                    getattr(config, "storageDevice", None) and getattr(config, "network", None),
                    lambda host=host: fingerprint.read(session, host),
                ),
            }
            seen[name] = {what: answer(look) for what, (recorded, look) in looks.items() if recorded is not None}
            unread += [
                f"{name} {what}: not in the recording" for what, (recorded, _look) in looks.items() if recorded is None
            ]
            if "failure" not in seen[name].get("adapter", {"failure": ""}):
                steps[name] = answer(
                    lambda state=seen[name]["adapter"]: [step["op"] for step in adapter_plan.plan(state, EXAMPLE, {})]
                )
            unread += sorted(f"{name} {each}" for each in values if each not in ("config", "name", "runtime"))
        elif kind == "VirtualMachine":
            vm = SimpleNamespace(
                **{
                    "config": None,
                    "runtime": SimpleNamespace(connectionState="connected", powerState=None),
                    "name": "recorded",
                    "snapshot": None,
                    "layoutEx": None,
                    **values,
                }
            )
            if getattr(vm.config, "files", None) is None:
                unread.append(f"{name} config: not in the recording")
                continue
            seen[name] = answer(lambda vm=vm: machine_state.read(session, as_host({}), vm))
            unread += sorted(
                f"{name} {each}" for each in values if each not in ("config", "runtime", "name", "snapshot", "layoutEx")
            )
        elif kind == "Datastore":
            seen[name] = {
                each: str(type(value).__name__)
                for each, value in values.items()
                if each in ("info", "host", "summary", "name", "vm")
            }
            unread += sorted(f"{name} {each}" for each in values if each not in seen[name])
        else:
            unread.append(name)
    return {"kind": "esxi objects", "seen": seen, "plan": steps, "unread": unread}


def play_counters(text: str) -> dict[str, Any]:
    """A list of a vCenter's counters, tabs between columns key, group, name, rollup."""
    rows = [line.split("\t") for line in text.splitlines()[1:] if line]
    known = {f"{row[1]}.{row[2]}.{row[3]}" for row in rows}
    wanted = {
        f"{group}.{counter}"
        for sections in (counters._HOST, counters._MACHINE)
        for group, rates, latencies in sections.values()
        for counter in [*rates, *(latency[0] for latency in latencies)]
    }
    return {
        "kind": "esxi counters",
        "seen": {"counters": len(known), "used": sorted(wanted & known)},
        "plan": {"missing": sorted(wanted - known)},
        "unread": [],
    }


def play_performance(text: str) -> dict[str, Any]:
    from pyVmomi import SoapAdapter

    element, tables = ElementTree.fromstring(text), {}  # noqa: S314 - a file of the caller's own
    for part in element.iter("returnval"):
        part.set("xmlns", "urn:vim25")
        metrics = SoapAdapter.Deserialize(
            ElementTree.tostring(part).replace(b"ns0:", b"xsi:").replace(b"xmlns:ns0", b"xmlns:xsi")
        )
        if not hasattr(metrics, "sampleInfoCSV"):
            return {"kind": "esxi samples", "seen": {}, "plan": {}, "unread": ["returnval"]}
        names = {column.id.counterId: str(column.id.counterId) for column in metrics.value or []}
        table = counters.table_of(metrics, names)
        tables[metrics.entity._moId] = {"columns": len(table["columns"]), "samples": len(table["rows"])}
    return {"kind": "esxi samples", "seen": tables, "plan": {}, "unread": []}


# ---------------------------------------------------------------- what the file is


def play(path: Path) -> dict[str, Any]:
    if path.is_dir():
        return {"kind": "linux tree", **play_tree(str(path), {})}
    text = path.read_bytes().decode("utf-8", "replace")
    if path.suffix == ".xml" or text.lstrip().startswith("<"):
        if "ObjectContent" in text:
            return play_objects(text)
        return play_performance(text) if "sampleInfoCSV" in text else unknown(path)
    if text.startswith("key\tgroup\t"):
        return play_counters(text)
    try:
        document = json.loads(text)
    except ValueError:
        return play_text(path.name, text)
    return play_document(path, document)


def play_document(path: Path, document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        return unknown(path)
    if document.get("format") == 1 and document.get("kind") == "esxi":
        replay = recording.Replay(document)
        host = replay.host()
        seen = recording.seen(replay, host)
        steps = answer(lambda: [step["op"] for step in adapter_plan.plan(seen["adapter"], EXAMPLE, {})])
        return {"kind": "esxi", "seen": seen, "plan": {"build": steps}, "unread": replay.unread()}
    if document.get("format") == 1 and document.get("kind") == "windows":
        state = document["state"]
        return {
            "kind": "windows",
            "seen": answer(lambda: windows_state.lines(state, "")),
            "plan": {},
            "unread": sorted(set(state) - WINDOWS_READ),
        }
    files = document["files"] if document.get("format") == 1 and document.get("kind") == "linux" else document
    if files and all(
        isinstance(value, str) or (isinstance(value, dict) and len(value) == 1 and set(value) <= {"link", "latin1"})
        for value in files.values()
    ):
        with tempfile.TemporaryDirectory() as folder:
            lay_out(files, folder)
            return {
                "kind": "linux" if files is not document else "linux tree",
                **play_tree(folder, document.get("outputs", {}) if files is not document else {}),
            }
    return unknown(path)


WINDOWS_READ = {
    "about",
    "feature",
    "services",
    "virtual_disks",
    "targets",
    "portals",
    "loopback",
    "firewall_rules",
    "initiator",
    "disks",
    "volumes",
    "files",
}


def unknown(path: Path) -> dict[str, Any]:
    return {"kind": "unknown", "seen": {}, "plan": {}, "unread": [path.name]}


def shown(value: Any) -> Any:
    """For JSON: sets and tuples as lists, everything else that it does not know as text."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    return str(value)


def as_json(document: dict[str, Any]) -> str:
    def plain(item: Any) -> Any:
        if isinstance(item, dict):
            return {str(key): plain(part) for key, part in item.items()}
        return [plain(part) for part in item] if isinstance(item, (list, tuple)) else item

    return json.dumps(plain(document), default=shown, sort_keys=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="+", type=Path)
    sys.addaudithook(_audit)
    for path in parser.parse_args().file:
        print(as_json({"file": str(path), **answer_of(path)}))


def answer_of(path: Path) -> dict[str, Any]:
    result = answer(lambda: play(path))
    return result if "kind" in result else {"kind": "unknown", "seen": {}, "plan": {}, "unread": [path.name], **result}


if __name__ == "__main__":
    main()
