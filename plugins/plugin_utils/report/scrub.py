# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pseudonyms for words that reveal whose testbed a run is of: hosts, users, testbeds, addresses, IQNs, NAAs, serial numbers, UUIDs.

The input is scrubbed, not the output: so every form of the report says the same pseudonym, and no figure can change.

Names are learned from the fields that hold them and then replaced wherever they stand, in a path or a sentence too. Addresses and identifiers
are known by their shape: IQN and NAA by RFC 3720 and RFC 3980, UUID by RFC 4122 and as VMFS writes it, addresses as Python's ipaddress reads them.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace
from typing import Any

from ...module_utils.core.layers import KINDS
from ..store.load import Run
from .nouns import Report

NAMING = {
    **dict.fromkeys(
        ("host", "hosts", "guest", "hostname", "fqdn", "nodename", "node_name", "computer_name", "server", "servers"),
        "host",
    ),
    **dict.fromkeys(("user", "username", "user_name", "login", "owner"), "user"),
    **dict.fromkeys(("serial", "serial_number", "asset_tag", "machine_id", "boot_id"), "serial"),
    **dict.fromkeys(("naa", "wwid", "wwn", "eui"), "naa"),
    **dict.fromkeys(("uuid", "guid"), "uuid"),
    "testbed_id": "testbed",
    "domain": "domain",
}
# Mappings whose keys are names out of somebody's testbed; the keys of all others are the words of the schema.
KEYED_BY_NAMES = ("hosts", "layers", "devices", "network", "by_target")
# Words of the schema, whatever a host is called.
FIXED = (
    "schema",
    "layer_kind",
    "kind",
    "status",
    "sha256",
    "fingerprint",
    "collection_version",
    "started_utc",
    "finished_utc",
    "histogram",
    "files",
)
# Names that reveal nothing, and that replacing would make nonsense of other words.
COMMON = {
    *KINDS,
    "imported",
    "read",
    "write",
    "total",
    "measured",
    "failed",
    "host",
    "server",
    "client",
    "localhost",
    "unknown",
    "none",
    "default",
    "root",
    "administrator",
    "admin",
    "fio",
    "iometer",
    "diskspd",
    "linux",
    "windows",
    "random",
    "path",
    "device",
    "network",
    "kernel",
    "cpu",
    "memory",
    "engine",
    "workload",
    "not specified",
    "to be filled by o.e.m.",
    "default string",
}
SHORTEST = 3  # letters of a name that is replaced inside of other words

PATTERNS = (
    ("user", r"(?<=/home/)[^/\s\"':,;]+|(?<=/Users/)[^/\s\"':,;]+|(?<=\\Users\\)[^\\\s\"':,;]+"),
    ("account", r"\b[a-z][\w.+-]*@[a-z0-9][\w.-]*\w"),
    ("iqn", r"\b[in]qn\.\d{4}-\d\d\.[a-z0-9.:_-]*[a-z0-9]"),
    ("naa", r"\bt10\.[^\s/\"',;]+"),
    (
        "uuid",
        r"(?<![0-9a-z])[0-9a-f]{8}-(?:[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}|[0-9a-f]{8}-[0-9a-f]{4})-[0-9a-f]{12}(?![0-9a-z])",
    ),
    ("mac", r"(?<![0-9a-z:])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![0-9a-z:])"),
    ("naa", r"(?<![0-9a-z])(?:naa\.|eui\.|wwn-0x|scsi-|0x)?3?(?:[0-9a-f]{32}|[2356][0-9a-f]{15})(?![0-9a-z])"),
    (
        "address",
        r"(?<![\w.:])(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{0,4})(?![\w:])|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\w)",
    ),
)
LUN = re.compile(r"-lun-\d+$")
BARE_NAA = re.compile(r"^(?:naa\.|eui\.|wwn-0x|scsi-|0x)?3?(?=[0-9a-f]{16}(?:[0-9a-f]{16})?$)")
WORDS = {"address": "addr"}


class Pseudonyms:
    """The pseudonym of each name, the same in all of the runs it was made for. Numbers follow the order in which names are met, bottom of the chain first."""

    def __init__(self, runs: list[Run]) -> None:
        self.known: dict[tuple[str, str], str] = {}  # (kind, name) -> pseudonym
        self.names: dict[str, str] = {}  # what is replaced wherever it stands -> pseudonym
        self.whole: dict[str, str] = {}  # what is replaced where it is all of a field that names something
        self.counts: dict[str, int] = {}  # kind -> the last number given
        self.texts: dict[str, str] = {}
        self.shapes = re.compile(
            "|".join(f"(?P<p{number}>{pattern})" for number, (_kind, pattern) in enumerate(PATTERNS)), re.IGNORECASE
        )
        self.pattern = self.shapes
        self.met: list[tuple[str, str]] = []
        for run in runs:
            self._meet(run)
        # A pseudonym that somebody's host already has would be taken for that host.
        self.taken = {name for _kind, name in self.met}
        for kind, name in sorted(self.met, key=lambda pair: pair[0] != "domain"):
            self._learn(kind, name)
        inside = sorted(self.names, key=lambda name: (-len(name), name))
        if inside:
            self.pattern = re.compile(
                f"(?<![a-z0-9])(?P<name>{'|'.join(map(re.escape, inside))})(?![a-z0-9])|{self.shapes.pattern}",
                re.IGNORECASE,
            )

    # -- learning

    def _meet(self, run: Run) -> None:
        ordered = sorted(
            run.layers.values(), key=lambda layer: KINDS.index(layer["kind"]) if layer.get("kind") in KINDS else -1
        )
        self._names_in(ordered, "layers")
        for host in run.environments:
            self._add("host", host)
        self._names_in(
            [
                {"testbed_id": run.testbed_id},
                run.results,
                run.installations,
                run.environments,
                run.record,
                run.beats,
                run.networks,
                run.damaged,
            ],
            "",
        )

    def _names_in(self, value: object, key: str) -> None:
        if key in NAMING and _is_name(value):
            self._add(NAMING[key], str(value))
        if isinstance(value, str):
            if "/" in value or "\\" in value or "@" in value:
                for match in self.shapes.finditer(value):
                    if match.lastgroup == "p0":
                        self._add("user", match.group())
                    elif match.lastgroup == "p1":
                        for kind, name in zip(("user", "host"), match.group().split("@")):
                            self._add(kind, name)
        elif isinstance(value, list):
            for part in value:
                self._names_in(part, key)
        elif isinstance(value, dict) and key not in FIXED:
            for name, part in value.items():
                if key == "hosts":
                    self._add("host", name)
                self._names_in(part, str(name))

    def _add(self, kind: str, name: str) -> None:
        pair = (kind, str(name).strip().lower())
        if pair[1] and pair not in self.known:
            self.known[pair] = ""  # numbered by _learn
            self.met.append(pair)
            first, dot, domain = pair[1].partition(".")
            if kind == "host" and dot and not _address(pair[1]):
                self._add("host", first)
                if "." in domain:
                    self._add("domain", domain)

    def _learn(self, kind: str, name: str) -> None:
        if name in self.whole or name in COMMON or (kind == "host" and _address(name)):
            return
        shape = self.shapes.fullmatch(name)
        first, _dot, domain = name.partition(".")
        if kind == "host" and domain in self.whole:
            self._learn("host", first)
            pseudonym = f"{self.whole.get(first, first)}.{self.whole[domain]}"
        elif shape:
            pseudonym = self._shaped(shape)
        else:
            pseudonym = self._number(kind, name)
        self.whole[name] = pseudonym
        if len(name) >= SHORTEST and not name.isdigit():
            self.names[name] = pseudonym

    def _number(self, kind: str, name: str) -> str:
        if not self.known.get((kind, name)):
            word, number = WORDS.get(kind, kind), self.counts.get(kind, 0) + 1
            while f"{word}-{number}" in self.taken:
                number += 1
            self.counts[kind], self.known[kind, name] = number, f"{word}-{number}"
        return self.known[kind, name]

    # -- replacing

    def text(self, text: str) -> str:
        """The text with a pseudonym in the place of every name, address and identifier."""
        if text not in self.texts:
            self.texts[text] = self.pattern.sub(self._shaped, text)
        return self.texts[text]

    def _shaped(self, match: re.Match[str]) -> str:
        text, group = match.group(), match.lastgroup or ""
        if group == "name":
            return self.names[text.lower()]
        kind = PATTERNS[int(group[1:])][0]
        if kind == "account":
            user, _at, host = text.partition("@")
            return f"{self._of('user', user)}@{self.text(host) if _address(host) else self._of('host', host)}"
        if kind == "user":
            return self._of("user", text)
        if kind == "address":
            return self._number(kind, str(_address(text))) if _identifies(_address(text)) else text
        lun = LUN.search(text) if kind == "iqn" else None
        name = (text[: lun.start()] if lun else text).lower()
        return self._number(kind, BARE_NAA.sub("", name) if kind == "naa" else name) + (lun.group() if lun else "")

    def _of(self, kind: str, name: str) -> str:
        lower = name.lower()
        return name if lower in COMMON else self.whole.get(lower) or self._number(kind, lower)

    def value(self, value: Any, key: str = "") -> Any:
        """The same of anything that JSON can hold; histograms and the words of the schema stay the very objects that they are."""
        if key in NAMING and _is_name(value) and str(value).strip().lower() in self.whole:
            return self.whole[str(value).strip().lower()]
        if isinstance(value, str):
            return value if key in FIXED else self.text(value)
        if isinstance(value, list):
            return [self.value(part, key) for part in value]
        if isinstance(value, dict) and key not in FIXED:
            return {self._key(name, key): self.value(part, str(name)) for name, part in value.items()}
        return value

    def _key(self, name: str, of: str) -> str:
        if of in KEYED_BY_NAMES:
            return self.whole.get(name.lower()) or self.text(name)
        # A word of the schema may have a name for a part of it, but it is never a name as a whole.
        return self.names.get(name.lower(), name) if re.fullmatch(r"[a-z][a-z0-9_]*", name) else self.text(name)

    def run(self, run: Run) -> Run:
        """The run under its pseudonyms. Its folder stays, and each result's ``files``, so that samples can still be read; see unlinked."""
        return replace(
            run,
            testbed_id=self.value(run.testbed_id, "testbed_id"),
            run_id=self.text(run.run_id),
            layers=self.value(run.layers, "layers"),
            environments=self.value(run.environments, "hosts"),
            results=[self.value(result) for result in run.results],
            record=self.value(run.record),
            installations=[self.value(timed) for timed in run.installations],
            beats=[self.value(beat) for beat in run.beats],
            networks=[self.value(line) for line in run.networks],
            damaged=self.value(run.damaged),
        )

    def unlinked(self, report: Report) -> Report:
        """The report without the way to the raw files, in which everything has its real name; their checksums stay."""
        for point in (*report.points, *report.installations):
            point["files"] = {
                kind: {**file, "path": None, "name": self.text(file["name"])} for kind, file in point["files"].items()
            }
        note = (
            "Hosts, users, addresses and serial numbers have pseudonyms here. The raw files contain the real ones, so they are not linked; the owner of the "
            "results finds them by their checksums."
        )
        report.flags.append({"level": "note", "text": note})
        return report


def _is_name(value: object) -> bool:
    """A serial number may be a number."""
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _identifies(address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """Whether it is an address at all, and not one that every machine has."""
    return address is not None and not (address.is_loopback or address.is_unspecified)
