# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a workload, written by ``python tests/tools/write_workload.py`` from ``module_utils/workload/words.py``; do not edit."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  workload:
    description:
      - What I/O is issued. Any value may be a list; lists are multiplied out, so each option is of any type here, and is checked by its meaning.
      - C(docs/workloads.md) has examples, and what each engine cannot do.
    type: dict
    suboptions:
      block_size:
        description:
          - >-
            Size of one I/O: C(4k); a range C(4k-64k), the multiples of its smallest, all equally likely; a mix C({4k: 60, 64k: 40}) in percent of the
            I/Os; or C({read: …, write: …}) with one of size and mix each. Any length when C(direct) is false, else multiples of 512 bytes. Stored as
            C(block_size_bytes), C(block_size_range: {min_bytes, max_bytes}) or C(block_sizes: {read: [{size_bytes, percent}], write: […]}).
          - >-
            By default C(4k).
        type: raw
      read_percent:
        description:
          - >-
            Share of reads.
          - >-
            By default 100.
        type: raw
      random_percent:
        description:
          - >-
            Share of random offsets.
          - >-
            By default 100.
        type: raw
      queue_depth:
        description:
          - >-
            I/O in flight, per worker.
          - >-
            By default 1.
        type: raw
      workers:
        description:
          - >-
            Threads issuing I/O.
          - >-
            By default 1.
        type: raw
      ramp_s:
        description:
          - >-
            Unmeasured time before.
          - >-
            By default 2; 0 with C(loops) or C(io_bytes).
        type: raw
      runtime_s:
        description:
          - >-
            Measured time; with C(loops) or C(io_bytes) the longest it may take.
          - >-
            By default 10; 3600 with C(loops) or C(io_bytes).
        type: raw
      alignment:
        description:
          - >-
            Offsets are multiples of it (stored as C(alignment_bytes)).
          - >-
            By default what all sizes are a multiple of.
        type: raw
      direct:
        description:
          - >-
            Bypass the page cache.
          - >-
            By default true.
        type: raw
      range:
        description:
          - >-
            C({offset_bytes, size_bytes}); C(size_bytes: null) means up to the end of the layer.
          - >-
            By default the whole layer.
        type: raw
      distribution:
        description:
          - >-
            Hot spots among random offsets: C(zipf:1.2), C(pareto:0.2), or C({zoned: [{access_percent: 95, space_percent: 5}, …]}) of zones in order.
        type: raw
      think_time_us:
        description:
          - >-
            A worker pauses so long after each burst.
        type: raw
      burst:
        description:
          - >-
            So many I/Os are between two pauses; 1 where only C(think_time_us) is given.
        type: raw
      rate_iops:
        description:
          - >-
            Upper limit of I/Os per second, of all workers and both directions together.
        type: raw
      rate_bytes_s:
        description:
          - >-
            The same as bytes per second; give one of the two.
        type: raw
      rate_process:
        description:
          - >-
            C(linear) (evenly spaced) or C(poisson) (arriving by chance).
        type: raw
      data:
        description:
          - >-
            What is written: C(pattern) C(random) (incompressible, the default), C(zero), or C(repeat) with C(hex: "deadbeef"); C(compress_percent),
            C(dedupe_percent); C(refill: true) generates new data for each block. A layer is filled with the data of the first workload that is measured
            on it.
        type: raw
      sync:
        description:
          - >-
            When writes must last: C(mode) C(sync) (O_SYNC) or C(dsync) (O_DSYNC); C(fsync_every), C(fdatasync_every) so many writes; C(end_fsync:
            true).
        type: raw
      loops:
        description:
          - >-
            So many passes over the range instead of a time.
        type: raw
      io_bytes:
        description:
          - >-
            An amount, of all workers together, instead of a time.
        type: raw
      verify:
        description:
          - >-
            C(crc32c), C(md5), C(sha256) or C(xxhash): an amount (C(loops), C(io_bytes)) is written with checksums, then read back and compared. A
            difference makes the point fail. Figures are of the writing alone.
        type: raw
      on_error:
        description:
          - >-
            C(continue): an I/O that fails is counted in C(errors), and the workload goes on. Without it the first such I/O ends the workload, and the
            point fails.
        type: raw
      engine_options:
        description:
          - >-
            C({fio: {option: value}}), options of an engine that are passed on.
        type: raw
"""
