# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replaces in a text everything that identifies a lab, so that the form of the text stays: lengths, prefixes, kinds of characters, upper and lower case.

Replacements are derived from the original and a key (HMAC-SHA-256), so hosts that share the key give one thing the same replacement without knowing each other;
without the key nothing leads back. Names (hosts, users, machines, datastores) and serial numbers are replaced where they are known to be some; addresses and
identifiers are known by their form: IQN by RFC 3720, NAA and EUI by RFC 3980, UUID by RFC 4122 and as VMFS writes it, MAC with the vendor's part kept.

A report for others (plugin_utils/report/scrub.py) replaces otherwise: there people read the names, so they are numbered words and no longer of the form.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import string
from collections.abc import Iterable, Iterator

# Arguments of the modules that record.
SPEC = {
    "key": {"type": "str", "required": True, "no_log": True},
    "names": {"type": "list", "elements": "str", "default": []},
}
# Naming authorities that an IQN keeps: they say which product made the target.
AUTHORITIES = (
    "com.vmware",
    "com.microsoft",
    "com.synology",
    "com.qnap",
    "com.netapp",
    "com.purestorage",
    "com.dell",
    "com.emc",
    "com.hp",
    "com.hpe",
    "com.ibm",
    "com.redhat",
    "com.equallogic",
    "org.debian",
    "org.freenas.ctl",
    "org.linux-iscsi",
    "com.storlab",
)
# A name shorter than this would be found inside of other words.
SHORTEST = 3
# Names that everybody has.
COMMON = {
    "root",
    "admin",
    "administrator",
    "localhost",
    "localdomain",
    "none",
    "default",
    "unknown",
    "host",
    "vpxuser",
    "dcui",
    "vm network",
    "management network",
}
# The last part of a host's name with its domain; what else ends so, such as a file or a module of the kernel, has none of these.
_ENDS = (
    "com|net|org|edu|gov|info|io|dev|local|localnet|lan|lab|corp|intra|internal|intranet|home|arpa"
    "|at|au|br|ca|ch|cn|cz|de|dk|eu|fi|fr|jp|nl|pl|ru|se|uk|us"
)
# Domains that belong to no lab.
_PUBLIC = (
    "w3.org",
    "xmlsoap.org",
    "vmware.com",
    "microsoft.com",
    "debian.org",
    "ubuntu.com",
    "redhat.com",
    "kernel.org",
)
_HEX = "[0-9a-fA-F]"
_FORMS = (
    ("iqn", r"\b[iI][qQ][nN]\.\d{4}-\d{1,2}\.[A-Za-z0-9.:_-]*[A-Za-z0-9]"),
    ("licence", r"\b(?:[0-9A-Z]{5}-){4}[0-9A-Z]{5}\b"),
    ("t10", r"\bt10\.[^\s/\"'<>,;]+"),
    (
        "uuid",
        rf"(?<![0-9a-zA-Z]){_HEX}{{8}}-(?:{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}|{_HEX}{{8}}-{_HEX}{{4}})-{_HEX}{{12}}(?![0-9a-zA-Z])",
    ),
    # UUID of a virtual machine: sixteen bytes with blanks and one dash.
    ("bytes", rf"\b(?:{_HEX}{{2}} ){{7}}{_HEX}{{2}}-(?:{_HEX}{{2}} ){{7}}{_HEX}{{2}}\b"),
    ("mac", rf"(?<![0-9a-zA-Z:]){_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5}}(?![0-9a-zA-Z:])"),
    (
        "naa",
        rf"(?<=naa\.){_HEX}{{16,32}}|(?<=eui\.){_HEX}{{16,32}}|(?<=wwn-0x){_HEX}{{16,32}}|(?<=0x)[2356]{_HEX}{{15}}(?:{_HEX}{{16}})?(?!{_HEX})",
    ),
    # The names of SCSI disks in VMware's API, in /dev/disk/by-id and of multipath: a type and an identifier without separator.
    ("long", rf"(?<![0-9a-zA-Z]){_HEX}{{28,}}(?![0-9a-zA-Z])"),
    ("address", r"(?<![\w.:-])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)"),
    ("address6", r"(?<![\w.:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:.])"),
    ("domain", rf"(?<![\w.@-])(?:[A-Za-z0-9_-]+\.)+(?:{_ENDS})(?![\w.-]|\()"),
    ("mail", r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\b"),
)
# The texts of these elements and keys look like addresses and are none.
_VERSIONS = re.compile(r"(?:[vV]ersion|VersionId|apiVersion|patchLevel|build)\W{1,4}$")
KEPT_HEX = {"naa": 7, "mac": 6, "long": 0, "uuid": 0, "bytes": 0}


class Pseudonyms:
    """names: what is replaced wherever it stands as a word; whole texts, case does not count. key: any secret bytes of the recording."""

    def __init__(self, key: bytes, names: Iterable[str] = ()) -> None:
        self.key = key
        self.replaced: dict[str, str] = {}
        words = {name.strip() for name in names}
        parts = {part for name in words for part in (name, name.partition(".")[0]) if not _address(name)}
        known = {part for part in parts if len(part) >= SHORTEST and part.lower() not in COMMON and not part.isdigit()}
        alternatives = "|".join(re.escape(name) for name in sorted(known, key=lambda name: (-len(name), name)))
        forms = "|".join(f"(?P<{name}>{pattern})" for name, pattern in _FORMS)
        named = f"(?P<name>(?<![A-Za-z0-9])(?i:{alternatives})(?![A-Za-z0-9]))|" if alternatives else ""
        self.pattern = re.compile(named + forms)

    def text(self, text: str) -> str:
        return self.pattern.sub(lambda match: self._of(match), text)

    def digits(self, text: str) -> str:
        """Another NAA or EUI identifier, as the hexadecimal digits alone."""
        return self._hex(text, KEPT_HEX["naa"])

    def like(self, text: str) -> str:
        """Another text of the same form, for a serial number or a name."""
        digest = self._digits(text)
        return "".join(_other(letter, next(digest)) for letter in text)

    def _of(self, match: re.Match[str]) -> str:
        text, form = match.group(), match.lastgroup or ""
        if form in ("address", "address6"):
            if _VERSIONS.search(match.string[max(0, match.start() - 24) : match.start()]) or not _identifies(text):
                return text
            new = self._address(text) if form == "address" else self._address6(text)
        elif form == "domain":
            if text.lower().endswith(_PUBLIC):
                return text
            new = f"{self.like(text.partition('.')[0])}.example"
        elif form == "iqn":
            new = self._iqn(text)
        elif form == "licence":
            new = "00000-00000-00000-00000-00000"
        elif form == "mail":
            new = f"{self.like(text.partition('@')[0])}@example.com"
        elif form in KEPT_HEX:
            new = self._hex(text, KEPT_HEX[form])
        else:
            new = self.like(text) if form == "name" else text[:4] + self.like(text[4:])
        self.replaced[text] = new
        return new

    def _digits(self, text: str) -> Iterator[int]:
        """Endless numbers from 0 to 255, the same for texts that differ in case only."""
        count = 0
        while True:
            yield from hmac.new(self.key, f"{count} {text.lower()}".encode(), hashlib.sha256).digest()
            count += 1

    def _hex(self, text: str, kept: int) -> str:
        """Hexadecimal digits replaced but for the first ones, everything else as it is."""
        plain = re.sub(f"(?!{_HEX}).", "", text)
        digest, seen, new = self._digits(plain), 0, ""
        for letter in text:
            if letter not in string.hexdigits:
                new += letter
                continue
            seen += 1
            other = "0123456789abcdef"[next(digest) % 16]
            new += letter if seen <= kept else other.upper() if letter in "ABCDEF" else other
        return new

    def _iqn(self, text: str) -> str:
        authority, colon, own = text.partition(":")
        kind, _dot, name = authority.partition(".")
        month, _dot, domain = name.partition(".")
        if not any(domain.lower() == known or domain.lower().startswith(f"{known}.") for known in AUTHORITIES):
            domain = "com.example"
        return f"{kind}.{month}.{domain}{colon}{self.like(own)}"

    def _address(self, text: str) -> str:
        """One of 198.18.0.0/15, which is for benchmarks of networks (RFC 2544)."""
        digest = self._digits(text)
        return f"198.{18 + next(digest) % 2}.{next(digest)}.{1 + next(digest) % 254}"

    def _address6(self, text: str) -> str:
        """One of 2001:db8::/32, which is for documentation (RFC 3849)."""
        digest = self._digits(str(ipaddress.ip_address(text)))
        return f"2001:db8::{next(digest):x}{next(digest):02x}:{next(digest):x}{next(digest):02x}"


def _other(letter: str, number: int) -> str:
    for letters in (string.digits, string.ascii_lowercase, string.ascii_uppercase):
        if letter in letters:
            return letters[number % len(letters)]
    return letter


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _identifies(text: str) -> bool:
    """Not a network mask, and not an address that every machine has."""
    address = _address(text)
    if address is None or address.is_loopback or address.is_unspecified or address.is_multicast:
        return False
    return not text.startswith(("255.", "fe80::", "169.254.169.254"))
