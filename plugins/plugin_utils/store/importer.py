# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other people's results: from files of fio, IOMeter and diskspd, wherever they lie, to the points of a stored run.

Layouts that are known by their file names: bench-fio's <device>/[<mode><read share>/]<block size>/[run-<n>/]<mode>-<depth>-<jobs>.json,
HCIBench's <test>/<VM prefix>-<data store>-<n>-<m>.json (one file a VM, all at the same time), CBT's json_output.<process>.<client> and
VMFleet's result-<the arguments of diskspd>-<VM>.xml.
Anything else is a folder of files: the folders name the layer.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from ...module_utils.core.failure import bad_value
from ...module_utils.core.times import unix_s
from ...module_utils.engines.catalogue import ENGINES
from ...module_utils.result import physics
from ...module_utils.result import result as schema
from ...module_utils.result.schema import Measured, Result
from ...module_utils.workload.meanings import meanings
from ...module_utils.workload.workload import Workload, format_size, workload_id
from .import_files import Entry, all_of, bounds, times_of

KIND = "imported"
# Where a file names no host, a word takes the place of its name.
UNKNOWN_HOST = "unknown"
# Shares of the longest client's time. Clients of one run start together and end together; whoever ended before cannot be added without a word.
_TOGETHER = 0.95
# Folders that say what was done, not where: their content says it again.
_ABOUT_THE_WORKLOAD = re.compile(
    r"\d+[kmgKMG]?(i?[bB])?|(rand)?(read|write|rw|trim|readwrite)\d*|random|sequential|run-\d+"
    r"|(iodepth|numjobs|op_size|concurrent_procs|osd_ra|rwmixread|bs|qd)[-_]?\d+[kmKM]?"
    r"|\d{8}|id-?[0-9a-f]+|results?|points?|raw"
)
_HCIBENCH_TEST = re.compile(r".+-\d{10}")
_GROUPED = (
    " Several sections that group_reporting put into one record look like this, too: fio gives the options of the last."
)
# The keys that a reader's result hands on to a stored one; the rest is about the reading.
_KEPT = (
    "engine",
    "path",
    "targets",
    "working_set",
    "by_target",
    "started_utc",
    "finished_utc",
    "runtime_s",
    *schema.PARTS,
    "trim",
    "cpu",
    "errors",
    "latency_bins",
    "clients",
    "flags",
    "failures",
    "status",
)


# ---------------------------------------------------------------- the points of a run


def points(entries: list[Entry], testbed_id: str, run_id: str, root: str) -> tuple[list[Result], list[dict[str, str]]]:
    """(results, unread) of the entries of all files, in the order in which their paths are read.

    results: complete results of schema storlab.result/1, each with ``sources`` [{file, sha256}] and perhaps ``series``, which the caller stores.
    unread: [{file, reason}] of entries that are not points. root: name of the folder that was imported, which names the layer where no other folder does.
    """
    checked(testbed_id, "testbed_id")
    checked(run_id, "run_id")
    usable: list[Entry] = []
    unread: list[dict[str, str]] = []
    for entry in _of_clients(_with_updates(_without_copies(entries, unread), unread)):
        if entry["workload"] is None:
            parsed = entry["parsed"]
            reason = (
                parsed.get("workload_unknown")
                or "; ".join(failure["message"] for failure in parsed["failures"])
                or ("its options do not say plainly what the workload was")
            )
            unread.append({"file": entry["file"], "reason": f"{entry['job']!r}: {reason}" if entry["job"] else reason})
        else:
            usable.append(entry)
    _mark_shared(usable)
    results: list[Result] = []
    repetitions: dict[tuple[str, str, str], int] = {}
    layers = _layers(usable, root)
    for entry, layer, variant in zip(usable, layers, _variants(usable, layers)):
        name = _workload_id(entry)
        repetition = repetitions[layer, name, variant] = repetitions.get((layer, name, variant), 0) + 1
        results.append(_point(entry, layer, name, variant, repetition, {"testbed_id": testbed_id, "run_id": run_id}))
    return results, unread


def checked(value: str, variable: str) -> None:
    """Failure 'bad_value' for an id that is not fit to be the name of a folder."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", value):
        raise bad_value(variable, value, "Use up to 100 letters, digits and . _ - only; it names a folder.")


def _without_copies(entries: list[Entry], unread: list[dict[str, str]]) -> list[Entry]:
    """The same bytes twice are one measurement, not two that agree."""
    first: dict[str, str] = {}
    kept = []
    for entry in entries:
        original = first.setdefault(entry["sha256"], entry["file"])
        if original == entry["file"]:
            kept.append(entry)
        elif not any(row["file"] == entry["file"] for row in unread):
            unread.append({"file": entry["file"], "reason": f"it is a copy of {original}, byte for byte"})
    return kept


def _with_updates(entries: list[Entry], unread: list[dict[str, str]]) -> list[Entry]:
    """The entries, IOMeter's with the updates that it showed while they ran: inst<name> has them for the tests in <name>, in their order."""
    files: dict[str, list[Entry]] = {}
    for entry in entries:
        files.setdefault(entry["file"], []).append(entry)
    kept = []
    for rows in files.values():
        if "updates" not in rows[0]:
            kept += rows
            continue
        inst, folder = rows[0], rows[0]["folder"]
        base = inst["file"][len(folder) :].lstrip("/")
        tests = files.get("/".join(filter(None, (folder, base[len("inst") :]))), []) if base.startswith("inst") else []
        if len(tests) != len(inst["updates"]):
            unread.append(
                {
                    "file": inst["file"],
                    "reason": f"It has the updates of {len(inst['updates'])} tests, but the file that it belongs to has "
                    f"{len(tests)}.",
                }
            )
            continue
        for test, series in zip(tests, inst["updates"]):
            test["sources"] = [{"file": row["file"], "sha256": row["sha256"]} for row in (test, inst)]
            if series["rows"] and "interval_s" in series:
                test["series"] = series
    return kept


def _of_clients(entries: list[Entry]) -> list[Entry]:
    """The entries, where clients that ran at the same time are one."""
    groups: list[list[Entry]] = []
    open_groups: dict[tuple[Any, ...], list[list[Entry]]] = {}
    for entry in entries:
        key = (entry["folder"], entry.get("stem"), entry["job"], json.dumps(entry["workload"], sort_keys=True))
        group = next(
            (group for group in open_groups.get(key, ()) if all(_overlap(entry, member) for member in group)), None
        )
        if "client" not in entry or group is None:
            group = []
            groups.append(group)
            if "client" in entry:
                open_groups.setdefault(key, []).append(group)
        group.append(entry)
    return [_together(group) for group in groups]


def _overlap(entry: Entry, other: Entry) -> bool:
    """Whether two files are about the same time, by more than half of the shorter run."""
    span, other_span = _span(entry["parsed"]), _span(other["parsed"])
    if span is None or other_span is None:
        return False
    (start, end), (other_start, other_end) = span, other_span
    return min(end, other_end) - max(start, other_start) > 0.5 * min(end - start, other_end - other_start)


def _span(parsed: Measured) -> tuple[float, float] | None:
    """(start, end) in seconds since 1970, None where the file does not say."""
    if "span_ms" in parsed:
        return parsed["span_ms"][0] / 1000, parsed["span_ms"][1] / 1000
    runtime, end = parsed.get("runtime_s"), parsed.get("finished_utc")
    moment = end or parsed.get("started_utc")
    if not runtime or not moment:
        return None
    at = unix_s(moment)
    return (at - runtime, at) if end else (at, at + runtime)


def _together(group: list[Entry]) -> Entry:
    if len(group) == 1:
        return group[0]
    clients: list[Measured] = [{**entry["parsed"], "host": entry["client"]} for entry in group]
    times = [entry["parsed"].get("runtime_s", 0) for entry in group]
    parsed: Any = {
        **all_of(clients),
        **{key: value for key, value in group[0]["parsed"].items() if key in ("workload", "job_name")},
        **times_of([entry["parsed"] for entry in group]),
    }
    if min(times) < _TOGETHER * max(times):
        parsed["flags"] = [*parsed["flags"], "clients_ended_early"]
    sources = [{"file": entry["file"], "sha256": entry["sha256"]} for entry in group]
    whole: Entry = {**group[0], "parsed": parsed, "clients": clients, "sources": sources}
    whole.pop("client", None)
    whole.pop("series", None)
    return whole


def _layers(entries: list[Entry], root: str) -> list[str]:
    """The name of each entry's layer: the folders that do not describe the workload; the target, too, where these have several; the job, too, where
    jobs of one file would be one layer's."""
    names = [_layer(entry, root) for entry in entries]
    targets: dict[str, set[tuple[str, ...]]] = {}
    for entry, name in zip(entries, names):
        targets.setdefault(name, set()).add(_targets(entry))
    names = [
        file_name(f"{name}-{'-'.join(_short_names(_targets(entry), targets[name]))}")
        if _targets(entry) and len(targets[name]) > 1
        else name
        for entry, name in zip(entries, names)
    ]
    jobs: dict[tuple[str, str, str], set[Any]] = {}
    for entry, name in zip(entries, names):
        jobs.setdefault((entry["file"], name, _workload_id(entry)), set()).add(entry["job"])
    return [
        file_name(f"{name}-{entry['job']}") if len(jobs[entry["file"], name, _workload_id(entry)]) > 1 else name
        for entry, name in zip(entries, names)
    ]


def _workload_id(entry: Entry) -> str:
    return workload_id(entry["workload"] or {})


def _targets(entry: Entry) -> tuple[str, ...]:
    return tuple(entry["parsed"].get("targets") or ())


def _short_names(paths: tuple[str, ...], others: set[tuple[str, ...]]) -> list[str]:
    """The last parts of the paths, or all of them where two would have the same name."""
    known = {path for group in others for path in group}
    bases = [re.split(r"[/\\]", path.rstrip("/\\"))[-1] for path in known]
    return [path if len(set(bases)) < len(known) else re.split(r"[/\\]", path.rstrip("/\\"))[-1] for path in paths]


def _variants(entries: list[Entry], layers: list[str]) -> list[str]:
    """The word that distinguishes points of one layer and workload: the engine, or how much of the target was used; '' where there is none."""
    keys = [(layer, _workload_id(entry)) for entry, layer in zip(entries, layers)]
    distinctions = []
    for entry in entries:
        engine, extent = entry["parsed"]["engine"], entry["parsed"].get("working_set") or {}
        distinctions.append(
            {
                "engine": str(engine.get("name") or ""),
                "ioengine": str(engine.get("ioengine") or ""),
                **{
                    part: f"{part}-{format_size(value) if isinstance(value, int) and part != 'files' else value}"
                    for part, value in extent.items()
                },
            }
        )
    values: dict[tuple[tuple[str, str], str], set[str]] = {}
    for key, parts in zip(keys, distinctions):
        for part in ("engine", "ioengine", "size", "file_size", "files"):
            values.setdefault((key, part), set()).add(parts.get(part, ""))
    return [
        file_name("-".join(parts[part] for part in parts if len(values[key, part]) > 1 and parts[part]))
        if any(len(values[key, part]) > 1 and parts[part] for part in parts)
        else ""
        for key, parts in zip(keys, distinctions)
    ]


def _mark_shared(entries: list[Entry]) -> None:
    """Flags the loads that had a target at the same time as another load: their figures are of half a device each."""
    by_target: dict[tuple[Any, str], list[Entry]] = {}
    for entry in entries:
        parsed = entry["parsed"]
        for target in _targets(entry):
            by_target.setdefault((parsed.get("host"), target), []).append(entry)
    for users in by_target.values():
        started: dict[tuple[Any, ...], list[int]] = {}
        # One stamp of fio is of all jobs of its document, of which some may have waited for others.
        alone = {
            (entry["file"], entry["parsed"].get("run")) if "span_ms" not in entry["parsed"] else index: index
            for index, entry in enumerate(users)
        }
        spans = sorted((*span, index) for index in alone.values() if (span := _span(users[index]["parsed"])))
        shared: set[int] = set()
        latest = (float("-inf"), -1)
        for start, end, index in spans:
            # Stamps of fio are whole seconds, so that one run after another may seem to begin before the end of the first.
            if latest[0] - start > 1:
                shared |= {index, latest[1]}
            latest = max(latest, (end, index))
        for index, entry in enumerate(users):
            group = (entry["file"], entry["parsed"].get("run"), entry["parsed"].get("group"))
            started.setdefault(group, []).append(index)
        shared |= {index for group, mine in started.items() if group[2] is not None and len(mine) > 1 for index in mine}
        for index in shared:
            parsed = users[index]["parsed"]
            users[index]["parsed"] = {**parsed, "flags": list(dict.fromkeys([*parsed["flags"], "shared_target"]))}


def _layer(entry: Entry, root: str) -> str:
    parts = [part for part in entry["folder"].split("/") if part and not _ABOUT_THE_WORKLOAD.fullmatch(part)]
    if "stem" in entry and parts and _HCIBENCH_TEST.fullmatch(parts[-1]):
        # The folder is the workload and when it began; the names of the files have the VMs' prefix and the data store.
        parts[-1] = entry["stem"]
    return file_name("-".join(parts) or root)


def file_name(text: str) -> str:
    """A name that is fit for a folder; a hash distinguishes names that had to be changed or cut."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:90] or "imported"
    return name if name == text else f"{name}-{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:6]}"


def _point(entry: Entry, layer: str, name: str, variant: str, repetition: int, run: dict[str, str]) -> Result:
    parsed = entry["parsed"]
    hosts = parsed.get("host")
    same = {"layer": layer, "workload": entry["workload"], "engine": parsed["engine"]["name"], "repetition": repetition}
    varied = {"variant": variant} if variant else {}
    point: Any = {
        "schema": schema.SCHEMA,
        **run,
        "point_id": ".".join([layer, name, *varied.values(), f"r{repetition}"]),
        "layer": layer,
        "layer_kind": KIND,
        "host": hosts or UNKNOWN_HOST,
        "workload": entry["workload"],
        "workload_id": name,
        **varied,
        "repetition": repetition,
        "cpu": {},
        "errors": {"total": 0},
        **{key: parsed[key] for key in _KEPT if key in parsed},  # type: ignore[literal-required]
        "fingerprint": hashlib.sha256(json.dumps({**same, **varied}, sort_keys=True).encode()).hexdigest(),
        "sources": entry.get("sources") or [{"file": entry["file"], "sha256": entry["sha256"]}],
    }
    if "total" in point:
        point["total"] = {
            **point["total"],
            **bounds([point[direction] for direction in schema.DIRECTIONS if direction in point], point["total"]),
        }
    checks, wrong = physics.judged(point["workload"], entry.get("clients") or [parsed])
    if any(failure["code"] == "options_contradicted" for failure in parsed["failures"]):
        wrong = []  # it is known better why
    if parsed.get("grouped"):
        wrong = [{**failure, "message": failure["message"] + _GROUPED} for failure in wrong]
    if checks:
        point["checks"] = checks
    if wrong:
        point.update(status="failed", failures=[*parsed["failures"], *wrong])
    engine = ENGINES.get(str((parsed.get("engine") or {}).get("name")))
    flags = meanings(cast(Workload, point.get("workload") or {}), bool(engine and engine.workers_apart))
    flags = [*flags, *physics.flags(checks)]
    if flags:
        point["flags"] = list(dict.fromkeys([*point.get("flags", ()), *flags]))
    if entry["job"]:
        point["job_name"] = entry["job"]
    if len(parsed.get("targets", ())) == 1:
        point["path"] = parsed["targets"][0]
    if "clients" in entry:
        point["clients"] = [_client(client) for client in entry["clients"]]
    if "series" in entry:
        point["series"] = entry["series"]
    return cast(Result, point)


def _client(parsed: Measured) -> Measured:
    """A client as a point stores it: without what grows with the number of clients."""
    client: Any = {key: value for key, value in parsed.items() if key in ("host", "status", "failures")}
    for name in schema.PARTS:
        if name in parsed:
            client[name] = {key: value for key, value in parsed[name].items() if key != "histogram"}
    return cast(Measured, client)


# ---------------------------------------------------------------- the files of a run


def files(
    results: list[Result], unread: list[dict[str, str]], root: str
) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """({path in the run's folder: text}, {path in the run's folder: (path of the file that goes there unchanged, its sha256)})."""
    desired, copies = {}, {}
    for result in results:
        folder, sources = f"points/{result['point_id']}", result["sources"]
        kept = {key: value for key, value in result.items() if key != "series"}
        raw = [
            {"file": _raw_name(source["file"]), "source": source["file"], "sha256": source["sha256"]}
            for source in sources
        ]
        copies.update({f"{folder}/{copy['file']}": (copy["source"], copy["sha256"]) for copy in raw})
        if len(raw) == 1:
            kept["raw"] = {"file": raw[0]["file"], "sha256": raw[0]["sha256"]}
        else:
            # One figure of many files leads to all of them.
            listed = schema.dump({"sources": raw})
            desired[f"{folder}/sources.json"] = listed
            kept["raw"] = {"file": "sources.json", "sha256": hashlib.sha256(listed.encode()).hexdigest()}
        if "series" in result:
            series = json.dumps(result["series"], sort_keys=True) + "\n"
            desired[f"{folder}/series.json"] = series
            kept["series"] = {"file": "series.json", "sha256": hashlib.sha256(series.encode()).hexdigest()}
        desired[f"{folder}/result.json"] = schema.dump(kept)
    desired["layers.json"] = schema.dump({result["layer"]: _published(result) for result in reversed(results)})
    desired["run.json"] = schema.dump(
        {
            "kind": KIND,
            "source": root,
            "unread": unread,
            "imported": sorted({source["file"] for result in results for source in result["sources"]}),
        }
    )
    return desired, copies


def _raw_name(path: str) -> str:
    """Name of a raw file in the point's folder: its own, unless a point's folder has another use for that."""
    name = path.rpartition("/")[2]
    return f"raw-{name}" if name in ("result.json", "series.json", "sources.json") else name


def _published(result: Mapping[str, object]) -> dict[str, object]:
    """The layer of a result, as layers.json has layers; nothing proves what it was, so its identity is empty."""
    return {
        "name": result["layer"],
        "kind": KIND,
        "host": result["host"],
        "path": result.get("path"),
        "parent": None,
        "purpose": None,
        "size_bytes": None,
        "identity": {},
        "detail": {},
    }


def natural(name: str) -> list[object]:
    """Sort key that reads run-2 before run-10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)]
