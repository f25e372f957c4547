# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All stages of the chain, in the order in which they derive and a build runs them. A new stage adds its file to this folder and its line to the list."""

from __future__ import annotations

from ..stage import Stage
from .benchmark import Benchmark
from .cache_tier import CacheTier
from .datastore import Datastore
from .embedded_lab import EmbeddedLab
from .esxi_network import EsxiNetwork
from .existing_storage import ExistingStorage
from .guest_vm import GuestVm
from .iscsi_initiator import IscsiInitiator
from .iscsi_target import IscsiTarget
from .nfs_export import NfsExport
from .raid import Raid
from .ramdisk import Ramdisk

STAGES: list[Stage] = [
    Ramdisk(),
    Raid(),
    CacheTier(),
    IscsiTarget(),
    EsxiNetwork(),
    IscsiInitiator(),
    Datastore(),
    NfsExport(),
    GuestVm(),
    ExistingStorage(),
    Benchmark(),
    EmbeddedLab(),
]
