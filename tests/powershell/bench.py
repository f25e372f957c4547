# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs cases in a PowerShell and says what became of them; see cases.py and run_cases.ps1. Standard library only."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import subprocess
import tempfile
import threading
from pathlib import Path

from cases import FOLDER, HERE, AnyFile, Bytes, Case, Json

WINDOWS = HERE.parents[1] / "plugins" / "plugin_utils" / "windows"
# A script that does not come back is broken; the others go on in another PowerShell.
LIMIT_S = 60.0
# A case whose outcome is to be looked at as text only when it is short.
LONG = 4096
BELOW = FOLDER + os.sep


def _script_text():
    """The collection's file that puts scripts together, without the collection's other code, which needs Ansible."""
    spec = importlib.util.spec_from_file_location("script_text", WINDOWS / "script_text.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script_text = _script_text()


def placed(value, folder: str):
    """The value with the case's own folder in it."""
    if isinstance(value, str):
        return value.replace(FOLDER, folder)
    if isinstance(value, dict):
        return {placed(key, folder): placed(item, folder) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [placed(item, folder) for item in value]
    return value


def furnish(folder: Path, files: dict) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder.joinpath(*name.split("/"))
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Json):
            content = json.dumps(placed(content.value, str(folder)))
        path.write_text(placed(content, str(folder)), encoding="utf-8")
        if os.name != "nt" and name.endswith(".exe"):
            path.chmod(0o755)


def left_in(folder: Path) -> dict:
    """{path: bytes, None for a folder} of all that is there."""
    return {
        path.relative_to(folder).as_posix(): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def same_file(found: bytes | None, wanted, folder: str) -> bool:
    if found is None or wanted is None:
        return found is None and wanted is None
    if isinstance(wanted, AnyFile):
        return True
    if isinstance(wanted, Bytes):
        halves = found[: len(found) // 2], found[len(found) // 2 :]
        return len(found) == wanted.size and (not wanted.different or halves[0] != halves[1][: len(halves[0])])
    if isinstance(wanted, Json):
        try:
            return wanted.value == unplaced(json.loads(found.decode("utf-8-sig")), folder)
        except ValueError:
            return False
    return found.decode("utf-8") == placed(wanted, folder)


def unplaced(value, folder: str):
    if isinstance(value, str):
        return value.replace(folder, FOLDER)
    if isinstance(value, dict):
        return {unplaced(key, folder): unplaced(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [unplaced(item, folder) for item in value]
    return value


class Bench:
    """pwsh: the program. scripts: the folder with the scripts; another one for scripts that were broken on purpose."""

    def __init__(self, pwsh: str, scripts: str | None = None):
        self.pwsh, self.scripts = pwsh, scripts or script_text.SCRIPTS

    def text(self, case: Case) -> str:
        text = script_text.script(case.script, windows_only=case.whole, scripts=self.scripts)
        return text.replace(*case.edit) if case.edit else text

    def run(self, cases: list, texts: list | None = None) -> list:
        """What is wrong with each case, a list of lines; empty where it went as expected. texts: of scripts in place of the cases' own."""
        with tempfile.TemporaryDirectory(prefix="storlab-") as temporary:
            # In full: Windows may name it in short, with a tilde.
            place = Path(os.path.realpath(temporary))
            folders, lines = [], []
            for number, case in enumerate(cases):
                folder = place / f"{number:05}"
                furnish(folder, case.files)
                folders.append(folder)
                text = texts[number] if texts else self.text(case)
                if case.as_file:
                    folder.joinpath(*case.as_file.split("/")).write_text(text, encoding="utf-8")
                lines.append(self._line(case, number, text, folder))
            answers = self._answers(lines, place)
            return [differences(case, answer, str(folder)) for case, answer, folder in zip(cases, answers, folders)]

    def answer(self, case: Case) -> dict:
        """What one case gives, as it is."""
        with tempfile.TemporaryDirectory(prefix="storlab-") as temporary:
            place = Path(os.path.realpath(temporary))
            furnish(place / "case", case.files)
            (answer,) = self._answers([self._line(case, 0, self.text(case), place / "case")], place)
        if "bench_error" in answer:
            raise RuntimeError(answer["bench_error"])
        return answer

    @staticmethod
    def _line(case: Case, number: int, text: str, folder: Path) -> str:
        return json.dumps(
            {
                "name": str(number),
                "script": text,
                "file": str(folder.joinpath(*case.as_file.split("/"))) if case.as_file else None,
                "parameters": placed(case.given, str(folder)),
                "secret": list(case.secret) if case.secret else None,
                "check": case.check,
                "world": str(HERE / "worlds" / f"{case.world}.ps1"),
                "change": placed(case.change, str(folder)),
                "folder": str(folder),
                "stand_ins": case.stand_ins,
            }
        )

    def _answers(self, lines: list, place: Path) -> list:
        found: list = []
        while len(found) < len(lines):
            (place / "cases.jsonl").write_text("\n".join(lines[len(found) :]) + "\n", encoding="ascii")
            answers = self._batch(place)
            if not answers:
                said = (place / "errors").read_text("utf-8", "replace")[-LONG:]
                if not found:
                    raise RuntimeError(f"{self.pwsh} gave no answer:\n{said}")
                # This script has ended its PowerShell.
                answers = [{"bench_error": f"PowerShell ended: {said}"}]
            found += answers
        return found

    def _batch(self, place: Path) -> list:
        """Answers until the end, or until one that does not come."""
        command = [
            self.pwsh,
            "-NoProfile",
            "-NonInteractive",
            "-ExecutionPolicy",
            "Bypass",
            "-File",
            str(HERE / "run_cases.ps1"),
        ]
        command += ["-Cases", str(place / "cases.jsonl"), "-Cmdlets", str(HERE / "cmdlets.json")]
        command += ["-StandIns", str(HERE / "stand_ins.psm1"), "-Place", str(place)]
        found: list = []
        with (
            open(place / "errors", "w", encoding="utf-8") as errors,
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                encoding="ascii",
                errors="replace",
            ) as shell,
        ):
            spoken: queue.Queue = queue.Queue()

            def listen() -> None:
                # What a PowerShell that was ended has started may hold its output open until that is closed here.
                with contextlib.suppress(ValueError):
                    for line in shell.stdout:
                        spoken.put(line)
                spoken.put(None)

            listener = threading.Thread(target=listen, daemon=True)
            listener.start()
            try:
                while (line := spoken.get(timeout=LIMIT_S)) is not None:
                    if line.startswith("{"):
                        found.append(json.loads(line))
            except queue.Empty:
                shell.kill()
                listener.join(timeout=5)
                found.append({"bench_error": f"it did not come back within {LIMIT_S:.0f} s"})
        return found


def differences(case: Case, answer: dict, folder: str) -> list:
    if "bench_error" in answer:
        return [f"no answer: {answer['bench_error']}"]
    answer = unplaced(answer, folder)
    # The folders above the case's own are the machine's.
    above = [
        one
        for one in answer["calls"]
        if one["name"] == "Read-FolderRights" and _is_above(one["parameters"].get("Path"))
    ]
    answer["calls"] = [one for one in answer["calls"] if one not in above]
    wanted = {
        "failed": case.error is not None,
        "error": case.error,
        "changed": case.changed,
        "result": case.result,
        "output": [],
        "calls": [{"name": name, "parameters": parameters} for name, parameters in case.calls],
    }
    if case.stand_ins:
        wanted["registry"] = case.registry
    wrong = []
    for key, value in wanted.items():
        # The expectation is asked: it may be one that is equal to many.
        if not (value == answer[key]):  # noqa: SIM201
            wrong.append(f"{key}: expected {value!r}, got {answer[key]!r}")
    files = left_in(Path(folder))
    if case.as_file:
        files.pop(case.as_file, None)
    expected = case.files if case.left is None else case.left
    whole = {parent: None for name in expected for parent in _parents(name)} | expected
    for name in sorted(set(files) | set(whole)):
        if name not in files or name not in whole:
            wrong.append(f"file {name}: {'is missing' if name in whole else 'is there'}")
        elif not same_file(files[name], whole[name], folder):
            wrong.append(f"file {name}: expected {whole[name]!r}, got {(files[name] or b'')[:LONG]!r}")
    return wrong


def _is_above(path: object) -> bool:
    """Whether this names a folder outside the case's own. A call without a path, or with a list of them, is one that no script should make."""
    return isinstance(path, str) and not path.startswith(BELOW)


def _parents(name: str) -> list:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
