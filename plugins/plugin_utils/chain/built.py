# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the last whole build made, and which changes of the inventory a running testbed cannot follow.

What is added is made by the next build, and what can be set where it is, is set. What would have to be recreated while something stands on it, or
would be left where no playbook looks any more, is refused: the testbed is taken down as it was described, then built as it is. The table in
docs/description.md has every word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .drawing import masked
from .shape import Problem, shown
from .stages import existing_storage
from .testbed import Testbed, addresses_of, mappings

# Variables of the roles that say what is made; with secrets replaced.
KEPT = (
    "ramdisk_disks",
    "ramdisk_provider",
    "raid_arrays",
    "cache_tier_caches",
    "iscsi_target_provider",
    "iscsi_target_targets",
    "iscsi_initiator_name",
    "iscsi_initiator_targets",
    "datastore_datastores",
    "guest_vm_guests",
)
GROUPS = ("targets", "hypervisors", "clients")


def record(testbed: Testbed) -> dict[str, Any]:
    """What is kept of a testbed that has been built."""
    return {
        "groups": {group: testbed.groups.get(group, []) for group in GROUPS},
        "hosts": {
            name: {variable: masked(host.variables[variable]) for variable in KEPT if variable in host.variables}
            for name, host in testbed.hosts.items()
        },
    }


def problems(before: dict[str, Any], testbed: Testbed, path: str) -> list[Problem]:
    """The changes that the testbed cannot follow, those of what everything else stands on alone. path: where the record is kept."""
    after = record(testbed)
    remedy = (
        f"change it back and run teardown, then change it and build; if nothing of that testbed is left, remove {path}"
    )
    for look in (_hosts, _disks, _targets, _initiators, _stores, _guests):
        changes = [Problem(word, value, why, remedy) for word, value, why in look(before, after, testbed)]
        if changes:
            return list(dict.fromkeys(changes))
    return []


def _hosts(before: dict[str, Any], after: dict[str, Any], _testbed: Testbed) -> list[Any]:
    return [
        (f"group {group}", None, f"no longer has {name}, which is part of the built testbed")
        for group, members in before["groups"].items()
        for name in members
        if name not in after["groups"][group]
    ]


def _each(before: dict[str, Any], after: dict[str, Any], variable: str) -> Iterator[tuple[str, Any, Any]]:
    """(host, what was, what is) of a variable on every host that had it."""
    for name, values in before["hosts"].items():
        if variable in values:
            yield name, values[variable], after["hosts"].get(name, {}).get(variable)


def _word(testbed: Testbed, host: str, variable: str, word: str) -> str:
    """The user's word: the description's, or the role's variable where the inventory sets it."""
    return f"{variable} of {host}" if variable in testbed.hosts[host].own else word


def _disks(before: dict[str, Any], after: dict[str, Any], testbed: Testbed) -> list[Any]:
    changes: list[Any] = []
    for variable in ("ramdisk_provider", "iscsi_target_provider"):
        for host, was, now in _each(before, after, variable):
            if was != now:
                changes.append((f"{variable} of {host}", shown(now), f"but the built testbed has {shown(was)}"))
    keys = ("level", "members", "chunk_kib", "bitmap", "purpose")
    for host, was, now in _each(before, after, "raid_arrays"):
        changes += _kept(_word(testbed, host, "raid_arrays", "testbed.disks"), "array", was, now, keys, host)
    for host, was, now in _each(before, after, "cache_tier_caches"):
        word = _word(testbed, host, "cache_tier_caches", "testbed.disks")
        changes += _kept(word, "cache tier", was, now, ("origin", "fast", "purpose"), host)
    for host, was, now in _each(before, after, "ramdisk_disks"):
        word = _word(testbed, host, "ramdisk_disks", "testbed.disks")
        have, want = ({disk["name"]: disk for disk in mappings(disks)} for disks in (was, now))
        for name in [*have, *(name for name in want if name not in have)]:
            if have.get(name) != want.get(name):
                changes.append(
                    (
                        word,
                        None,
                        f"{_change(name, have.get(name), want.get(name))} on {host}, whose RAM disks are built as one unit",
                    )
                )
    return changes


def _change(name: str, was: dict[str, Any] | None, now: dict[str, Any] | None) -> str:
    """'has made ds1 of size_mib 128 one of 256', 'has lost ds1', 'has a new ds2'."""
    if was is None or now is None:
        return f"has {'lost' if now is None else 'a new'} {name}"
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    return f"has changed {', '.join(keys)} of {name} from {_values(was, keys)} to {_values(now, keys)}"


def _values(entry: dict[str, Any], keys: list[str]) -> str:
    return ", ".join(shown(entry[key]) if key in entry else "nothing" for key in keys)


def _kept(word: str, what: str, was: Any, now: Any, keys: tuple[str, ...], host: str, name: str = "name") -> list[Any]:
    """Entries that were must be still, with the same keys; more may come."""
    have, want = ({entry.get(name): entry for entry in mappings(entries)} for entries in (was, now))
    changes = []
    for label, entry in have.items():
        was_is = {key: entry.get(key) for key in keys}
        now_is = {key: want[label].get(key) for key in keys} if label in want else None
        if was_is != now_is:
            changes.append((word, None, f"{_change(f'the {what} {label}', was_is, now_is)} on {host}"))
    return changes


def _targets(before: dict[str, Any], after: dict[str, Any], testbed: Testbed) -> list[Any]:
    changes = []
    for host, was, now in _each(before, after, "iscsi_target_targets"):
        word = _word(testbed, host, "iscsi_target_targets", "testbed")
        changes += _kept(word, "target", was, now, (), host)
        want = {export["name"]: export for export in mappings(now)}
        for export in mappings(was):
            if export["name"] not in want:
                continue
            new = want[export["name"]]
            if export["portals"] != new["portals"][: len(export["portals"])]:
                own = "testbed_address" in testbed.hosts[host].own or not addresses_of(testbed.hosts[host].own)
                address = _word(
                    testbed,
                    host,
                    "iscsi_target_targets",
                    f"{'testbed_address' if own else 'ansible_host'} of {host} or testbed.port",
                )
                texts = [
                    ", ".join(f"{portal['address']}:{portal.get('port', 3260)}" for portal in portals)
                    for portals in (export["portals"], new["portals"])
                ]
                changes.append((address, None, f"has changed the portals from {texts[0]} to {texts[1]}"))
            keys = ("lun", "layer", "device", "vhdx", "purpose")
            changes += _kept(
                f"{word}.disks" if word == "testbed" else word, "LUN", export["luns"], new["luns"], keys, host
            )
            for initiator in mappings(export["initiators"]):
                # Who may log in stays, and sees what it saw.
                same = next((other for other in mappings(new["initiators"]) if _key(other) == _key(initiator)), None)
                lost = sorted(_seen(initiator, export) - _seen(same, new)) if same else []
                if same is None or lost:
                    what = f"LUN {', '.join(map(str, lost))} from {_key(initiator)}" if same else _key(initiator)
                    changes.append(
                        (f"{word}.disks" if word == "testbed" else word, None, f"has taken {what} on {host}")
                    )
    return changes


def _seen(initiator: dict[str, Any], export: dict[str, Any]) -> set[Any]:
    """The numbers of the LUNs that an initiator sees: those that are named, else all of the target."""
    named = initiator.get("luns")
    return set(named if named is not None else (lun["lun"] for lun in export["luns"]))


def _key(initiator: dict[str, Any]) -> str:
    return str(initiator.get("iqn") or initiator.get("address") or initiator.get("dns_name"))


def _initiators(before: dict[str, Any], after: dict[str, Any], testbed: Testbed) -> list[Any]:
    changes = []
    for host, was, now in _each(before, after, "iscsi_initiator_name"):
        if was != now:
            changes.append((f"iscsi_initiator_name of {host}", shown(now), f"but the built testbed has {shown(was)}"))
    for host, was, now in _each(before, after, "iscsi_initiator_targets"):
        word = _word(testbed, host, "iscsi_initiator_targets", "testbed.disks")
        # Nothing of the testbed is on LUNs that are only read.
        was, now = (
            [session for session in mappings(sessions) if not existing_storage.only_read(session)]
            for sessions in (was, now)
        )
        changes += _kept(word, "session with", was, now, ("portal",), host, "iqn")
    return changes


def _stores(before: dict[str, Any], after: dict[str, Any], testbed: Testbed) -> list[Any]:
    keys = ("layer", "filesystem", "type", "mount_point", "server", "path", "export", "version", "compatibility")
    return [
        change
        for host, was, now in _each(before, after, "datastore_datastores")
        for change in _kept(
            _word(testbed, host, "datastore_datastores", "testbed.datastores"), "datastore", was, now, keys, host
        )
    ]


def _guests(before: dict[str, Any], after: dict[str, Any], testbed: Testbed) -> list[Any]:
    changes = []
    for host, was, now in _each(before, after, "guest_vm_guests"):
        word = _word(testbed, host, "guest_vm_guests", "testbed.guests")
        was, now = _with_disk(was), _with_disk(now)
        changes += _kept(
            word, "guest", was, now, ("host", "disk datastore_layer", "disk host", "disk size_mib", "raw LUN"), host
        )
    return changes


def _with_disk(guests: Any) -> list[dict[str, Any]]:
    """The guests with what their disks are, one level deep."""
    return [
        {
            **guest,
            **{f"disk {key}": value for key, value in (guest.get("data_disk") or {}).items()},
            "raw LUN": (guest.get("raw_disk") or {}).get("layer", "none"),
        }
        for guest in mappings(guests)
    ]
