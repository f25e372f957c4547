# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders the report of a stored run; documentation in plugins/modules/report.py."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ..module_utils.failure import Failure, bad_value
from ..module_utils.report import index, junit, load, model, render, scrub, static
from ..module_utils.store import runs

FILES = (*render.FILES, "junit.xml")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHARTS = "charts"
DRAWING_S = 60


def plan(folder: str, desired: dict) -> list[dict]:
    """[{path, text}] of what differs from what is wanted; a text of None is a file to remove, and a picture is drawn of its text."""
    steps = []
    for name, text in desired.items():
        path = os.path.join(folder, name)
        found = _read(path)
        if name.endswith(".png") and text is not None:
            differs = found is None or static.source_of(found) != hashlib.sha256(text.encode()).hexdigest()
        else:
            differs = found != (None if text is None else _bytes(text))
        if differs:
            steps.append({"path": path, "text": text})
    return steps


def apply(folder: str, steps: list[dict], browser: str | None = None) -> None:
    """browser: the program that draws pictures."""
    for step in steps:
        if step["text"] is None:
            os.unlink(step["path"])
            continue
        content = _drawn(step["text"], browser) if step["path"].endswith(".png") else _bytes(step["text"])
        os.makedirs(os.path.dirname(step["path"]), exist_ok=True)
        # Replaced whole: somebody may have the old report open.
        handle, temporary = tempfile.mkstemp(dir=os.path.dirname(step["path"]))
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, step["path"])
    for left in (os.path.join(folder, CHARTS), folder):
        if os.path.isdir(left) and not os.listdir(left):
            os.rmdir(left)


def _bytes(text: str) -> bytes:
    # Half a character, as fio's words may hold, is in no file.
    return text.encode("utf-8", "replace")


def _read(path: str) -> bytes | None:
    if not os.path.exists(path):
        return None
    with open(path, "rb") as handle:
        return handle.read()


def text_of(path: str) -> str:
    return (_read(path) or b"").decode("utf-8", errors="replace")


def _browser() -> str:
    """A headless Chromium draws what any browser would; nothing that Ansible brings can draw a PNG."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if not found:
        raise Failure("browser_missing", f"The PNG pictures that static asks for are drawn by Chromium, and none of {', '.join(BROWSERS)} is installed on the "
                      "controller.", "Install one of them, or ask for svg alone.", programs=list(BROWSERS))
    return found


def _drawn(svg: str, browser: str) -> bytes:
    """The chart as PNG, two pixels a unit."""
    width, height = static.size(svg)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (os.path.join(folder, name) for name in ("chart.svg", "chart.png"))
        with open(source, "wb") as handle:
            handle.write(_bytes(svg))
        # The sandbox of Chromium does not start for root; what is drawn is our own and has no script.
        command = [browser, "--headless", *(["--no-sandbox"] if os.geteuid() == 0 else []), "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--disable-background-networking", "--hide-scrollbars", "--force-device-scale-factor=2", f"--user-data-dir={folder}/profile",
                   f"--window-size={width},{height}", f"--screenshot={target}", f"file://{source}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=DRAWING_S, check=False)
            said = done.stderr.strip()[-500:]
        except subprocess.TimeoutExpired:
            said = f"it was not done after {DRAWING_S} s"
        picture = _read(target)
    if picture is None:
        raise Failure("browser_failed", f"{browser} drew no picture: {said or 'it said nothing'}.", "Repair the browser, or ask for svg alone.",
                      program=browser)
    return static.with_source(picture, hashlib.sha256(svg.encode()).hexdigest())


class ActionModule(ActionBase):
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("results_dir", "testbed_id", "run_id", "run_dir", "title", "state", "scrub", "static", "index"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        try:
            result.update(self._report(self._task.args))
        except Failure as failure:
            result.update(failed=True, **failure.as_result())
        except OSError as error:
            unwritable = Failure("report_unwritable", f"The report cannot be written: {error}.", "Give the controller's user the right to write there.",
                                 path=error.filename)
            result.update(failed=True, **unwritable.as_result())
        return result

    def _report(self, args: dict) -> dict:
        state = args.get("state") or "present"
        if state not in ("present", "absent"):
            raise bad_value("state", state, "Use present or absent.")
        scrubbed, listed, formats = _flag(args, "scrub", False), _flag(args, "index", True), _formats(args.get("static"))
        run_dir = self._run_dir(args)
        folder, testbed_dir = os.path.join(run_dir, "report"), os.path.dirname(run_dir)
        found = {"run_dir": run_dir, "report_dir": folder, "index": os.path.join(folder, "index.html")}
        browser = _browser() if state == "present" and "png" in formats else None
        if state == "present":
            run = load.read_run(run_dir)
            # Only where a run lies as benchmark stores it does the folder above belong to its testbed.
            listed = listed and (os.path.basename(testbed_dir), os.path.basename(run_dir)) == (run.testbed_id, run.run_id)
            names = scrub.Pseudonyms([run]) if scrubbed else None
            title = args.get("title") or None
            report = names.unlinked(model.build(names.run(run), title and names.text(title))) if names else model.build(run, title)
            desired = {**render.render(report), "junit.xml": junit.junit(report)}
            drawn = static.pictures(report, desired["index.html"]) if formats else {}
            desired.update({f"{os.path.splitext(name)[0]}.{form}": text for name, text in drawn.items() for form in formats})
            found.update(testbed_id=report.testbed_id, run_id=report.run_id, verdict=report.verdict, summary=render.summary(report), table=render.table(report),
                         points=len(report.points), points_failed=len(report.failed), damaged=report.damaged, flags=report.flags)
        else:
            desired = dict.fromkeys(FILES)
            listed = listed and _listing(testbed_dir)
        wanted = [name for name, text in desired.items() if text is not None]
        desired.update(dict.fromkeys(name for name in _charts(folder) if name not in desired))
        found["files"] = {name: os.path.join(folder, name) for name in wanted or FILES}
        steps = plan(folder, desired)
        if listed:
            steps += plan(testbed_dir, _index(testbed_dir, os.path.basename(run_dir), state == "present"))
            found["runs"] = os.path.join(testbed_dir, "index.html")
        if self._task.diff:
            found["diff"] = [{"before_header": step["path"], "after_header": step["path"], "before": text_of(step["path"]), "after": step["text"] or ""}
                             for step in steps if step["path"].endswith(".md")]
        if not self._task.check_mode:
            apply(folder, steps, browser)
        return {"changed": bool(steps), "written" if state == "present" else "removed": [step["path"] for step in steps], **found}

    def _run_dir(self, args: dict) -> str:
        run_dir, results_dir, testbed_id = (args.get(name) or None for name in ("run_dir", "results_dir", "testbed_id"))
        if run_dir and (results_dir or testbed_id):
            raise bad_value("run_dir", run_dir, "Give either run_dir, or results_dir and testbed_id.")
        if run_dir:
            return os.path.abspath(os.path.expanduser(str(run_dir)))
        if not (results_dir and testbed_id):
            raise bad_value("run_dir", run_dir, "Give run_dir, or results_dir and testbed_id.")
        return os.path.abspath(load.find_run(os.path.expanduser(str(results_dir)), str(testbed_id), str(args.get("run_id") or "latest")))


def _flag(args: dict, name: str, default: bool) -> bool:
    try:
        return boolean(args.get(name, default))
    except TypeError:
        raise bad_value(name, args[name], "Use true or false.") from None


def _formats(given) -> list:
    # As any list of a module may come from a command line.
    formats = [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given or []
    if not isinstance(formats, list) or not set(map(str, formats)) <= {"svg", "png"}:
        raise bad_value("static", given, "List svg, png or both.")
    return sorted(set(formats))


def _charts(folder: str) -> list:
    """The pictures that an earlier report left."""
    charts = os.path.join(folder, CHARTS)
    return [f"{CHARTS}/{name}" for name in sorted(os.listdir(charts) if os.path.isdir(charts) else []) if name.endswith((".svg", ".png"))]


def _listing(testbed_dir: str) -> bool:
    """Whether the folder has a page of all runs that is ours."""
    return index.SCHEMA in text_of(os.path.join(testbed_dir, "index.json"))


def _index(testbed_dir: str, run: str, present: bool) -> dict:
    """The files of the page of all runs, as it is with or without this run's report; without any report there is none."""
    names = {os.path.basename(folder) for folder in runs(*os.path.split(testbed_dir))}
    reported = {name for name in names if os.path.isfile(os.path.join(testbed_dir, name, "report", "index.html"))} - {run} | ({run} if present else set())
    return index.files(index.build(testbed_dir, reported)) if reported else dict.fromkeys(index.FILES)
