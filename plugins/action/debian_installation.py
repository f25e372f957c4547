# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs Debian on a guest's disk, times it and keeps the time; documentation in plugins/modules/debian_installation.py."""

from __future__ import annotations

import hashlib
import json
import os
from typing import ClassVar

from ..module_utils.core.failure import Failure, bad_value
from ..module_utils.core.files import read_json
from ..module_utils.core.names import check_name, check_testbed_id
from ..plugin_utils.action import CollectionAction
from ..plugin_utils.store import installations, run_folder

RUN_MODULE = "storlab.testbed.debian_installation_run"


class ActionModule(CollectionAction):
    TRANSFERS_FILES = True  # the packages go to a folder of the task on the host, which goes with it
    SPEC: ClassVar[dict] = {
        **{key: {"type": "str", "required": True} for key in ("testbed_id", "run_id", "layer")},
        "results_dir": {"type": "path", "required": True},
        "medium": {"type": "dict", "required": True},
        "repetition": {"type": "int", "default": 1},
        "timeout_s": {"type": "int", "default": 3600},
    }
    UNWRITABLE = ("results_unwritable", "The results")

    def perform(self, params: dict) -> dict:
        check_testbed_id("testbed_id", params["testbed_id"])
        check_name("run_id", params["run_id"])
        if params["repetition"] < 1:
            raise bad_value("repetition", params["repetition"], "Use 1, 2, 3 and so on.")
        layers = self.task_vars.get("ansible_facts", {}).get("storlab_layers") or {}
        layer = layers.get(params["layer"])
        if not layer or layer["host"] != self.task_vars["inventory_hostname"]:
            raise Failure(
                "layer_missing",
                f"layer is {params['layer']!r}, which was never published on this host.",
                "Run build first, and name a layer of this host.",
                layer=params["layer"],
            )
        run_dir = os.path.join(self._loader.path_dwim(params["results_dir"]), params["testbed_id"], params["run_id"])
        name = installations.name_of(params["layer"], params["repetition"])
        known = read_json(os.path.join(run_dir, installations.file_of(name)))
        if known:
            if known["medium"] != params["medium"]["index_sha256"]:
                raise Failure(
                    "installation_differs",
                    f"Run {params['run_id']} has installation {name} already, of other packages.",
                    "Name another testbed_run_id, or the same packages.",
                    name=name,
                )
            return {"changed": False, "installation": known, "line": installations.line(known)}
        if self._task.check_mode:
            return {"changed": True}
        run_folder.refuse_unfit(run_dir)
        wanted = {
            "testbed_id": params["testbed_id"],
            "layer": layer,
            "layers": layers,
            "index_sha256": params["medium"]["index_sha256"],
            "bytes": params["medium"]["bytes"],
        }
        if not self._on_host(wanted, action="look")["there"]:
            self._put(wanted, params["medium"]["path"])
        answer = self._on_host(wanted, action="install", timeout_s=params["timeout_s"])
        timed = installations.of_debian(params, layer, answer["installation"])
        self._keep(run_dir, name, timed, answer, layers)
        return {"changed": True, "installation": timed, "line": installations.line(timed)}

    def _put(self, wanted: dict, path: str) -> None:
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "packages")
        self._transfer_file(path, remote)
        self._on_host(wanted, action="put", source=remote)

    def _on_host(self, wanted: dict, **more) -> dict:
        done = self._execute_module(module_name=RUN_MODULE, module_args={**wanted, **more}, task_vars=self.task_vars)
        if done.get("failed"):
            raise Failure.of_result(done)
        return done

    def _keep(self, run_dir: str, name: str, timed: dict, answer: dict, layers: dict) -> None:
        """The time last, because one without what it is of could not be traced."""
        raw = json.dumps({key: answer[key] for key in ("installation", "log")}, indent=1, sort_keys=True).encode()
        timed["counters"]["raw"] = {"file": f"samples/{name}.json", "sha256": hashlib.sha256(raw).hexdigest()}
        run_folder.add_layers(run_dir, layers)
        if not run_folder.environment(run_dir, timed["host"]):
            run_folder.write_host(run_dir, timed["host"], answer["environment"])
        run_folder.write_files(
            run_dir,
            {
                f"installations/samples/{name}.json": raw,
                installations.file_of(name): json.dumps(timed, indent=1, sort_keys=True).encode(),
            },
        )
