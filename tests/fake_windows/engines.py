# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio, diskspd and IOMeter on the stand-in: tasks that run them, the files they leave, and the modules that install them.

Time is real: a run has ended when as many seconds have passed as the engine would have taken. What an engine writes is counted and not kept.
A host's data may hold: account, console_user, programs {path: {engine, version}}, downloads {url: {sha256, installs: {path: program}}},
foreign_folders [path] that belong to somebody else, unstarted_s (how long a task that did not start counts as starting), and
beside [what others run beside the program, 'Dynamo.exe (77)'], late_ms and clock_step_ms as the runner notes them,
engine_faults [text], of which each run takes the first: crash, hang, killed, lost, io_errors, no_output, iometer_error, iometer_all_zero,
iometer_abort_after:N,
iometer_other_day (its stamps are of another day), logged_off, and pause (of the storage, for three tenths of the measured time; fio alone).
"""

from __future__ import annotations

import base64
import json
import re
import time

import fake_diskspd
import fake_fio
import fake_iometer
from fake_program import STDERR, STDOUT, Started
from refused import Refused

PROGRAMS = {"fio": fake_fio.run, "diskspd": fake_diskspd.run, "iometer": fake_iometer.run}
ACCESS_VIOLATION = -1073741819
HAS_NOT_RUN = 267011


def split_arguments(line: str) -> list:
    """A command line as the C runtime of Windows divides it."""
    found, word, quoted, there, position = [], "", False, False, 0
    while position < len(line):
        slashes = len(line[position:]) - len(line[position:].lstrip("\\"))
        position += slashes
        if slashes and line[position : position + 1] == '"':
            word, there = word + "\\" * (slashes // 2), True
            if slashes % 2:
                word, position = word + '"', position + 1
            continue
        if slashes:
            word, there = word + "\\" * slashes, True
            continue
        character, position = line[position], position + 1
        if character == '"':
            quoted, there = not quoted, True
        elif character in " \t" and not quoted:
            found, word, there = found + ([word] if there else []), "", False
        else:
            word, there = word + character, True
    return found + ([word] if there else [])


def iso(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


class Engines:
    """Scripts that run an engine, and modules that install one."""

    # ---- what is on the host

    @property
    def folders(self) -> dict:
        return self.data["folders"]

    @property
    def tasks(self) -> dict:
        return self.data["tasks"]

    def _account(self) -> str:
        return self.data.get("account", f"{self.name.upper()}\\Administrator")

    def _program(self, name: str) -> tuple:
        """(full path, program) of a path, or of a name that is searched for in the folders of all programs."""
        wanted = name.lower() if name.lower().endswith(".exe") else f"{name.lower()}.exe"
        for path, program in self.data.get("programs", {}).items():
            if wanted in (path.lower(), path.lower().rpartition("\\")[2]) and (
                "\\" not in wanted or wanted == path.lower()
            ):
                return path, program
        return None, None

    def file_size(self, path: str) -> int | None:
        """Size of a file on a volume, None when there is none. A second name is as good as the first."""
        entry = self._file_entry(self.data.get("links", {}).get(path, path))
        return entry["size_bytes"] if entry else None

    def _file_entry(self, path: str) -> dict | None:
        for disk in self.data["disks"].values():
            volume = disk["volumes"].get(path[:1].upper()) if path[1:3] == ":\\" else None
            for entry in volume["entries"] if volume else ():
                if entry["name"].lower() == path[3:].lower() and entry["size_bytes"] is not None:
                    return entry
        return None

    def script_volume_look(self, Folder: str, File: str, LeastBytes: int, MostEntries: int, MostS: int) -> dict:
        """The volumes of others have files with the time when they were made; MostEntries and MostS are never reached."""
        if not (LeastBytes > 0 and MostEntries > 0 and MostS > 0):
            raise Refused("a search without a limit")
        letter = Folder[:1].upper()
        online = [disk["volumes"] for disk in self.data["disks"].values() if not disk["offline"]]
        volume = next((volumes[letter] for volumes in online if letter in volumes), None)
        if volume is None:
            return {"volume": "", "filesystem": "", "label": "", "file": None}
        inside = f"{Folder[3:]}\\".lower() if Folder[3:] else ""
        files = [
            (entry["size_bytes"], f"{Folder[:3]}{entry['name']}", entry.get("created", "638000000000000001"))
            for entry in volume["entries"]
            if entry["size_bytes"] is not None and entry["name"].lower().startswith(inside)
        ]
        fit = [file for file in files if (file[1].lower() == File.lower() if File else file[0] >= LeastBytes)]
        size, path, created = max(fit, default=(0, "", ""))
        return {
            "volume": volume.get("unique_id", f"volume {letter}"),
            "filesystem": volume["filesystem"],
            "label": volume["label"],
            "file": {"path": path, "size_bytes": size, "created": created} if path else None,
        }

    # ---- a folder of the testbed's own in one of others. A folder is an entry without a size; its names begin with its own.

    def _in_folder(self, path: str) -> tuple[dict | None, list]:
        """(volume, its entries that are in the folder)."""
        online = [disk["volumes"] for disk in self.data["disks"].values() if not disk["offline"]]
        volume = next((volumes[path[:1].upper()] for volumes in online if path[:1].upper() in volumes), None)
        inside = f"{path[3:]}\\".lower()
        entries = volume["entries"] if volume else []
        return volume, [entry for entry in entries if entry["name"].lower().startswith(inside)]

    def script_own_look(self, Folder: str, Own: str, Stamp: str, File: str) -> dict:
        volume, inside = self._in_folder(Own)
        if volume is None or not Own.lower().startswith(Folder.rstrip("\\").lower() + "\\"):
            return {"volume": "", "filesystem": "", "size_bytes": 0, "free_bytes": 0, "own": None}
        place = next((entry for entry in volume["entries"] if entry["name"].lower() == Own[3:].lower()), None)
        named = {entry["name"].rpartition("\\")[2]: entry for entry in inside}
        plain = place is not None and place["size_bytes"] is None and not place.get("link")
        measured = named.get(File, {})
        own = {
            "plain": plain,
            "names": sorted(named) if plain else [],
            "stamp": named.get(Stamp, {}).get("text", "") if plain else "",
            "size_bytes": measured.get("size_bytes") if plain and not measured.get("link") else None,
        }
        return {
            "volume": volume.get("unique_id", f"volume {Own[:1].upper()}"),
            "filesystem": volume["filesystem"],
            "size_bytes": volume["size_bytes"],
            "free_bytes": volume["size_bytes"] - sum(entry["size_bytes"] or 0 for entry in volume["entries"]),
            "own": own if place else None,
        }

    def script_own_new(self, Own: str, Stamp: str, Content: str) -> None:
        volume, inside = self._in_folder(Own)
        place = next((entry for entry in volume["entries"] if entry["name"] == Own[3:]), None) if volume else None
        if volume is None or inside or (place and (place["size_bytes"] is not None or place.get("link"))):
            raise Refused(f"The folder {Own} was made by somebody else.")
        if not place:
            volume["entries"].append({"name": Own[3:], "size_bytes": None})
        volume["entries"].append({"name": f"{Own[3:]}\\{Stamp}", "size_bytes": len(Content), "text": Content})

    def script_own_remove(self, Own: str, Names: list) -> None:
        volume, inside = self._in_folder(Own)
        if volume is None:
            raise Refused("Could not find a part of the path.")
        gone = {f"{Own[3:]}\\{name}".lower() for name in Names}
        volume["entries"] = [entry for entry in volume["entries"] if entry["name"].lower() not in gone]
        if len(inside) > len([entry for entry in inside if entry["name"].lower() in gone]):
            raise Refused("The directory is not empty.")
        volume["entries"] = [entry for entry in volume["entries"] if entry["name"] != Own[3:]]

    def script_zero_look(self, Path: str, Offsets: list, Bytes: int) -> dict:
        """A disk and a file hold something, but for what is at blank_from and behind it. A refusal of theirs is that of Windows."""
        drive = re.fullmatch(r"\\\\\.\\PhysicalDrive(\d+)", Path)
        thing = self.raw_disk(int(drive[1]), writes=False) if drive else self._file_entry(Path)
        if thing is None or thing.get("offline") or thing.get("unreadable"):
            raise Refused(f"{Path} cannot be opened for reading.")
        if Bytes % 512 or any(offset % 512 or not 0 <= offset <= thing["size_bytes"] - Bytes for offset in Offsets):
            raise Refused("The parameter is incorrect.")
        blank_from = thing.get("blank_from", thing["size_bytes"])
        return {"samples": len(Offsets), "zeros": sum(offset >= blank_from for offset in Offsets)}

    def written_to(self, path: str) -> str:
        """The name under which writes to a path are counted."""
        return self.data.get("links", {}).get(path, path)

    def raw_disk(self, number: int, writes: bool) -> dict:
        """The disk behind PhysicalDrive<number>; Refused as Windows refuses it."""
        disk = self.data["disks"].get(str(number))
        if disk is None:
            raise Refused("The system cannot find the file specified.")
        # belief: that raw writes to a disk with a mounted volume are refused with Access is denied, whatever their place.
        if writes and (disk["offline"] or disk["read_only"] or disk["system"] or disk["boot"] or disk["volumes"]):
            raise Refused("Access is denied.")
        return disk

    # ---- scripts that only read

    def script_engine_host(self, Program: str) -> dict:
        path, program = self._program(Program)
        return {
            "program": path,
            "version": program["version"] if program else None,
            "account": self._account(),
            "console_user": self.data.get("console_user", ""),
            "cpu": {"model": "Fake CPU (a stand-in of the tests)", "cores": 8, "sockets": 2},
            "memory_bytes": 24 << 30,
            "product": "Fake Windows Server (a stand-in of the tests)",
            "stand_in": "fake_windows",
            "version_os": "0.0",
            "build": "1",
            "power_plan": "High performance",
            "hypervisor": True,
            "machine": "Stand-in Fake",
        }

    def script_engine_status(self, Folder: str, TaskName: str) -> dict:
        self._settle()
        task = self.tasks.get(TaskName)
        if Folder not in self.folders:
            return {"state": "missing", "ended": None, "files": [], "task_result": None}
        files = {name: base64.b64decode(content) for name, content in self.folders[Folder].items()}
        return {
            "state": self._run_state(Folder, TaskName),
            "ended": files["ended.json"].decode() if "ended.json" in files else None,
            "files": [{"name": name, "size_bytes": len(content)} for name, content in files.items()],
            "task_result": task["result"] if task else None,
        }

    def _run_state(self, folder: str, task_name: str) -> str:
        task = self.tasks.get(task_name)
        if "ended.json" in self.folders[folder]:
            return "ended"
        if task and task["state"] == "Running":
            return "running"
        young = time.time() < self.data["folder_times"][folder] + self.data.get("unstarted_s", 20)
        return "running" if young and not (task and task["ran"]) else "lost"

    def script_engine_list(self, Root: str, TestbedId: str) -> dict:
        self._settle()
        runs = []
        for folder, files in self.folders.items():
            above, _, name = folder.rpartition("\\")
            root, _, testbed_id = above.rpartition("\\")
            if root.lower() == Root.lower() and TestbedId in ("", testbed_id) and "plan.json" in files:
                task = f"storlab {testbed_id} {name}"
                runs.append(
                    {
                        "testbed_id": testbed_id,
                        "folder": folder,
                        "name": name,
                        "state": self._run_state(folder, task),
                        "task": task,
                    }
                )
        return {"runs": runs}

    def script_file_read(self, Path: str, Offset: int, Bytes: int) -> dict:
        self._settle()
        folder, _, name = Path.rpartition("\\")
        if name not in self.folders.get(folder, {}):
            raise Refused(f"Could not find file '{Path}'.")
        content = base64.b64decode(self.folders[folder][name])
        return {"content": encoded(content[Offset : Offset + Bytes]), "size_bytes": len(content)}

    # ---- scripts that change something

    def script_engine_start(
        self,
        Folder: str,
        TaskName: str,
        Names: list,
        Contents: list,
        Runner: str,
        Program: str,
        Arguments: str,
        Output: str,
        LimitS: int,
        Session: str,
        Link: str,
        LinkTarget: str,
        LicenceVersion: str,
        Leaves: str,
        Mark: str,
    ) -> None:
        self._settle()
        if re.search(r"[^A-Za-z0-9_.:\\-]", Folder) or Session not in ("service", "interactive"):
            raise Refused(f"the folder {Folder} or the session {Session} is not what the script takes")
        if Folder in self.folders or TaskName in self.tasks:
            raise Refused(f"The folder {Folder} or the task {TaskName} exists.")
        self._refuse_foreign(Folder)
        runner = base64.b64decode(Runner, validate=True)
        if (
            not runner.startswith(b"# storlab: engine_run\n")
            or not Arguments
            or type(LimitS) is not int
            or not 0 < LimitS < 1 << 31
        ):
            raise Refused("this is not the runner, or its plan is not whole")
        plan = {
            "program": Program,
            "arguments": Arguments,
            "output": Output,
            "limit_s": LimitS,
            "link": Link,
            "link_target": LinkTarget,
            "licence_version": LicenceVersion,
            "leaves": Leaves,
            "mark": Mark,
        }
        files = {
            "plan.json": json.dumps(plan).encode(),
            "runner.ps1": runner,
            **{name: base64.b64decode(content, validate=True) for name, content in zip(Names, Contents, strict=True)},
        }
        self.folders[Folder] = {name: encoded(content) for name, content in files.items()}
        self.data.setdefault("folder_times", {})[Folder] = time.time()
        faults = self.data.get("engine_faults") or []
        fault = faults.pop(0) if faults else ""
        task = {
            "folder": Folder,
            "state": "Ready",
            "ran": False,
            "result": HAS_NOT_RUN,
            "priority": 4,
            "account": "SYSTEM",
            "limit_s": LimitS,
            "run": None,
        }
        self.tasks[TaskName] = task
        if Session == "interactive":
            task["account"] = self._account()
            if fault == "logged_off" or self.data.get("console_user", "").lower() != self._account().lower():
                return
        task.update(state="Running", ran=True, run=self._begin(task, plan, files, fault))
        self._settle()

    def _refuse_foreign(self, folder: str) -> None:
        for foreign in self.data.get("foreign_folders", []):
            if f"{folder}\\".lower().startswith(f"{foreign}\\".lower()):
                raise Refused(f"The folder {foreign} does not belong to the administrators. Remove it.")

    def script_folder_private(self, Folder: str) -> None:
        self._refuse_foreign(Folder)
        self.folders.setdefault(Folder, {})

    def script_folder_remove(self, Folder: str) -> None:
        for each in [each for each in self.folders if f"{each}\\".lower().startswith(f"{Folder}\\".lower())]:
            del self.folders[each]
        programs = self.data.get("programs", {})
        for program in [each for each in programs if each.lower().startswith(f"{Folder}\\".lower())]:
            del programs[program]

    def _begin(self, task: dict, plan: dict, files: dict, fault: str) -> dict:
        """What the runner does until the program has started, and what will become of that."""
        begun = time.time()
        run = {
            "begun": begun,
            "ends": begun,
            "error": None,
            "exit_code": None,
            "pieces": [],
            "written": {},
            "lost": fault == "lost",
        }
        try:
            self._prepare(run, plan, task["account"])
            _path, program = self._program(plan["program"])
            if program is None:
                raise Refused("This command cannot be run due to the error: The system cannot find the file specified.")
        except Refused as refused:
            run["error"] = str(refused)
            return run
        outcome = PROGRAMS[program["engine"]](
            Started(
                split_arguments(plan["arguments"]),
                files,
                task["folder"],
                program["version"],
                task["account"],
                self.data.get("licences", {}).get(task["account"], ""),
                fault,
                self,
                begun,
            )
        )
        pieces = sorted(outcome.pieces, key=lambda piece: piece[0])
        if fault == "no_output":
            pieces = []
        if fault in ("crash", "killed", "lost", "hang") and outcome.seconds is not None:
            # Half-way. Of what it would have written next, a crash leaves a part.
            outcome.seconds /= 2
            later = [piece for piece in pieces if piece[0] > outcome.seconds]
            pieces = [piece for piece in pieces if piece[0] <= outcome.seconds]
            if fault == "crash" and later:
                pieces.append((outcome.seconds, later[0][1], later[0][2][: len(later[0][2]) // 2]))
            outcome.exit_code = ACCESS_VIOLATION if fault == "crash" else 1
            outcome.written = {path: size // 2 for path, size in outcome.written.items()}
        if fault == "hang":
            outcome.seconds = None
        names = {STDOUT: plan["output"] or "stdout.txt"}
        self.folders[task["folder"]].update(
            {names[STDOUT]: "", STDERR: "", "process.json": encoded(json.dumps({"pid": 4242, "start": "1"}).encode())}
        )
        run.update(
            ends=None if outcome.seconds is None else begun + outcome.seconds,
            exit_code=outcome.exit_code,
            written=outcome.written,
            pieces=[[at, names.get(name, name), encoded(content)] for at, name, content in pieces],
        )
        return run

    def _prepare(self, run: dict, plan: dict, account: str) -> None:
        if plan["link"]:
            if self.file_size(plan["link"]) is not None:
                raise Refused(f"{plan['link']} exists.")
            if (
                plan["link"][:2].lower() != plan["link_target"][:2].lower()
                or self.file_size(plan["link_target"]) is None
            ):
                raise Refused(f"Cannot find path '{plan['link_target']}' because it does not exist.")
            self.data.setdefault("links", {})[plan["link"]] = plan["link_target"]
            run["link"] = plan["link"]
        if plan["licence_version"]:
            licences = self.data.setdefault("licences", {})
            run["licence"] = [account, licences.get(account)]
            licences[account] = plan["licence_version"]

    def _settle(self) -> None:
        """Let the time pass until now."""
        now = time.time()
        for name, task in list(self.tasks.items()):
            run = task["run"]
            if not run:
                continue
            limit = run["begun"] + task["limit_s"]
            timed_out = run["ends"] is None or run["ends"] > limit
            ends = limit if timed_out else run["ends"]
            self._append(task["folder"], run, min(now, ends) - run["begun"])
            if now < ends:
                continue
            if run["lost"]:
                self._lose(name)
                del self.tasks[name]
                continue
            self._close(run, ends)
            ended = {
                "exit_code": None if timed_out else run["exit_code"],
                "timed_out": timed_out,
                "started_utc": iso(run["begun"]),
                "finished_utc": iso(ends),
                "error": run["error"],
                "left": self.data.get("beside", []),
                "late_ms": self.data.get("late_ms", 0),
                "clock_step_ms": self.data.get("clock_step_ms", 0),
            }
            self.folders[task["folder"]]["ended.json"] = encoded(json.dumps(ended).encode())
            task.update(state="Ready", result=0, run=None)

    def _append(self, folder: str, run: dict, elapsed: float) -> None:
        while run["pieces"] and run["pieces"][0][0] <= elapsed:
            _at, name, content = run["pieces"].pop(0)
            before = base64.b64decode(self.folders[folder].get(name, ""))
            self.folders[folder][name] = encoded(before + base64.b64decode(content))

    def _lose(self, name: str) -> None:
        """The runner is gone, and nobody has put back what it changed."""
        task = self.tasks[name]
        self.data.setdefault("left_over", {})[task["folder"]] = task["run"]
        task.update(state="Ready", run=None)

    def lose_runs(self) -> None:
        """The host was restarted."""
        self._settle()
        for name in [name for name, task in self.tasks.items() if task["run"]]:
            self._lose(name)

    def _close(self, run: dict, at: float) -> None:
        """Put back what the runner changed, and count what was written until then."""
        ends, begun = run["ends"], run["begun"]
        share = 0.0 if ends is None else 1.0 if at >= ends else (at - begun) / (ends - begun)
        for path, size in run["written"].items():
            written = self.data.setdefault("written", {})
            written[path] = written.get(path, 0) + int(size * share)
        if "link" in run:
            self.data["links"].pop(run["link"], None)
        if "licence" in run:
            account, before = run["licence"]
            self.data["licences"].pop(account, None)
            if before is not None:
                self.data["licences"][account] = before

    def script_engine_remove(self, Folder: str, TaskName: str) -> dict:
        self._settle()
        task = self.tasks.pop(TaskName, None)
        run = self.data.get("left_over", {}).pop(Folder, None) or (task or {}).get("run")
        if run:
            self._close(run, time.time())
        self.folders.pop(Folder, None)
        self.data.get("folder_times", {}).pop(Folder, None)
        return {"left": self.data.get("beside", []) if run else []}

    # ---- modules that install an engine

    def module_win_get_url(self, arguments: dict, check_mode: bool) -> dict:
        download = self.data.get("downloads", {}).get(arguments["url"])
        if download is None:
            raise Refused(
                f"Error downloading '{arguments['url']}': The remote server returned an error: (404) Not Found."
            )
        algorithm, wanted = arguments.get("checksum_algorithm", "sha1"), arguments.get("checksum")
        if algorithm != "sha256":
            raise Refused("the stand-in knows the SHA-256 of downloads only")
        folder, _, name = arguments["dest"].rpartition("\\")
        if folder not in self.folders:
            raise Refused(
                f"The path '{folder}' does not exist for destination '{arguments['dest']}', or is not visible to the current user."
            )
        if wanted and wanted.lower() != download["sha256"].lower():
            raise Refused(
                f"The checksum for {arguments['url']} did not match '{wanted}', it was '{download['sha256']}'"
            )
        content = encoded(arguments["url"].encode())
        changed = self.folders[folder].get(name) != content
        if changed and not check_mode:
            self.folders[folder][name] = content
            if name.lower().endswith(".exe"):
                self.data.setdefault("programs", {})[arguments["dest"]] = next(iter(download["installs"].values()))
        return {"changed": changed, "dest": arguments["dest"], "url": arguments["url"], "status_code": 200}

    def _downloaded(self, path: str) -> dict:
        """What a downloaded file holds."""
        folder, _, name = path.rpartition("\\")
        content = self.folders.get(folder, {}).get(name)
        if content is None:
            raise Refused(f"the file at the path '{path}' cannot be reached")
        return self.data["downloads"][base64.b64decode(content).decode()]

    def module_win_package(self, arguments: dict, check_mode: bool) -> dict:
        installs = self._downloaded(arguments["path"])["installs"]
        programs, wanted = self.data.setdefault("programs", {}), arguments.get("state", "present") == "present"
        changed = any((path in programs) != wanted for path in installs)
        if changed and not check_mode:
            for path, program in installs.items():
                programs.pop(path, None)
                if wanted:
                    programs[path] = program
        return {"changed": changed, "reboot_required": False, "rc": 0}

    def module_win_unzip(self, arguments: dict, check_mode: bool) -> dict:
        installs = self._downloaded(arguments["src"])["installs"]
        if not check_mode:
            self.folders.setdefault(arguments["dest"], {})
            self.data.setdefault("programs", {}).update(installs)
        return {"changed": True, "src": arguments["src"], "dest": arguments["dest"], "removed": False}

    def module_win_file(self, arguments: dict, check_mode: bool) -> dict:
        path, state = arguments["path"].rstrip("\\"), arguments["state"]
        below = [folder for folder in self.folders if f"{folder}\\".lower().startswith(f"{path}\\".lower())]
        if state == "directory":
            changed = not below
            if changed and not check_mode:
                self.folders[path] = {}
            return {"changed": changed}
        if state != "absent":
            raise Refused(f"the stand-in's win_file knows no state {state}")
        folder, _, name = path.rpartition("\\")
        held = name in self.folders.get(folder, {})
        if not check_mode:
            for each in below:
                del self.folders[each]
            programs = self.data.get("programs", {})
            for program in [each for each in programs if each.lower().startswith(f"{path}\\".lower())]:
                del programs[program]
            if held:
                del self.folders[folder][name]
        return {"changed": bool(below) or held}
