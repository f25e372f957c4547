# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads drawn at random from values of every optional feature."""

from __future__ import annotations

import random

# Values of every optional feature, in all the ways of writing them.
FEATURES = {
    "block_size": [
        {"4k": 60, "64k": 40},
        {"read": "8k", "write": {"512": 10, "4k": 90}},
        "4k-64k",
        {"4k": 100},
        "16k-16k",
    ],
    "distribution": [
        "zipf:1.10",
        "pareto:0.2",
        {"zoned": [{"access_percent": 90, "space_percent": 10}, {"access_percent": 10, "space_percent": 90}]},
    ],
    "think_time_us": [250],
    "burst": [7],
    "rate_iops": [5000],
    "rate_bytes_s": ["20m"],
    "rate_process": ["poisson", "linear"],
    "data": [
        {"pattern": "zero"},
        {"pattern": "repeat", "hex": "DEADbeef"},
        {"compress_percent": 30},
        {"dedupe_percent": 45, "compress_percent": 0},
        {"pattern": "random"},
        {"refill": True},
    ],
    "sync": [{"mode": "dsync"}, {"fsync_every": 3}, {"fdatasync_every": 5, "end_fsync": True}, {"mode": "none"}],
    "loops": [3],
    "io_bytes": ["900m"],
    "verify": ["crc32c", "sha256"],
    "on_error": ["continue"],
    "engine_options": [
        {"fio": {"ioengine": "io_uring", "hipri": True}},
        {"fio": {"nice": -5}, "diskspd": {"Z": "10m"}},
        {},
    ],
    "read_percent": [0, 65, 100],
    "random_percent": [0, 40],
    "queue_depth": [16],
    "workers": [3],
    "ramp_s": [0, 5],
    "runtime_s": [61],
    "alignment": ["512"],
    "direct": [False],
    "range": [{"offset_bytes": "1m"}],
}


def random_workload(generator: random.Random) -> dict:
    return {key: generator.choice(FEATURES[key]) for key in generator.sample(sorted(FEATURES), generator.randint(1, 9))}
