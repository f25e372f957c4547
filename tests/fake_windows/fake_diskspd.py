# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""diskspd on the stand-in: takes a command line as diskspd's own help describes it, and prints the XML of diskspd 2.2, figures made up.

Order, names, words and exit codes are those of diskspd 2.2 itself (tests/unit/fixtures/diskspd/real_*). In its XML, -Zr looks like no -Z at all,
and names stand as they are, which "<unknown>" and "&" make no XML.
"""

from __future__ import annotations

import re
import time

import fake_figures as figures
from fake_program import STDERR, STDOUT, Outcome, Started, said
from refused import Refused

CPUS = 8
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
NOT_FOUND, ACCESS_DENIED, IO_DEVICE = 2, 5, 1117
FAILED, PARSE_CMD_LINE = 1, 3


class _Bad(Exception):
    """What diskspd says of its command line."""


def run(started: Started) -> Outcome:
    try:
        asked = parse(started.arguments)
    except _Bad as bad:
        return said(f"{bad}\n", PARSE_CMD_LINE)
    if asked["format"] != "xml":
        return said("the stand-in's diskspd prints XML only\n")
    path, file_size, raw = asked["target"], None, asked["target"].startswith("#")
    try:
        file_size = (
            started.host.raw_disk(int(path[1:]), asked["writes"] > 0)["size_bytes"]
            if raw
            else started.host.file_size(path)
        )
        failed = 0 if file_size is not None else NOT_FOUND
    except Refused as refused:
        failed = ACCESS_DENIED if "denied" in str(refused) else NOT_FOUND
    if failed:
        return _broken(started, asked, 0.0, f"Error opening file: {path} [{failed}]\n" * asked["threads"])
    end = min(file_size, asked["end"] or file_size)
    small = [
        number for number in range(asked["threads"]) if asked["base"] + number * asked["stride"] + asked["block"] > end
    ]
    if small:
        return _broken(
            started,
            asked,
            0.0,
            "".join(
                f"The file is too small. File: '{path}' relative thread {number}: file size: {file_size}, base offset: {asked['base']}, thread stride: "
                f"{asked['stride']}, block size: {asked['block']}\n"
                for number in small
            ),
        )
    seconds = asked["warmup"] + asked["seconds"] + asked["cooldown"]
    if started.fault == "io_errors":
        # Its threads end at once, and it waits for the time to be over.
        return _broken(
            started,
            asked,
            seconds,
            f"t[0] error during {'write' if asked['writes'] == 100 else 'read'} error code: {IO_DEVICE})\n",
        )
    # Per thread. It limits bytes per millisecond, which it computes with 32 bits, and then pays no heed to pauses.
    limit = asked["rate_iops"] * asked["block"] % (1 << 32) // 1000 or asked["rate_bytes_ms"]
    most = limit * 1000 / asked["block"] or (
        1000 / asked["think_ms"] * max(1, asked["burst"] // asked["threads"]) if asked["think_ms"] else None
    )
    found = figures.measured(
        " ".join([started.host.name, *started.arguments]),
        asked["seconds"],
        dict.fromkeys(("read", "write"), asked["block"]),
        100 - asked["writes"],
        asked["requests"] * asked["threads"],
        most and most * asked["threads"],
    )
    for one in found.values():
        # It measures in microseconds.
        one["values"] = figures.both(*({max(1, round(value / 1000)): count} for value, count in one["values"].items()))
    place = f"\\\\.\\PhysicalDrive{path[1:]}" if raw else started.host.written_to(path)
    text = _xml(started, asked, _time_span(asked, found, file_size))
    return Outcome(
        seconds, 0, [(seconds, STDOUT, text)], {place: figures.written(found)} if figures.written(found) else {}
    )


def _broken(started: Started, asked: dict, seconds: float, words: str) -> Outcome:
    """It prints a document all the same."""
    words += "There has been an error during threads execution\n\nError generating I/O requests\n"
    nothing = _element(
        "TimeSpan",
        [_element("Error", "The test was interrupted before the measurements began. No results are displayed.")],
    )
    return Outcome(
        seconds,
        FAILED,
        [(seconds, STDERR, words.replace("\n", "\r\n").encode()), (seconds, STDOUT, _xml(started, asked, nothing))],
    )


# ---------------------------------------------------------------- the command line


def parse(arguments: list) -> dict:
    """What a command line asks for; sizes in bytes."""
    asked = {
        "block": 64 << 10,
        "base": 0,
        "end": 0,
        "seconds": 10,
        "warmup": 5,
        "cooldown": 0,
        "requests": 2,
        "threads": 1,
        "writes": 0,
        "random": None,
        "ratio": None,
        "stride_bytes": None,
        "stride": 0,
        "zones": [],
        "cache": "cached",
        "through": False,
        "burst": 0,
        "think_ms": 0,
        "rate_iops": 0,
        "rate_bytes_ms": 0,
        "zero": False,
        "seed": 0,
        "latency": False,
        "interval": 0,
        "format": "text",
        "target": None,
    }
    # Targets and what belongs to all of them are looked at first, wherever they stand; sizes may be counted in blocks.
    for argument in arguments:
        if not argument.startswith("-"):
            if asked["target"] is not None:
                raise _Bad("the stand-in's diskspd takes one target")
            asked["target"] = argument
        elif asked["target"] is not None:
            raise _Bad(f"ERROR: parameters ({argument}) must come before targets on the command line")
    options = [argument for argument in arguments if argument.startswith("-")]
    for argument in options:
        _common(asked, argument[1:2], argument[2:])
    for argument in options:
        try:
            _option(asked, argument)
        except _Bad as bad:
            raise _Bad(
                "\n".join([*filter(None, [str(bad)]), f"ERROR: incorrectly provided option: '{argument}'"])
            ) from bad
    if asked["target"] is None:
        raise _Bad("ERROR: need to provide at least one filename")
    if not re.fullmatch(r"#\d+|[A-Za-z]:\\.+", asked["target"]):
        raise _Bad(f"the stand-in's diskspd takes drives and files: {asked['target']}")
    _combination(asked)
    return asked


def _combination(asked: dict) -> None:
    random, zones = asked["random"] is not None, asked["zones"]
    for broken, words in (
        (bool(asked["think_ms"]) != bool(asked["burst"]), "need to specify -j<think time> with -i<burst size>"),
        (random and asked["stride"], "-T conflicts with -r"),
        (asked["stride"] and asked["threads"] == 1, "-T has no effect unless multiple threads per target are used"),
        (zones and not random, "random distribution ranges (-rd) do not apply to sequential-only IO patterns"),
        (sum(share for share, _space in zones) > 100, "invalid random distribution IO%: total must be <= 100%"),
        (
            zones and sum(space for _share, space in zones) != 100,
            "invalid random distribution span: Target% must total 100%",
        ),
        (
            zones and sum(share for share, _space in zones) < 100,
            "invalid random distribution: the target is covered with IO left to distribute",
        ),
    ):
        if broken:
            raise _Bad(f"ERROR: {words}")


def _size(text: str, block: int) -> int:
    found = re.fullmatch(r"(\d+)([KMGTB]?)", text.upper())
    if not found:
        raise _Bad(
            "Invalid integer"
            if not text[:1].isdigit()
            else f"Invalid size '{text[-1]}'. Valid: K - KiB, M - MiB, G - GiB, T - TiB, B - block"
        )
    return int(found[1]) * (block if found[2] == "B" else SUFFIXES[found[2]])


def _whole(text: str, least: int = 0, most: int = 1 << 31, words: str = "") -> int:
    if not re.fullmatch(r"\d+", text) or not least <= int(text) < most:
        raise _Bad(words)
    return int(text)


def _common(asked: dict, letter: str, rest: str) -> None:
    times = {"d": "seconds", "W": "warmup", "C": "cooldown"}
    if letter in times:
        asked[times[letter]] = _whole(
            rest, int(letter == "d"), words=f"the stand-in's diskspd takes whole seconds (-{letter}): '{rest}'"
        )
    elif letter == "b":
        try:
            asked["block"] = _size(rest, 1)
        except _Bad as bad:
            raise _Bad(f"{bad}\nERROR: invalid block size passed to -b") from bad
    elif letter == "R":
        if rest not in ("text", "xml"):
            raise _Bad(f"ERROR: invalid results format (-R): '{rest}'")
        asked["format"] = rest
    elif letter == "z":
        asked["seed"] = _whole(
            rest, 0, 1 << 32, f"ERROR: invalid random seed value '{rest}' specified - must be a valid 32 bit integer"
        )


def _option(asked: dict, argument: str) -> None:
    letter, rest, block = argument[1:2], argument[2:], asked["block"]
    plain = {"t": "threads", "o": "requests", "i": "burst", "j": "think_ms"}
    if letter in plain:
        asked[plain[letter]] = _whole(rest, 1)
    elif letter in "bdWCRz":
        pass
    elif letter == "B":
        base, _, length = rest.partition(":")
        asked["base"] = _size(base, block)
        asked["end"] = asked["base"] + _size(length, block) if length else 0
    elif letter == "f":
        asked["end"] = _size(rest, block)
    elif letter == "r":
        _random(asked, rest, block)
    elif letter == "s":
        if asked["random"] is not None:
            raise _Bad("ERROR: sequential IO (-s) conflicts with random IO (-r/-rs)")
        asked["stride_bytes"] = _size(rest, block) if rest else block
    elif letter == "T":
        asked["stride"] = _size(rest, block)
        if not asked["stride"]:
            raise _Bad("ERROR: invalid offset passed to -T")
    elif letter == "w":
        words = (
            "write ratio passed to -w must be between 0 and 100 (percent)" if rest else "no write ratio passed to -w"
        )
        asked["writes"] = _whole(rest, 0, 101, f"ERROR: {words}")
    elif letter == "g":
        asked.update(rate_iops=0, rate_bytes_ms=0)
        asked["rate_iops" if rest.endswith("i") else "rate_bytes_ms"] = _whole(rest.removesuffix("i"), 1)
    elif letter == "S":
        flags = set(rest or "u")
        if flags - set("buhw"):
            raise _Bad("ERROR: unrecognized option provided to -S")
        if {"b", "u"} <= flags:
            raise _Bad("ERROR: -Su conflicts with earlier specification of cache mode/memory mapped IO")
        asked["cache"] = "none" if flags & set("uh") else "cached"
        asked["through"] = bool(flags & set("wh"))
    elif letter == "Z" and rest in ("", "r"):
        asked["zero"] = not rest
    elif letter == "D":
        asked["interval"] = _whole(rest or "1000", 1)
    elif argument == "-L":
        asked["latency"] = True
    else:
        raise _Bad(f"the stand-in's diskspd does not take {argument}")


def _random(asked: dict, rest: str, block: int) -> None:
    if asked["stride_bytes"] is not None:
        raise _Bad("ERROR: sequential IO (-s) conflicts with random IO (-r/-rs)")
    if rest.startswith("s"):
        asked["ratio"] = _whole(rest[1:], 1, 101, "ERROR: random percentage passed to -rs should be between 1 and 100")
        asked["random"] = asked["random"] or block
    elif rest.startswith("dpct"):
        zones = [zone.partition("/") for zone in rest[4:].split(":")]
        asked["zones"] = [
            (_whole(share, 0, 101, f"Invalid IO% {share}"), _whole(space, 1, 101, f"Invalid Target% {space}"))
            for share, _, space in zones
        ]
    elif rest.startswith("d"):
        raise _Bad("the stand-in's diskspd knows the distribution pct only")
    else:
        asked["random"] = _size(rest, block) if rest else block


# ---------------------------------------------------------------- the XML


def _element(name: str, content) -> str:
    """An element of lines, or of one text."""
    if isinstance(content, list):
        return "\n".join(
            [
                f"<{name}>",
                *("  " + line for part in content for line in part.split("\n")),
                f"</{name.partition(' ')[0]}>",
            ]
        )
    return f"<{name}>{content}</{name}>"


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _xml(started: Started, asked: dict, time_span: str) -> bytes:
    mask = hex((1 << CPUS) - 1)
    cores = [f'<Core Group="0" Core="{number}" Mask="{1 << number:#x}" EfficiencyClass="0"/>' for number in range(CPUS)]
    system = _element(
        "System",
        [
            _element("ComputerName", f"STAND-IN-{started.host.name}"),
            _element("Tool", [_element("Version", f"{started.version}-stand-in"), _element("VersionDate", "2024/6/3")]),
            _element("RunTime", time.strftime("%Y/%m/%d %H:%M:%S UTC", time.gmtime(started.begun))),
            '<PowerScheme Name="<unknown>" Guid=""/>',
            _element(
                'ProcessorTopology Heterogeneous="false"',
                [
                    f'<Group Group="0" MaximumProcessors="{CPUS}" ActiveProcessors="{CPUS}" ActiveProcessorMask="{mask}"/>',
                    _element('Socket Socket="0"', [f'<Group Group="0" Mask="{mask}"/>']),
                    *cores,
                ],
            ),
        ],
    )
    return _element("Results", [system, _profile(asked), time_span]).replace("\n", "\r\n").encode()


def _profile(asked: dict) -> str:
    target = [
        _element("Path", asked["target"]),
        _element("BlockSize", asked["block"]),
        _element("BaseFileOffset", asked["base"]),
        *(_element(name, "false") for name in ("SequentialScan", "RandomAccess", "TemporaryFile", "UseLargePages")),
    ]
    if asked["cache"] == "none":
        target.append(_element("DisableOSCache", "true"))
    if asked["through"]:
        target.append(_element("WriteThrough", "true"))
    target += [
        _element("WriteBufferContent", [_element("Pattern", "zero" if asked["zero"] else "sequential")]),
        _element("ParallelAsyncIO", "false"),
    ]
    if asked["burst"]:
        target.append(_element("BurstSize", asked["burst"]))
    if asked["think_ms"]:
        target.append(_element("ThinkTime", asked["think_ms"]))
    if asked["random"] is not None:
        target.append(_element("Random", asked["random"]))
        if asked["ratio"] not in (None, 100):
            target.append(_element("RandomRatio", asked["ratio"]))
        if asked["zones"]:
            zones = [f'<Range IO="{share}">{space}</Range>' for share, space in asked["zones"]]
            target.append(_element("Distribution", [_element("Percent", zones)]))
    else:
        target += [
            _element("StrideSize", asked["stride_bytes"] or asked["block"]),
            _element("InterlockedSequential", "false"),
        ]
    rate = (
        f'<Throughput unit="IOPS">{asked["rate_iops"]}</Throughput>'
        if asked["rate_iops"]
        else _element("Throughput", asked["rate_bytes_ms"])
    )
    target += [
        _element("ThreadStride", asked["stride"]),
        _element("MaxFileSize", asked["end"]),
        _element("RequestCount", asked["requests"]),
        _element("WriteRatio", asked["writes"]),
        rate,
        _element("ThreadsPerFile", asked["threads"]),
        _element("IOPriority", 3),
        _element("Weight", 1),
    ]
    return _element(
        "Profile",
        [
            _element("Progress", 0),
            _element("ResultFormat", "xml"),
            _element("Verbose", "false"),
            _element(
                "TimeSpans",
                [
                    _element(
                        "TimeSpan",
                        [
                            _element("CompletionRoutines", "false"),
                            _element("MeasureLatency", _truth(asked["latency"])),
                            _element("CalculateIopsStdDev", _truth(asked["interval"] > 0)),
                            _element("DisableAffinity", "false"),
                            _element("Duration", asked["seconds"]),
                            _element("Warmup", asked["warmup"]),
                            _element("Cooldown", asked["cooldown"]),
                            _element("ThreadCount", 0),
                            _element("RequestCount", 0),
                            _element("IoBucketDuration", asked["interval"] or 1000),
                            _element("RandSeed", asked["seed"]),
                            _element("Targets", [_element("Target", target)]),
                        ],
                    )
                ],
            ),
        ],
    )


def _time_span(asked: dict, found: dict, file_size: int) -> str:
    busy = 12.5 + asked["threads"]
    cpus = [
        _element(
            "CPU",
            [
                _element("Socket", 0),
                _element("Node", 0),
                _element("Group", 0),
                _element("Core", number),
                _element("EfficiencyClass", 0),
                _element("Id", number),
                *_shares(busy + (20 if not number else -20 / (CPUS - 1))),
            ],
        )
        for number in range(CPUS)
    ]
    parts = [
        _element("TestTimeSeconds", f"{asked['seconds']:.2f}"),
        _element("ThreadCount", asked["threads"]),
        _element("RequestCount", 0),
        _element("ProcCount", CPUS),
        _element("CpuUtilization", [*cpus, _element("Average", _shares(busy))]),
    ]
    if asked["latency"]:
        parts.append(_latency(found))
    if asked["interval"]:
        parts.append(_iops(asked, found))
    for number in range(asked["threads"]):
        own = {name: _part(one, asked["threads"], number) for name, one in found.items()}
        parts.append(_element("Thread", [_element("Id", number), _element("Target", _target(asked, own, file_size))]))
    return _element("TimeSpan", parts)


def _shares(busy: float) -> list:
    return [
        _element(name, f"{value:.2f}")
        for name, value in (
            ("UsagePercent", busy),
            ("UserPercent", busy / 5),
            ("KernelPercent", busy * 4 / 5),
            ("IdlePercent", 100 - busy),
        )
    ]


def _part(one: dict, threads: int, number: int) -> dict:
    """A thread's share of the I/Os."""
    ios = one["ios"] // threads + (number < one["ios"] % threads)
    return {**one, "ios": ios, "bytes": one["bytes"] // one["ios"] * ios}


def _target(asked: dict, own: dict, file_size: int) -> list:
    count = {name: own.get(name, {"ios": 0, "bytes": 0}) for name in ("read", "write")}
    parts = [
        _element("Path", asked["target"]),
        _element("BytesCount", sum(one["bytes"] for one in count.values())),
        _element("FileSize", file_size),
        _element("IOCount", sum(one["ios"] for one in count.values())),
    ]
    for name, one in count.items():
        parts += [
            _element(f"{name.capitalize()}Bytes", one["bytes"]),
            _element(f"{name.capitalize()}Count", one["ios"]),
        ]
    if asked["zones"]:
        parts.append(_element("Distribution", [_element("Absolute", _zones(asked, file_size))]))
    if asked["latency"]:
        # 2.2 means to tell those of both together, too, but has lost their I/Os by then.
        for title, values in _kinds(own, ("Read", "Write")):
            parts += [
                _element(f"Average{title}LatencyMilliseconds", f"{figures.mean(values) / 1000:.3f}"),
                _element(f"{title}LatencyStdev", f"{figures.deviation(values) / 1000:.3f}"),
            ]
    return [*parts, _iops(asked, own)] if asked["interval"] else parts


def _zones(asked: dict, file_size: int) -> list:
    """Where the zones lie, in bytes from the beginning of the range."""
    align, size = asked["random"], min(file_size, asked["end"] or file_size) - asked["base"]
    size = (size - asked["block"]) // align * align + align
    edges = [
        sum(space for _share, space in asked["zones"][:count]) * size // 100 // align * align
        for count in range(len(asked["zones"]) + 1)
    ]
    return [
        f'<Range IO="{share}">{end - begin}</Range>'
        for (share, _space), begin, end in zip(asked["zones"], edges, edges[1:])
    ]


def _kinds(found: dict, titles: tuple) -> list:
    """[(title, values)] of reads, writes and both, where there are any."""
    values = [found[name]["values"] if name in found else {} for name in ("read", "write")]
    return [(title, one) for title, one in zip(titles, [*values, figures.both(*values)]) if one]


def _latency(found: dict) -> str:
    kinds = _kinds(found, ("Read", "Write", "Total"))
    counts = dict.fromkeys(("Read", "Write", "Total"), 0) | {title: len(values) for title, values in kinds}
    parts = []
    for title, values in kinds:
        parts += [
            _element(f"Average{title}Milliseconds", f"{figures.mean(values) / 1000:.3f}"),
            _element(f"{title.replace('Total', '')}LatencyStdev", f"{figures.deviation(values) / 1000:.3f}"),
        ]
    for text in [
        "0",
        *map(str, range(1, 100)),
        "99.9",
        "99.99",
        "99.999",
        "99.9999",
        "99.99999",
        "99.999999",
        "99.9999999",
        "100",
    ]:
        at = {"0": min, "100": max}.get(text, lambda values, percent=float(text): figures.percentile(values, percent))
        parts.append(
            _element(
                "Bucket",
                [
                    _element("Percentile", text),
                    *(_element(f"{title}Milliseconds", f"{at(values) / 1000:.3f}") for title, values in kinds),
                ],
            )
        )
    return _element("Latency " + " ".join(f'{title}HistoBuckets="{count}"' for title, count in counts.items()), parts)


def _iops(asked: dict, found: dict) -> str:
    """The series: as many samples as there were whole intervals, in pairs above and below the mean."""
    count = asked["seconds"] * 1000 // asked["interval"]
    rows = []
    for number in range(count):
        swing = 1 if number == count - 1 and count % 2 else 1.05 if number % 2 else 0.95
        rates = {
            name: found[name]["ios"] / asked["seconds"] * swing if name in found else 0 for name in ("read", "write")
        }
        told = [
            f'SampleMillisecond="{asked["interval"] * (number + 1)}"',
            f'Read="{rates["read"]:.0f}"',
            f'Write="{rates["write"]:.0f}"',
            f'Total="{rates["read"] + rates["write"]:.0f}"',
        ]
        for name in ("read", "write"):
            values = found[name]["values"] if name in found else {0: 1}
            told += [
                f'{name.capitalize()}{what}="{value / 1000:.3f}"'
                for what, value in (
                    ("MinLatencyMilliseconds", min(values)),
                    ("MaxLatencyMilliseconds", max(values)),
                    ("AvgLatencyMilliseconds", figures.mean(values)),
                    ("LatencyStdDev", figures.deviation(values)),
                )
            ]
        rows.append(f"<Bucket {' '.join(told)}/>")
    spread = 0.05 if count > 1 else 0
    titles = [("ReadIopsStdDev", "read"), ("WriteIopsStdDev", "write")]
    parts = [
        _element(title, f"{found[name]['ios'] / asked['seconds'] * spread:.3f}")
        for title, name in titles
        if name in found
    ]
    total = sum(one["ios"] for one in found.values()) / asked["seconds"]
    return _element("Iops", [*parts, _element("IopsStdDev", f"{total * spread:.3f}"), *rows])
