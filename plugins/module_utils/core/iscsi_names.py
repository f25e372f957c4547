# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iSCSI names and identities: pure functions of the testbed and the LUN, so that a rebuild gives the same ones.

Serial, SCSI id and NAA identifier of a LUN are functions of its contents' generation, too. Hosts take what comes back under the same identifier for the same
disk with the same contents, and go on with what they remember of it; so new contents have a different one. The generation of a disk that the testbed did not
make is None.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .failure import bad_value

# Drawn once for this collection; changing it would change every identity ever derived.
NAMESPACE = uuid.UUID("6f1d3b0e-52a4-5c1e-9a57-73746f726c61")
LIO_COMPANY_ID = "001405"
# The properties that identify an initiator; all but the first by Windows targets only.
INITIATOR_KEYS = ("iqn", "address", "dns_name", "mac_address")


def unit_serial(testbed_id: str, lun_name: str, generation: str | None = None) -> str:
    """The T10 unit serial (VPD page 0x80) of a LUN: 32 hexadecimal digits."""
    return uuid.uuid5(NAMESPACE, "/".join([testbed_id, "lun", lun_name, *([generation] if generation else [])])).hex


def filesystem_uuid(testbed_id: str, name: str) -> str:
    return str(uuid.uuid5(NAMESPACE, f"{testbed_id}/datastore/{name}"))


def lio_naa(serial: str) -> str:
    """The NAA identifier LIO derives from a unit serial: type 6, the company, then the serial's first 25 hexadecimal digits."""
    digits = re.sub(r"[^0-9a-f]", "", serial.lower())
    return "6" + LIO_COMPANY_ID + digits[:25].ljust(25, "0")


def scsi_id(testbed_id: str, lun_name: str, generation: str | None = None) -> str:
    """The SCSI id tgt puts into VPD page 0x83: unique in a lab, at most 36 characters."""
    name = "/".join([testbed_id, lun_name, *([generation] if generation else [])])
    return "storlab-" + hashlib.sha256(name.encode()).hexdigest()[:24]


LONGEST_NAME = 223
BY_NUMBER = r"eui\.[0-9A-Fa-f]{16}|naa\.([0-9A-Fa-f]{16}|[0-9A-Fa-f]{32})"


def check_iqn(variable: str, name: str) -> str:
    """A name that is made here: one that every initiator and target takes (lower case, because some compare byte by byte)."""
    good = re.fullmatch(
        r"iqn\.\d{4}-(0[1-9]|1[0-2])\.[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[a-z0-9][a-z0-9.:-]*)?|" + BY_NUMBER,
        name or "",
    )
    if not good or len(name) > LONGEST_NAME:
        raise bad_value(
            variable,
            name,
            f"Use an iSCSI name such as iqn.2026-01.example.lab:bench (lower case, at most {LONGEST_NAME} characters).",
        )
    return name


def check_known_iqn(variable: str, name: str) -> str:
    """A name that somebody else made, as it is: real ones have capitals, a month of one digit, or a dash after the date."""
    good = re.fullmatch(r"[Ii][Qq][Nn]\.\d{4}-\d{1,2}[.-][A-Za-z0-9][A-Za-z0-9._:-]*|" + BY_NUMBER, name or "")
    if not good or len(name) > LONGEST_NAME:
        raise bad_value(
            variable,
            name,
            f"Give the iSCSI name that it has, such as iqn.2000-01.com.example:Array.Target-1 (at most {LONGEST_NAME} characters).",
        )
    return name


def iqn_key(name: str | None) -> str:
    """A name for comparing: two that differ by case only are one name (RFC 3722), however each side writes it."""
    return (name or "").lower()


def same_iqn(name: str | None, other: str | None) -> bool:
    return iqn_key(name) == iqn_key(other)


def spelled(name: str, known: Iterable[str]) -> str:
    """The name as one of those who know it writes it; as it is when none does. Tools look names up byte by byte."""
    return next((other for other in known if same_iqn(other, name)), name)


def initiator_key(variable: str, initiator: Mapping[str, object]) -> str:
    """The one of INITIATOR_KEYS that is given."""
    given = [key for key in INITIATOR_KEYS if initiator.get(key)]
    if len(given) != 1:
        raise bad_value(
            variable,
            {key: initiator[key] for key in given},
            f"Give exactly one of {', '.join(INITIATOR_KEYS)} for each.",
        )
    return given[0]


def portal_address(variable: str, address: str, allow_any: bool = False) -> str:
    """A literal address of one interface; the wildcard addresses only when asked for."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        raise bad_value(variable, address, "Use the IP address of one interface of the target host.") from None
    if parsed.is_unspecified and not allow_any:
        raise bad_value(
            variable,
            address,
            "Name the address of one interface; to listen on every address set iscsi_target_allow_any_address to true.",
        )
    return str(parsed)


def portal_text(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def check_chap(variable: str, entry: Mapping[str, Any], allow_none: bool) -> None:
    """CHAP must be complete, long enough for every initiator, and mutual CHAP must use another secret (RFC 7143)."""

    def given(key: str) -> bool:
        return bool(entry.get(key))

    for user, password in (("chap_user", "chap_password"), ("mutual_chap_user", "mutual_chap_password")):
        if given(user) != given(password):
            missing = password if given(user) else user
            raise bad_value(f"{variable} {missing}", "", f"Give both {user} and {password}, or neither.")
        if given(password) and not 12 <= len(entry[password]) <= 255:
            raise bad_value(
                f"{variable} {password}",
                f"{len(entry[password])} characters long",
                "Use a secret of 12 to 255 characters; many initiators take at most 16.",
            )
        if given(password) and re.search(r"[\s\x00-\x1f\x7f]", entry[password]):
            raise bad_value(
                f"{variable} {password}",
                "a text with blanks or control characters",
                "Use printable characters without blanks.",
            )
    if given("mutual_chap_user") and not given("chap_user"):
        raise bad_value(
            f"{variable} chap_user", "", "Mutual CHAP needs one-way CHAP too: give chap_user and chap_password."
        )
    if given("chap_password") and entry["chap_password"] == entry.get("mutual_chap_password"):
        raise bad_value(
            f"{variable} mutual_chap_password",
            "the same as chap_password",
            "Use another secret: iSCSI forbids the same secret in both directions.",
        )
    if not given("chap_user") and not allow_none:
        raise bad_value(
            f"{variable} chap_user",
            "",
            "Give chap_user and chap_password; to do without authentication set iscsi_target_allow_no_chap to true.",
        )
