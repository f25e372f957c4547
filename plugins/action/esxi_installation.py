# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps what was timed in the folder of a run; documentation in plugins/modules/esxi_installation.py."""

from __future__ import annotations

import hashlib
import json
import os
from typing import ClassVar

from ansible.module_utils.basic import env_fallback

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.files import read_json
from ..module_utils.core.names import check_name, check_testbed_id
from ..module_utils.core.times import unix_s
from ..module_utils.esxi import counters_result, installation, session
from ..module_utils.esxi.installation import counted, line
from ..module_utils.esxi.installation_plan import SCHEMA, named
from ..plugin_utils.action import AroundModule
from ..plugin_utils.store import run_folder

MODULE = "storlab.testbed.esxi_installation"


class ActionModule(AroundModule):
    SPEC: ClassVar[dict] = {**session.spec(env_fallback), **installation.SPEC}

    def perform(self, args: dict) -> dict:
        results_dir, layer, image = (args.pop(key, None) for key in ("results_dir", "layer", "image"))
        guest = args.pop("guest", None) or args.get("name")
        repetition = args.get("repetition")
        name = named(str(guest), repetition)
        run_dir = file = None
        if results_dir:
            check_testbed_id("testbed_id", args.get("testbed_id"))
            for key, value in (("run_id", args.get("run_id")), ("guest", guest)):
                check_name(key, str(value or ""))
            run_dir = os.path.join(self._loader.path_dwim(results_dir), args["testbed_id"], str(args["run_id"]))
            file = os.path.join(run_dir, "installations", f"{name}.json")
            known = read_json(file)
            if known:
                return {"changed": False, "installation": known, "line": line(known), "file": file}
        answer = self._execute_module(module_name=MODULE, module_args=args, task_vars=self.task_vars)
        samples, clock, missed = (answer.pop(key, None) for key in ("samples", "clock", "counters_missed"))
        if answer.get("failed") or "installation" not in answer:
            return answer
        host = self.task_vars["inventory_hostname"]
        timed = {
            "schema": SCHEMA,
            "testbed_id": args["testbed_id"],
            "run_id": str(args["run_id"]),
            "guest": guest,
            "host": host,
            "clock": clock,
            "product": answer["about"]["product"],
            **({"layer": layer} if layer else {}),
            **({} if repetition is None else {"repetition": repetition}),
            **({"medium": digest(self._loader.path_dwim(image))} if image else {}),
            **answer["installation"],
        }
        content, kept = None, {}
        try:
            if samples is None:
                raise Failure("not_observed", missed, "")
            span = [unix_s(timed[key]) for key in ("started_utc", "finished_utc")]
            kept = counters_result.cut(samples, *span, {"naa": None, "datastore": timed["datastore"], "serials": set()})
            timed["counters"] = counted(kept, *span, timed["datastore"])
            content = json.dumps(kept, indent=1, sort_keys=True).encode()
            timed["counters"]["raw"] = {"file": f"samples/{name}.json", "sha256": hashlib.sha256(content).hexdigest()}
        except Failure as failure:
            timed["counters_missed"] = failure.what
        if answer["about"].get("stand_in"):
            timed["simulated"] = True
        if run_dir and not self._task.check_mode:
            keep(run_dir, file, timed, content)
            run_folder.remember_clock(run_dir, host, clock)
            if content and not run_folder.environment(run_dir, host):
                run_folder.write_host(run_dir, host, counters_result.environment(kept))
        return {**answer, "installation": timed, "line": line(timed), **({"file": file} if file else {})}


def digest(image: str) -> str:
    """SHA-256 of the image: only times of the same image are compared."""
    try:
        with open(image, "rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except OSError as error:
        raise bad_value("image", image, f"Name a file that can be read on the controller ({error.strerror}).") from None


def keep(run_dir: str, file: str, timed: dict, samples: bytes | None) -> None:
    """installations/<guest>.json, after the samples that its figures are of."""
    place = os.path.relpath(os.path.dirname(file), run_dir)
    files = {} if samples is None else {f"{place}/{timed['counters']['raw']['file']}": samples}
    try:
        run_folder.write_files(
            run_dir,
            {**files, f"{place}/{os.path.basename(file)}": json.dumps(timed, indent=1, sort_keys=True).encode()},
        )
    except Failure as error:
        raise Failure(
            "results_unwritable",
            error.what,
            "Make room there or correct results_dir, and run again with the same run_id: the machine remembers its installation.",
            path=run_dir,
        ) from error
