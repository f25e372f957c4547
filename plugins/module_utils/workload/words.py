# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a workload, in one table: how each is checked, documented, stored, filtered, searched over and shown, and which engines have it.

``python tests/tools/write_workload.py`` writes the documentation from it. A function of workload.py checks each word of kind ``own``.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

# The engines that express a word. fio has all; one that only ever runs some says so in its own file.
ALL = ("fio", "diskspd", "iometer")
NOT_IOMETER = ("fio", "diskspd")


class Word(NamedTuple):
    name: str  # as users write it
    meaning: str  # with the markup of Ansible's documentation
    kind: Literal["integer", "size", "choice", "own"]
    engines: tuple[str, ...]
    usual: int | None = None  # of what every workload holds as an integer
    of_amount: int | None = None  # the same where an amount ends the workload
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    default: str = ""  # as the documentation says it, where it is more than ``usual``
    stored: tuple[
        tuple[str, tuple[str, ...]], ...
    ] = ()  # (name in a normalised workload, the engines that have this form), where it is another name
    optional: bool = False  # whether a normalised workload holds it only where it is used
    column: str = ""  # its kind in tables of points, which have a column for it
    indexed: bool = False  # whether the index of points has it, so that results can be grouped and filtered by it
    load: str = ""  # how a load of so much is called: of what a search may vary and a report draws as a load


WORDS = (
    Word(
        "block_size",
        "size of one I/O: C(4k); a range C(4k-64k), the multiples of its smallest, all equally likely; a mix C({4k: 60, 64k: 40}) in percent of the I/Os; "
        "or C({read: …, write: …}) with one of size and mix each. Any length when C(direct) is false, else multiples of 512 bytes. Stored as "
        "C(block_size_bytes), C(block_size_range: {min_bytes, max_bytes}) or C(block_sizes: {read: [{size_bytes, percent}], write: […]})",
        "own",
        ALL,
        default="C(4k)",
        stored=(("block_size_bytes", ALL), ("block_sizes", ("fio", "iometer")), ("block_size_range", ("fio",))),
        column="int",
        indexed=True,
    ),
    Word("read_percent", "share of reads", "integer", ALL, usual=100, high=100, column="float", indexed=True),
    Word(
        "random_percent", "share of random offsets", "integer", ALL, usual=100, high=100, column="float", indexed=True
    ),
    Word(
        "queue_depth",
        "I/O in flight, per worker",
        "integer",
        ALL,
        usual=1,
        low=1,
        high=65536,
        column="int",
        indexed=True,
        load="queue depth {}",
    ),
    Word(
        "workers",
        "threads issuing I/O",
        "integer",
        ALL,
        usual=1,
        low=1,
        high=4096,
        column="int",
        indexed=True,
        load="{} workers",
    ),
    Word("ramp_s", "unmeasured time before", "integer", ALL, usual=2, of_amount=0, high=86400),
    Word(
        "runtime_s",
        "measured time; with C(loops) or C(io_bytes) the longest it may take",
        "integer",
        ALL,
        usual=10,
        of_amount=3600,
        low=1,
        high=7 * 86400,
    ),
    Word(
        "alignment",
        "offsets are multiples of it (stored as C(alignment_bytes))",
        "own",
        ALL,
        default="what all sizes are a multiple of",
        stored=(("alignment_bytes", ALL),),
    ),
    Word("direct", "bypass the page cache", "own", ALL, default="true", column="bool"),
    Word(
        "range",
        "C({offset_bytes, size_bytes}); C(size_bytes: null) means up to the end of the layer",
        "own",
        ALL,
        default="the whole layer",
    ),
    Word(
        "distribution",
        "hot spots among random offsets: C(zipf:1.2), C(pareto:0.2), or C({zoned: [{access_percent: 95, space_percent: 5}, …]}) of zones in order",
        "own",
        NOT_IOMETER,
        optional=True,
    ),
    Word(
        "think_time_us",
        "a worker pauses so long after each burst",
        "integer",
        ALL,
        low=1,
        high=3_600_000_000,
        optional=True,
    ),
    Word(
        "burst",
        "so many I/Os are between two pauses; 1 where only C(think_time_us) is given",
        "integer",
        ALL,
        low=1,
        high=1_000_000,
        optional=True,
    ),
    Word(
        "rate_iops",
        "upper limit of I/Os per second, of all workers and both directions together",
        "integer",
        NOT_IOMETER,
        low=1,
        high=1_000_000_000,
        optional=True,
        load="{} IOPS requested",
    ),
    Word(
        "rate_bytes_s",
        "the same as bytes per second; give one of the two",
        "size",
        NOT_IOMETER,
        low=1,
        high=1 << 50,
        optional=True,
    ),
    Word(
        "rate_process",
        "C(linear) (evenly spaced) or C(poisson) (arriving by chance)",
        "choice",
        NOT_IOMETER,
        choices=("linear", "poisson"),
        optional=True,
    ),
    Word(
        "data",
        'what is written: C(pattern) C(random) (incompressible, the default), C(zero), or C(repeat) with C(hex: "deadbeef"); C(compress_percent), '
        "C(dedupe_percent); C(refill: true) generates new data for each block. A layer is filled with the data of the first workload that is measured on it",
        "own",
        NOT_IOMETER,
        optional=True,
    ),
    Word(
        "sync",
        "when writes must last: C(mode) C(sync) (O_SYNC) or C(dsync) (O_DSYNC); C(fsync_every), C(fdatasync_every) so many writes; C(end_fsync: true)",
        "own",
        NOT_IOMETER,
        optional=True,
    ),
    Word(
        "loops",
        "so many passes over the range instead of a time",
        "integer",
        ("fio",),
        low=1,
        high=1_000_000,
        optional=True,
    ),
    Word(
        "io_bytes",
        "an amount, of all workers together, instead of a time",
        "size",
        ("fio",),
        low=1,
        high=1 << 50,
        optional=True,
    ),
    # Enough to find damage of any length, the usual strong ones, and a fast one.
    Word(
        "verify",
        "C(crc32c), C(md5), C(sha256) or C(xxhash): an amount (C(loops), C(io_bytes)) is written with checksums, then read back and compared. A difference "
        "makes the point fail. Figures are of the writing alone",
        "choice",
        ("fio",),
        choices=("crc32c", "md5", "sha256", "xxhash"),
        optional=True,
    ),
    Word(
        "on_error",
        "C(continue): an I/O that fails is counted in C(errors), and the workload goes on. Without it the first such I/O ends the workload, and the point "
        "fails",
        "choice",
        ("fio",),
        choices=("continue",),
        optional=True,
    ),
    Word(
        "engine_options",
        "C({fio: {option: value}}), options of an engine that are passed on",
        "own",
        ("fio",),
        optional=True,
    ),
)
OF = {word.name: word for word in WORDS}


def stored_names(word: Word) -> tuple[str, ...]:
    """Its names in a normalised workload, the usual one first."""
    return tuple(name for name, _engines in word.stored) or (word.name,)


def expressed_by(engine: str) -> tuple[str, ...]:
    """The names of a normalised workload that an engine has a way to say; it refuses all others, so a new word is never left out silently."""
    names: list[str] = []
    for word in WORDS:
        forms = word.stored or ((word.name, word.engines),)
        names += [name for name, engines in forms if engine in engines]
    return tuple(names)


def indexed() -> tuple[str, ...]:
    """The names in a normalised workload of what the index of points has."""
    return tuple(stored_names(word)[0] for word in WORDS if word.indexed)


def columns() -> list[tuple[str, str]]:
    """(name in a normalised workload, kind) of each that tables of points have a column for."""
    return [(stored_names(word)[0], word.column) for word in WORDS if word.column]


def loads() -> dict[str, str]:
    """{name: how so much of it is called} of what loads a layer more or less."""
    return {word.name: word.load for word in WORDS if word.load}
