# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a host about a run, taken no further than a host can speak for: its own layers, points of them, and the time of the run.

A run that another call began is known by the plan that is on the host. Whoever took that host over could name the layers of another host there, or points
of another day, and what it packs would be kept as theirs. So each of its points is made again here, of the layers that the controller knows, and must come
out the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from ...module_utils.core import times
from ...module_utils.core.failure import Failure
from ...module_utils.core.layers import Layer
from ...module_utils.core.shape import NUMBER, misfit, parse
from ...module_utils.result.schema import Meta
from ...module_utils.workload.point import Point
from ..store import ledger, run_folder
from ..store.archive import meta_of
from . import plan as plans

LARGEST_BYTES, MOST_VALUES = 64 << 20, 2_000_000
POINT = {"point_id": str, "layer": str, "workload": dict, "repetition": int, "variant?": str, "servers?": [dict]}
PLAN = {"plan": {"points": [POINT], "layers": [{"name": str}], "prepare": dict, "steady_state?": (dict, type(None))}}
STATE = {
    "status": str,
    **dict.fromkeys(("point?", "points?", "repetition?", "repetitions?", "failed?", "done?"), int),
    **dict.fromkeys(("phase?", "layer?", "workload_id?"), str),
    **dict.fromkeys(("remaining_s?", "updated?", "elapsed_s?"), NUMBER),
    **dict.fromkeys(("phase_s?", "iops?"), (*NUMBER, type(None))),
}
# How far a time of a point may be outside of the run: to ask a host for its clock takes a while, and ends of a run are known to the second.
TOLERANCE_S = 120.0


def plan(host: str, text: str) -> dict[str, Any]:
    """The plan of a run that is on the host."""
    whole: dict[str, Any] = _read(host, "plan.json", text, PLAN)
    own: dict[str, Any] = whole["plan"]
    return own


def state(host: str, text: str) -> dict[str, Any]:
    """The supervisor's note of its progress; ValueError where the text is not JSON."""
    own: dict[str, Any] = _read(host, "state.json", text, STATE)
    return own


def clock(host: str, text: str) -> float:
    """Seconds since 1970 by the host, of what ``date +%s`` says."""
    words = text.split()
    if not words or not words[-1].isascii() or not words[-1].isdigit() or len(words[-1]) > 12:
        raise _unfit(host, f"to the question for its clock: {text.strip()[-80:]!r}")
    return float(words[-1])


def _read(host: str, name: str, text: str, shape: object) -> Any:
    try:
        content = parse(text.encode("utf-8", "surrogatepass"), LARGEST_BYTES, MOST_VALUES)
    except ValueError as error:
        raise _unfit(host, f"as {name} of the run: {error}") from None
    reason = misfit(content, shape)
    if reason:
        raise _unfit(host, f"as {name} of the run: {reason}")
    return content


def _unfit(host: str, what: str) -> Failure:
    return Failure(
        "host_answer_unfit",
        f"{host} gave an answer that no runner gives, {what}.",
        "Find out who else can write to the run on that host; a teardown with benchmark_discard removes it.",
        host=host,
    )


def points(host: str, theirs: dict[str, Any], request: Mapping[str, object], known: Iterable[Layer]) -> dict[str, Any]:
    """{point_id: (point, layer)} of a plan that is on the host; 'foreign_points' for any that are not its own to measure.

    request: engine, testbed_id and run_id. known: the layers that the controller knows, in every state in which it knows them. The plan's own are not used.
    """
    own: dict[str, list[Layer]] = {}
    for layer in known:
        if layer.get("host") == host:
            own.setdefault(layer["name"], []).append(layer)
    taken = {}
    for point in theirs["points"]:
        for layer in own.get(point["layer"], ()):
            if _made_again(point, layer, theirs, request) == {
                key: part for key, part in point.items() if key != "order"
            }:
                taken[point["point_id"]] = (point, layer)
                break
        else:
            raise _foreign(
                host,
                f"point {point['point_id'][:120]!r}, which does not belong to a layer of this host that the controller knows",
            )
    return taken


def known_layers(run_dir: str, given: Iterable[Layer] = ()) -> list[Layer]:
    """Each layer that the controller knows, in every state: as given, and as the run's own file has it, each variant apart."""
    kept = run_folder.layers(run_dir).values()
    return [*given, *kept, *(state for layer in kept for state in layer.get("variants", {}).values())]


def _made_again(
    point: Point, layer: Layer, theirs: Mapping[str, object], request: Mapping[str, object]
) -> Point | None:
    """The point as the controller would make it; None where it cannot be made."""
    options = {
        "run_id": request["run_id"],
        "engine": request["engine"],
        "variant": point.get("variant"),
        "servers": point.get("servers", []),
        "prepare": theirs["prepare"],
        "steady_state": theirs.get("steady_state"),
    }
    try:
        return plans.make_point(options, point["workload"], layer, point["repetition"])
    except (ArithmeticError, AttributeError, Failure, IndexError, KeyError, TypeError, ValueError):
        return None


class Span:
    """From when to when the controller saw a run, to hold the times of its points against.

    begun_s: by the controller's clock, None where it does not know. A host may have another clock, and one that is set at that time: what it showed at any of
    the times it was asked is taken.
    """

    def __init__(self, host: str, begun_s: float | None) -> None:
        self.host, self.begun_s = host, begun_s
        self.ahead_s: set[float] = set()

    def shows(self, host_s: float, sent_s: float) -> None:
        """The host showed this time; sent_s: when it was asked, by the controller's clock."""
        self.ahead_s.add(host_s - sent_s)

    def refuse_outside(self, files: dict[str, dict[str, bytes]]) -> None:
        """'foreign_points' where one of these points began or ended outside of the run. files: {point_id: {file name: content}}."""
        for point_id in sorted(files):
            self._refuse(point_id, meta_of(files[point_id]) or {})

    def _refuse(self, point_id: str, meta: Meta) -> None:
        now = time.time()
        moments: tuple[Literal["started_utc", "finished_utc"], ...] = ("started_utc", "finished_utc")
        for key in moments:
            try:
                by_host = times.unix_s(meta[key])
            except (KeyError, ValueError, OverflowError):
                continue  # not measured, or unusable, which fails the point
            begun_s = float("-inf") if self.begun_s is None or self.begun_s > now else self.begun_s
            if not any(begun_s - TOLERANCE_S <= by_host - ahead_s <= now + TOLERANCE_S for ahead_s in self.ahead_s):
                since = "" if self.begun_s is None else f" that began {times.utc(self.begun_s)}"
                raise _foreign(
                    self.host, f"point {point_id}, {key} {meta[key]}, for a run{since}; it was not measured in this run"
                )


def first_seen_s(testbed_dir: str, run_id: str) -> float | None:
    """When the ledger first named the run; None where it does not."""
    lines, _findings = ledger.read(testbed_dir)
    seen = next((line for line in lines if line.get("run") == run_id), {})
    try:
        return times.unix_s(str(seen.get("utc")))
    except ValueError:
        return None


def _foreign(host: str, what: str) -> Failure:
    return Failure(
        "foreign_points",
        f"{host} handed over {what}. Nothing of it is kept.",
        "A host can speak for itself alone: find out who wrote that there. If its layers or its clock were changed since the run began, "
        "delete the run on the host by a teardown with benchmark_discard, and measure again.",
        host=host,
    )
