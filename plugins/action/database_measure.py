# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the load on a host's database and keeps it as a point; documentation in plugins/modules/database_measure.py."""

from __future__ import annotations

import json
import os
from typing import ClassVar

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.names import check_name, check_testbed_id
from ..module_utils.engines import databases
from ..module_utils.result.result import without_none
from ..module_utils.run import database as load
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import database, run_folder


class ActionModule(CollectionAction):
    SPEC: ClassVar[dict] = {
        **load.SPEC,
        "run_id": {"type": "str", "required": True},
        "results_dir": {"type": "path", "required": True},
        "layer": {"type": "str", "required": True},
        "repetition": {"type": "int", "default": 1},
        "variant": {"type": "str"},
        "published": {"type": "list", "elements": "dict", "default": [], "options": database.PUBLISHED},
    }
    UNWRITABLE = ("results_unwritable", "The results")

    def perform(self, args: dict) -> dict:
        check_testbed_id("database_load_testbed_id", args["testbed_id"])
        check_name("database_load_run_id", args["run_id"])
        if args["variant"]:
            check_name("database_load_variant", args["variant"])
        if args["repetition"] < 1:
            raise bad_value("repetition", args["repetition"], "Use 1, 2, 3 and so on.")
        load.check_values(args)
        layers = self.task_vars.get("ansible_facts", {}).get("storlab_layers") or {}
        layer = layers.get(args["layer"])
        if not layer:
            raise Failure(
                "layer_missing",
                f"database_load_layer is {args['layer']!r}, which was never published on this host.",
                "Run the role datastore first, on this host.",
                layer=args["layer"],
            )
        run_dir = os.path.join(self._loader.path_dwim(args["results_dir"]), args["testbed_id"], args["run_id"])
        point = database.point_of(args)
        known = run_folder.stored(run_dir, [point])
        if known:
            result = known[point["point_id"]]
            return {"changed": False, **self._answer(result)}
        if self._task.check_mode:
            return {"changed": True, "point_id": point["point_id"]}
        run_folder.refuse_unfit(run_dir)
        arguments = {key: args[key] for key in load.SPEC}
        answer = self._execute_module(
            module_name="storlab.testbed.database_measure_run", module_args=arguments, task_vars=self.task_vars
        )
        if answer.get("failed"):
            raise Failure.of_result(answer)
        result = self._keep(run_dir, args, point, layers, answer)
        if result["status"] != "measured":
            raise Failure(
                "points_failed",
                database.line(result),
                "Earlier points stay; measure this one again under the same run_id when the reason is gone.",
                point_id=point["point_id"],
                failures=[failure["code"] for failure in result["failures"]],
            )
        return {"changed": True, **self._answer(result)}

    def _keep(self, run_dir: str, args: dict, point: dict, layers: dict, answer: dict) -> dict:
        planned = database.planned(point, layers[args["layer"]], args["testbed_id"], args["run_id"])
        files = {
            databases.RAWS[planned["asked"]["engine"]]: _json(answer["raw"]),
            "meta.json": _json(answer["meta"]),
            run_folder.POINT: _json(planned),
        }
        result = database.read_point(planned["point"], planned["layer"], planned["asked"], files)
        host, variant = layers[args["layer"]]["host"], args["variant"]
        request = {
            "engine": planned["asked"]["engine"],
            "workloads": [point["workload"]],
            **({"published": [without_none(figure) for figure in args["published"]]} if args["published"] else {}),
            **({"variant": variant} if variant else {}),
        }
        run_folder.add_request(run_dir, {key: args[key] for key in ("testbed_id", "run_id")}, request, host)
        run_folder.add_layers(run_dir, layers, variant, {args["layer"]})
        run_folder.write_host(run_dir, host, answer["environment"], variant)
        run_folder.write_point(run_dir, point["point_id"], result, files)
        return result

    @staticmethod
    def _answer(result: dict) -> dict:
        return {"point_id": result["point_id"], "result": database.summary(result), "line": database.line(result)}


def _json(value: dict) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()
