# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of a run on the controller, as benchmark writes it. Documented in docs/results.md.

Hosts are measured by processes of their own: what they share (layers.json, run.json, prepared.json, search.json) is read, merged and replaced under a lock.
Every file is there whole or not at all. A result.json is written once; what is known later is added beside it, see additions.py.
The testbed's ledger (ledger.py) names each file before it is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ...module_utils.core.failure import Failure
from ...module_utils.core.files import write_whole
from ...module_utils.core.layers import Layer, down
from ...module_utils.core.shape import NUMBER, misfit
from ...module_utils.engines import databases
from ...module_utils.engines.catalogue import ENGINES
from ...module_utils.result import result as schema
from ...module_utils.result.schema import Result
from ...module_utils.workload.point import Point
from . import additions, beats, ledger, networks

# The files that a host leaves for one point. meta.json has its runner's notes.
FILES = (
    "meta.json",
    *(name for engine in ENGINES.values() for name in (engine.raw_file, engine.job_file)),
    "stderr.txt",
    "series.json",
    *databases.RAWS.values(),
)
# The request: {point, layer, asked}, which archive.read_point is given. With it a result can be made again of its files (verify.py).
POINT = "point.json"
# Files beside a result.json, which is made of them.
KEPT = (*FILES, POINT)
# {file: shape (core/shape.py) that its readers rely on}
SHAPES: dict[str, Any] = {
    "run.json": {"requests?": [{"hosts": [str], "variant?": str}]},
    "layers.json": {str: {"variants?": {str: dict}}},
    "prepared.json": {str: dict},
    "search.json": {str: object},
    "clocks.json": {str: {"offset_s": NUMBER, "uncertain_s": NUMBER}},
}
ENVIRONMENT = {"variants?": {str: dict}}
ADDED = {"points?": {str: object}}


def stored(run_dir: str, points: list[Point]) -> dict[str, Any]:
    """{point_id: result} of these points that are there already. A point that was measured differently is never written over."""
    results, added = {}, additions.Additions(run_dir, json.loads)
    for point in points:
        path = os.path.join(run_dir, "points", point["point_id"], "result.json")
        if not os.path.exists(path):
            continue
        result = added.to(schema.load(path))
        if result["status"] != "measured":
            continue
        if result.get("fingerprint") != point["fingerprint"]:
            raise Failure(
                "run_exists",
                f"Point {point['point_id']} of this run was measured with another workload or on another device.",
                "Choose another run_id, or set force to replace it.",
                path=path,
            )
        results[point["point_id"]] = result
    return results


def write_point(run_dir: str, point_id: str, result: Result, files: Mapping[str, object]) -> None:
    """files: {one of KEPT: content}."""
    place = f"points/{point_id}"
    whole = _whole(run_dir, place, files)
    # Last, because a result without the file it was made of could not be traced.
    whole[f"{place}/result.json"] = schema.dump(result).encode("utf-8", "surrogateescape")
    codes = [failure["code"] for failure in result["failures"]]
    _write(
        run_dir, whole, "collected", point=point_id, status=result["status"], **({"failures": codes} if codes else {})
    )


def write_preparation(run_dir: str, name: str, files: Mapping[str, object]) -> None:
    """preparation/<name>/: the input and output of fio when a layer was written or warmed up, apart from the points; the last of several times."""
    _write(run_dir, _whole(run_dir, f"preparation/{name}", files))


def _whole(run_dir: str, place: str, files: Mapping[str, object]) -> dict[str, object]:
    """{path relative to the run: content, None for what is left there of an earlier time and is to go}."""
    names = [name for name in KEPT if name in files or os.path.exists(os.path.join(run_dir, place, name))]
    return {f"{place}/{name}": files.get(name) for name in names}


def write_files(run_dir: str, files: dict[str, object]) -> None:
    """Other files of the run: {path relative to it: content}."""
    _write(run_dir, files)


def note(run_dir: str, event: str, **details: object) -> None:
    """A line in the ledger about this run."""
    with _writing(run_dir):
        ledger.append(os.path.dirname(os.path.abspath(run_dir)), event, run=_name(run_dir), **details)


def ledger_files(run_dir: str) -> list[str]:
    """The files of a run that this module writes, as the ledger names them."""
    files = []
    for folder, _folders, names in os.walk(run_dir):
        place = os.path.relpath(folder, run_dir).replace(os.sep, "/")
        files += [name if place == "." else f"{place}/{name}" for name in names]
    return sorted(
        name
        for name in files
        if name in ("run.json", "layers.json", "prepared.json", "search.json", "clocks.json", beats.FILE, networks.FILE)
        or (
            name.startswith(("points/", "hosts/", "installations/", "preparation/", f"{additions.FOLDER}/"))
            and not name.endswith(".log")
        )
    )


def results(run_dir: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(point_id, result) of every point that there is a result of, with what was added to it."""
    points, added = os.path.join(run_dir, "points"), additions.Additions(run_dir, json.loads)
    added.refuse_damaged()
    for name in sorted(os.listdir(points)) if os.path.isdir(points) else []:
        path = os.path.join(points, name, "result.json")
        if os.path.exists(path):
            yield name, added.to(schema.load(path))


def add(run_dir: str, source: str, results: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    """added/<source>.json: fresh, {point_id: addition} to these results {point_id: result}, takes the place of what the source added to them earlier.

    Returns {point_id: result with its addition}.
    """
    marked = {name: {**addition, "of": additions.measurement(results[name])} for name, addition in fresh.items()}
    if marked:
        _merge(
            run_dir,
            os.path.join(additions.FOLDER, f"{source}.json"),
            lambda known: {"schema": additions.SCHEMA, "points": {**known.get("points", {}), **marked}},
            ADDED,
        )
    return {name: additions.merged(results[name], [addition]) for name, addition in marked.items()}


def added_by(run_dir: str, source: str, result: dict[str, object]) -> bool:
    """Whether the source has added something to this measurement already."""
    known = _read(run_dir, os.path.join(additions.FOLDER, f"{source}.json"), ADDED).get("points", {})
    entry = known.get(str(result.get("point_id")))
    return isinstance(entry, dict) and entry.get("of") == additions.measurement(result)


def write_host(run_dir: str, host: str, environment: dict[str, object], variant: str | None = None) -> None:
    """hosts/<host>.json: the host as it was measured last, and as it was under each variant."""
    variants = _read(run_dir, os.path.join("hosts", f"{host}.json"), ENVIRONMENT).get("variants", {})
    if variant:
        variants[variant] = environment
    # The name and the variants are the controller's words, whatever the host says.
    own = {key: value for key, value in environment.items() if key != "variants"}
    _write_json(run_dir, f"hosts/{host}.json", {**own, "host": host, **({"variants": variants} if variants else {})})


def refuse_unfit(run_dir: str) -> None:
    """Failure 'results_unwritable' when nothing can be kept there, which is tried and leaves nothing; 'run_damaged' when what is there cannot be read."""
    for name in ("run.json", "layers.json"):
        _read(run_dir, name, SHAPES[name])
    folder = run_dir
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    with _writing(run_dir), tempfile.TemporaryFile(dir=folder) as trial:
        trial.write(b"x" * 4096)
        trial.flush()


def add_layers(
    run_dir: str, layers: dict[str, Layer], variant: str | None = None, measured: Collection[str] = ()
) -> None:
    """layers.json, to which every host of the run adds what it knows. A layer measured in a variant, and each that its I/O goes through, is kept as it is
    in each (``variants``)."""
    through = {below["name"] for name in measured for below in down(layers, layers.get(name))}

    def merged(known: dict[str, Any]) -> dict[str, object]:
        added = {}
        for name, layer in layers.items():
            variants = {
                **known.get(name, {}).get("variants", {}),
                **({variant: layer} if variant and name in through else {}),
            }
            added[name] = {**layer, **({"variants": variants} if variants else {})}
        return {**known, **added}

    _merge(run_dir, "layers.json", merged)


def add_request(run_dir: str, identity: Mapping[str, object], request: Mapping[str, object], host: str) -> None:
    """run.json: what was asked for. Hosts that were asked the same share an entry of ``requests``, variants are listed in the order they came."""

    def merged(known: dict[str, Any]) -> dict[str, object]:
        requests = [dict(entry) for entry in known.get("requests", [])]
        same = next(
            (entry for entry in requests if {key: value for key, value in entry.items() if key != "hosts"} == request),
            None,
        )
        if same is None:
            same = {**request, "hosts": []}
            requests.append(same)
        same["hosts"] = sorted({*same["hosts"], host})
        variants = list(dict.fromkeys(entry["variant"] for entry in requests if "variant" in entry))
        return {**identity, "requests": requests, **({"variants": variants} if variants else {})}

    # The comparison uses the values that JSON gives back, so that 5 and 5.0 or a tuple do not look like another request.
    request = json.loads(json.dumps(request))
    _merge(run_dir, "run.json", merged, event="asked", host=host)


def add_answers(run_dir: str, answers: Mapping[str, object]) -> None:
    """search.json: what the searches of the run have found, by '<layer>.<workload>.<kind>'."""
    _merge(run_dir, "search.json", lambda known: {**known, **answers})


def add_prepared(run_dir: str, prepared: Mapping[str, object]) -> None:
    """prepared.json: which layers the run has written as a whole, when and on which device, so that it does not write them again."""
    _merge(run_dir, "prepared.json", lambda known: {**known, **prepared})


def remember_clock(run_dir: str, host: str, clock: Mapping[str, object]) -> None:
    """clocks.json: by how much each host's clock was ahead of the controller's, {offset_s, uncertain_s}."""
    _merge(run_dir, "clocks.json", lambda known: {**known, host: clock})


def clocks(run_dir: str) -> dict[str, object]:
    return _read(run_dir, "clocks.json", SHAPES["clocks.json"])


def clock_between(own: dict[str, object], other: dict[str, Any] | None) -> dict[str, object] | None:
    """How far one host's clock is ahead of another's; what is uncertain of both adds up."""
    if other is None:
        return None
    return {
        "clock_offset_s": round(own["offset_s"] - other["offset_s"], 4),
        "clock_uncertain_s": round(own["uncertain_s"] + other["uncertain_s"], 4),
    }


def add_beat(run_dir: str, host: str, beat: Mapping[str, object]) -> None:
    """A line in beats.jsonl: what a host played before a round, or why it does not. Once, however often it is taken; an empty one is none."""
    if not beat:
        return
    _add_line(run_dir, beats.FILE, {**beat, "host": host})


def add_network(run_dir: str, line: Mapping[str, object]) -> None:
    """A line in network.jsonl: what the network between two hosts carried, or why that is not known."""
    _add_line(run_dir, networks.FILE, line)


def network_known(run_dir: str, host: str, target: str, address: str) -> dict[str, object] | None:
    """The line of this link, if it was measured for this run already."""
    lines, _damaged = networks.read(run_dir, json.loads)
    link = (host, target, address)
    return next((line for line in lines if (line["host"], line["target"], line["address"]) == link), None)


def _add_line(run_dir: str, name: str, entry: Mapping[str, object]) -> None:
    line = json.dumps(entry, sort_keys=True).encode() + b"\n"
    with _writing(run_dir):
        os.makedirs(run_dir, exist_ok=True)
    with locked(run_dir):
        known = _content(os.path.join(run_dir, name)) or b""
        if line not in known.splitlines(keepends=True):
            _write(run_dir, {name: known + line})


def layers(run_dir: str) -> dict[str, Layer]:
    return _read(run_dir, "layers.json", SHAPES["layers.json"])


def prepared(run_dir: str) -> dict[str, object]:
    return _read(run_dir, "prepared.json", SHAPES["prepared.json"])


def environment(run_dir: str, host: str) -> dict[str, object]:
    return _read(run_dir, os.path.join("hosts", f"{host}.json"), ENVIRONMENT)


def _merge(
    run_dir: str,
    name: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    shape: object = None,
    event: str = "noted",
    **details: object,
) -> None:
    """shape: of the file, where it is not one of SHAPES."""
    with _writing(run_dir):
        os.makedirs(run_dir, exist_ok=True)
    with locked(run_dir):
        known = _read(run_dir, name, shape or SHAPES[name])
        wanted = change(known)
        if wanted != known:
            _write_json(run_dir, name, wanted, event, **details)


def _read(run_dir: str, name: str, shape: object) -> dict[str, Any]:
    """Failure run_damaged where the file is not of this shape: a person edited it, or another program wrote it."""
    path = os.path.join(run_dir, name)
    try:
        with open(path, encoding="utf-8") as handle:
            content: dict[str, Any] = json.load(handle)
        reason = misfit(content, shape)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        content, reason = {}, str(error)
    if reason:
        raise Failure(
            "run_damaged",
            f"{path} cannot be read: {reason}.",
            "Restore it from a copy, or choose another run_id.",
            path=path,
        )
    return content


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone(folder: str) -> Iterator[bool]:
    """True if no other process holds this folder here. This never waits."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            first = True
        except BlockingIOError:
            first = False
        yield first
    finally:
        os.close(descriptor)


def _write_json(run_dir: str, name: str, value: object, event: str = "noted", **details: object) -> None:
    _write(run_dir, {name: json.dumps(value, indent=1, sort_keys=True).encode()}, event, **details)


def _write(run_dir: str, files: dict[str, Any], event: str = "noted", **details: Any) -> None:
    """Write or, where the content is None, remove these files, in this order; nothing is done where all of them are so already."""
    if all(_content(os.path.join(run_dir, name)) == content for name, content in files.items()):
        return
    note(run_dir, event, files=ledger.digests(files), **details)
    for name, content in files.items():
        path = os.path.join(run_dir, name)
        with _writing(path):
            if content is None:
                os.unlink(path)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_whole(path, content)


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return None


def _name(run_dir: str) -> str:
    return os.path.basename(os.path.abspath(run_dir))


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Failure(
            "results_unwritable",
            f"{path} cannot be written: {error.strerror}.",
            "Make room there or correct results_dir, and run again.",
            path=path,
        ) from error
