# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe names and identities: pure functions of the iSCSI names and of the LUN, so that a rebuild gives the same ones.

A testbed has one name for each target and initiator, whatever the protocol. An NVMe name (NQN) is the iSCSI name with nqn in the place of iqn: both have a
date, the owner's domain and a text of his (NVM Express Base Specification, NVMe Qualified Names).
"""

from __future__ import annotations

import base64
import hashlib
import uuid
import zlib

from .failure import bad_value
from .iscsi_names import NAMESPACE, unit_serial

DEFAULT_PORT = 4420
# A namespace has a number from 1 on.
FIRST_NAMESPACE = 1
SERIAL_LETTERS = 20


def nqn_of(iqn: str) -> str:
    """The NVMe name of a target or initiator; raises bad_value for a name of another kind, such as eui.…"""
    if iqn[:4].lower() != "iqn.":
        raise bad_value("name of an NVMe host or subsystem", iqn, "Use a name that begins with iqn.")
    return f"nqn.{iqn[4:]}"


def iqn_of(nqn: str) -> str:
    return f"iqn.{nqn[4:]}" if nqn.startswith("nqn.") else nqn


def host_id(host_nqn: str) -> str:
    """The host identifier that belongs to a host's name; the kernel refuses one identifier for two names."""
    return str(uuid.uuid5(NAMESPACE, f"nvme-host/{host_nqn}"))


def namespace_uuid(testbed_id: str, lun_name: str, generation: str | None = None) -> str:
    """The UUID of a namespace. It changes with the generation of the contents, as the serial of a LUN does."""
    return str(uuid.UUID(unit_serial(testbed_id, lun_name, generation)))


def subsystem_serial(nqn: str) -> str:
    return uuid.uuid5(NAMESPACE, f"nvme-subsystem/{nqn}").hex[:SERIAL_LETTERS]


def dhchap_key(password: str, nqn: str) -> str:
    """A key of DH-HMAC-CHAP for one host, as the kernel takes it: 32 bytes and their checksum, without a transformation.

    It is made of the password and the name, so the key of one host does not let another host in.
    """
    key = hashlib.sha256(f"{nqn}\0{password}".encode()).digest()
    return f"DHHC-1:00:{base64.b64encode(key + zlib.crc32(key).to_bytes(4, 'little')).decode()}:"
