# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines of the stand-in for Windows: what they write is read by the real readers, they refuse what the real ones refuse, and they break as told."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace

import engines
import places
import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.engines import diskspd, fio, icf_writer, iometer
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import normalise
from ansible_collections.storlab.testbed.plugins.plugin_utils.windows import script_text
from world import Host, World

FIXTURES = places.FIXTURES
FIO, DISKSPD, IOMETER = "C:\\Program Files\\fio\\fio.exe", "C:\\tools\\diskspd.exe", "C:\\tools\\IOmeter.exe"
ACCOUNT = "BOX\\Administrator"
FOLDER, TASK = "C:\\storlab\\t1\\run-1", "storlab t1 run-1"
RAW, FILE, OTHER_FILE = "\\\\.\\PhysicalDrive1", "T:\\storlab-benchmark.dat", "T:\\other.dat"
SIZE = 256 << 20
DISK = {
    "name": "MSFT Virtual HD",
    "lun": 0,
    "serial": "s",
    "unique_id": "u",
    "bus": "iSCSI",
    "size_bytes": SIZE,
    "offline": False,
    "offline_reason": "",
    "read_only": False,
    "boot": False,
    "system": False,
    "clustered": False,
    "style": "MBR",
    "partitions": [],
    "volumes": {},
}
BASE = {
    "block_size": "8k",
    "read_percent": 70,
    "random_percent": 60,
    "queue_depth": 8,
    "workers": 2,
    "runtime_s": 3,
    "ramp_s": 1,
}


class Bench:
    """A host, and a clock that is moved by hand."""

    def __init__(self, folder: Path):
        self.now = 1_800_000_000.0
        self.world = World(folder / "world.json")
        with self.world.open():
            host = self.world.add(
                "box",
                account=ACCOUNT,
                console_user=ACCOUNT,
                programs={
                    FIO: {"engine": "fio", "version": "fio-3.42"},
                    DISKSPD: {"engine": "diskspd", "version": "2.2.0"},
                    IOMETER: {"engine": "iometer", "version": "1.1.0"},
                },
            )
            entries = [
                {"name": name, "size_bytes": size}
                for name, size in (("storlab-benchmark.dat", SIZE), ("other.dat", SIZE // 2))
            ]
            host["disks"]["1"] = DISK
            parts = [{"number": 1, "type": "Basic", "size_bytes": 1 << 30, "letter": "T"}]
            host["disks"]["2"] = {
                **DISK,
                "unique_id": "v",
                "style": "GPT",
                "partitions": parts,
                "volumes": {
                    "T": {"label": "storlab-ds", "filesystem": "NTFS", "size_bytes": 1 << 30, "entries": entries}
                },
            }

    @property
    def data(self) -> dict:
        return self.world.data["hosts"]["box"]

    def module(self, name: str, check: bool = False, **arguments) -> dict:
        with self.world.open():
            return Host(self.world, "box").module(name, json.loads(json.dumps(arguments)), check)

    def script(self, name: str, **parameters) -> dict:
        answer = self.module("ansible.windows.win_powershell", script=script_text.script(name), parameters=parameters)
        if answer.get("failed"):
            return {"refused": answer["error"][0]["exception"]["message"]}
        return answer["result"]

    def start(self, program: str, arguments: list, files: dict | None = None, **changed) -> dict:
        files = files or {}
        given = {
            "Folder": FOLDER,
            "TaskName": TASK,
            "Names": list(files),
            "Contents": [base64.b64encode(text.encode()).decode() for text in files.values()],
            "Runner": base64.b64encode(script_text.script("engine_run").encode()).decode(),
            "Program": program,
            "Arguments": subprocess.list2cmdline(arguments),
            "Output": "",
            "LimitS": 600,
            "Session": "service",
            "Link": "",
            "LinkTarget": "",
            "LicenceVersion": "",
            "Leaves": "",
            "Mark": "",
        }
        return self.script("engine_start", **{**given, **changed})

    def status(self) -> dict:
        status = self.script("engine_status", Folder=FOLDER, TaskName=TASK)
        return {**status, "ended": json.loads(status["ended"])} if status["ended"] else status

    def read(self, name: str) -> str:
        answer = self.script("file_read", Path=f"{FOLDER}\\{name}", Offset=0, Bytes=1 << 24)
        return base64.b64decode(answer.get("content", "")).decode()

    def finished(self, after_s: float = 1e6) -> dict:
        """The state when so much time has passed."""
        self.now += after_s
        return self.status()

    def remove(self) -> dict:
        return self.script("engine_remove", Folder=FOLDER, TaskName=TASK)

    # ---- one run of each engine

    def fio(self, job: str, after_s: float = 1e6, **changed) -> tuple:
        """(state, output)."""
        self.start(FIO, ["--output-format=json+", "--output=fio.json", "job.fio"], {"job.fio": job}, **changed)
        return self.finished(after_s), self.read("fio.json")

    def diskspd(self, argv: list, **changed) -> tuple:
        self.start(DISKSPD, argv[1:], Output="diskspd.xml", **changed)
        return self.finished(), self.read("diskspd.xml")

    def iometer(self, workloads: list, path: str = RAW, **changed) -> tuple:
        text = icf_writer.write(workloads, [icf_writer.target_of(path)])
        given = {"Session": "interactive", "LicenceVersion": "1.1.0"}
        if path[1] == ":":
            given.update(Link="T:\\iobw.tst", LinkTarget=path)
        words = ["/c", f"{FOLDER}\\iometer.icf", "/r", f"{FOLDER}\\iometer.csv", "/t", "60"]
        self.start(IOMETER, words, {"iometer.icf": text}, **{**given, **changed})
        return self.finished(), self.read("iometer.csv")


@pytest.fixture
def bench(tmp_path, monkeypatch) -> Bench:
    made = Bench(tmp_path)
    monkeypatch.setattr(
        engines, "time", SimpleNamespace(time=lambda: made.now, strftime=time.strftime, gmtime=time.gmtime)
    )
    return made


def job(path, size=SIZE, seed=77, **changed) -> str:
    workload = normalise({**BASE, **changed})
    return fio.job_file(
        {"point_id": "point", "layer": "layer", "path": path, "size_bytes": size, "workload": workload, "seed": seed}
    )


def shape(value):
    """The keys of a JSON document without what is counted."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items() if key not in ("job options", "percentile", "bins")}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


# ---- fio


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"read_percent": 100, "random_percent": 100},
        {"read_percent": 0, "random_percent": 0},
        {"block_size": {"4k": 50, "64k": 50}},
        {"rate_iops": 400},
        {"rate_bytes_s": 8192000, "read_percent": 100},
        {"think_time_us": 2000},
        {"range": {"offset_bytes": 1 << 20, "size_bytes": 64 << 20}},
        {"io_bytes": 32 << 20, "runtime_s": 60, "ramp_s": 0},
        {"data": {"pattern": "zero"}, "read_percent": 0},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", [RAW, FILE], ids=["raw", "file"])
def test_fio_is_read_as_measured(bench, path, changed):
    state, text = bench.fio(job(path, **changed))
    assert (state["state"], state["ended"]["exit_code"], state["ended"]["error"]) == ("ended", 0, None)
    (found,) = fio.results(text)
    assert (found["status"], found["failures"], found["flags"]) == ("measured", [], [])
    wanted = normalise({**BASE, **changed})
    assert {key: found["workload"][key] for key in wanted if key in ("read_percent", "queue_depth", "workers")} == {
        key: wanted[key] for key in ("read_percent", "queue_depth", "workers")
    }
    for name in ("read", "write"):
        if name in found:
            assert sum(found[name]["histogram"]["bins"].values()) == found[name]["ios"]
            assert found[name]["latency_min_ns"] <= found[name]["latency_mean_ns"] <= found[name]["latency_max_ns"]
    assert bench.data.get("written", {}) == ({path: found["write"]["bytes"]} if "write" in found else {})


def test_fio_writes_what_fio_for_windows_writes(bench):
    _state, text = bench.fio(job(RAW))
    real = (FIXTURES / "fio" / "windows_3.42_thread.json").read_text(encoding="utf-8")
    assert shape(json.loads(text)) == shape(json.loads(real))
    assert text.count("\n") == text.count("\r\n") > 100
    assert "stand-in" in json.loads(text)["fio version"]


def test_figures_belong_to_the_request(bench):
    seen = {}
    for name, text in {
        "one": job(RAW),
        "again": job(RAW),
        "seed": job(RAW, seed=78),
        "path": job(FILE),
        "depth": job(RAW, queue_depth=9),
        "reads": job(RAW, read_percent=71),
    }.items():
        (found,) = fio.results(bench.fio(text)[1])
        seen[name] = (found["read"]["iops"], found["write"]["iops"], found["read"]["latency_p99_ns"])
        share = found["read"]["ios"] / found["total"]["ios"]
        assert share == pytest.approx(
            normalise({**BASE, "read_percent": 71 if name == "reads" else 70})["read_percent"] / 100, abs=0.001
        )
        # Little's law: what is on its way is the rate times the time.
        outstanding = found["total"]["iops"] * found["total"]["latency_mean_ns"] / 1e9
        assert outstanding == pytest.approx(18 if name == "depth" else 16, rel=0.05)
        bench.remove()
    assert seen.pop("again") == seen["one"]
    for figures in zip(*seen.values()):
        assert len(set(figures)) == len(seen)


def test_fio_without_threads_says_so_before_its_json(bench):
    _state, text = bench.fio(job(RAW).replace("thread=1\n", ""))
    assert text.startswith("fio: this platform does not support process shared mutexes")
    assert fio.results(text)[0]["status"] == "measured"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (job(FILE).replace("T\\:", "T:"), "file creation disallowed"),
        (job("T:\\missing.dat"), "file creation disallowed"),
        (job("\\\\.\\PhysicalDrive7"), "cannot find the file"),
        (job("\\\\.\\PhysicalDrive2"), "Access is denied"),
        (job("\\\\.\\PhysicalDrive0"), "Access is denied"),
        (job(RAW, size=2 * SIZE), "are asked for"),
        (job(RAW).replace("windowsaio", "libaio"), "engine libaio not loadable"),
        (job(RAW) + "nonsense=1\n", "Bad option <nonsense=1>"),
    ],
    ids=[
        "colon",
        "missing file",
        "missing drive",
        "mounted drive",
        "system drive",
        "too large",
        "libaio",
        "unknown option",
    ],
)
def test_fio_refuses(bench, text, says):
    state, output = bench.fio(text)
    assert state["ended"]["exit_code"] == 1
    assert says in output
    assert "written" not in bench.data


def test_fio_measures_other_files_when_a_colon_is_not_escaped(bench):
    state, text = bench.fio(job(FILE).replace("T\\:", "T:").replace("allow_file_create=0\n", ""))
    assert (state["ended"]["exit_code"], fio.results(text)[0]["status"]) == (0, "measured")
    assert FILE not in bench.data["written"]


@pytest.mark.parametrize("broken", [{"offline": True}, {"read_only": True}], ids=str)
def test_drive_that_is_not_writable_is_not_written(bench, broken):
    with bench.world.open():
        bench.data["disks"]["1"].update(broken)
    assert bench.fio(job(RAW))[0]["ended"]["exit_code"] == 1
    bench.remove()
    assert bench.fio(job(RAW, read_percent=100))[0]["ended"]["exit_code"] == 0
    assert "written" not in bench.data


def test_fill_writes_all_of_it_once(bench):
    for path, size in ((RAW, SIZE), (FILE, SIZE)):
        text = fio.fill_file({"layer": "l", "path": path, "size_bytes": size, "workload": normalise(BASE), "seed": 5})
        state, output = bench.fio(text)
        assert state["ended"]["exit_code"] == 0
        assert fio.results(output)[0]["write"]["bytes"] == size
        bench.remove()
    assert bench.data["written"] == {RAW: SIZE, FILE: SIZE}


def test_ceiling_needs_no_device(bench):
    (found,) = fio.results(bench.fio(job(None))[1])
    assert (found["status"], found["engine"]["ioengine"]) == ("measured", "null")
    assert "written" not in bench.data


# ---- diskspd


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"random_percent": 100},
        {"random_percent": 0},
        {"random_percent": 0, "workers": 1},
        {"read_percent": 0},
        {"read_percent": 100},
        {"rate_iops": 400},
        {"rate_bytes_s": 4_000_000},
        {"think_time_us": 4000},
        {"range": {"offset_bytes": 1 << 20, "size_bytes": 64 << 20}},
        {"direct": False},
        {"sync": {"mode": "sync"}},
        {"data": {"pattern": "zero"}},
        {
            "random_percent": 100,
            "distribution": {
                "zoned": [{"access_percent": 80, "space_percent": 20}, {"access_percent": 20, "space_percent": 80}]
            },
        },
    ],
    ids=str,
)
def test_diskspd_is_read_as_what_was_asked(bench, changed):
    wanted = normalise({**BASE, **changed})
    argv = diskspd.argv(wanted, FILE if changed.get("direct") is False else RAW, 55, SIZE)
    state, text = bench.diskspd(argv)
    assert (state["ended"]["exit_code"], bench.read("stderr.txt")) == (0, "")
    (found,) = diskspd.results(text)
    assert (found["status"], found["failures"], found["runtime_s"]) == ("measured", [], 3.0)
    assert found["workload"] == wanted
    assert found["engine"]["randseed"] == 55
    assert sum(row[2] for row in diskspd.series(text)[0]["rows"]) == pytest.approx(found["total"]["ios"], rel=0.01)
    assert bench.data.get("written", {}) == (
        {argv[-1] if ":" in argv[-1] else RAW: found["write"]["bytes"]} if "write" in found else {}
    )


def shapes(text: str) -> dict:
    """{path of elements: (attributes, shape of the text)} in the order of a document: numbers are N, with as many digits as stand behind the point."""

    def shape(words):
        return re.sub(r"\d+(\.\d+)?", lambda found: "N" + re.sub(r"\d", "0", found[1] or ""), (words or "").strip())

    def below(element, above):
        here = f"{above}/{element.tag}"
        told = {here: ([(name, shape(value)) for name, value in element.attrib.items()], shape(element.text))}
        for child in element:
            told.update({key: value for key, value in below(child, here).items() if key not in told})
        return told

    return below(ElementTree.fromstring(text.replace('"<unknown>"', '"unknown"').replace("R&D", "RnD")), "")  # noqa: S314, our own


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "random_mix",
            [
                "-b8192",
                "-r8192",
                "-rs60",
                "-w25",
                "-o16",
                "-t2",
                "-W1",
                "-d3",
                "-Su",
                "-B8388608:25165824",
                "-Zr",
                "-z11",
                "-L",
                "-D1000",
                "-Rxml",
            ],
        ),
        (
            "two_targets",
            [
                "-b4096",
                "-r4096",
                "-rs50",
                "-rdpct60/20:40/80",
                "-w50",
                "-o3",
                "-t2",
                "-W1",
                "-d2",
                "-Sbw",
                "-g100i",
                "-Z",
                "-z7",
                "-L",
                "-D500",
                "-Rxml",
            ],
        ),
    ],
)
def test_diskspd_prints_what_the_real_one_prints(bench, name, words):
    text = bench.diskspd(["diskspd.exe", *words, FILE])[1]
    real, ours = shapes((FIXTURES / "diskspd" / f"real_v2.2_{name}.xml").read_text(encoding="utf-8")), shapes(text)
    assert list(ours) == list(real)
    names = {
        "/Results/System/ComputerName",
        "/Results/System/Tool/Version",
        *(path for path in real if path.endswith("/Path")),
    }
    # Masks of processors are hexadecimal, and the first percentiles are shown with as many digits as they need.
    names |= {path for path in real if "/ProcessorTopology/" in path}
    assert {path: ours[path] for path in real if path not in names} == {
        path: real[path] for path in real if path not in names
    }
    assert "STAND-IN" in text


def test_diskspd_prints_a_document_when_it_could_not_begin(bench):
    state, text = bench.diskspd(
        [
            "diskspd.exe",
            "-b8192",
            "-r8192",
            "-rs60",
            "-w25",
            "-t2",
            "-Su",
            "-B8388608:25165824",
            "-Rxml",
            "T:\\none.dat",
        ]
    )
    real = shapes((FIXTURES / "diskspd" / "real_v2.2_not_opened.xml").read_text(encoding="utf-8"))
    assert (state["ended"]["exit_code"], list(shapes(text))) == (1, list(real))
    # What the real one said, but for the path.
    assert bench.read("stderr.txt").splitlines() == [
        *["Error opening file: T:\\none.dat [2]"] * 2,
        "There has been an error during threads execution",
        "",
        "Error generating I/O requests",
    ]
    (found,) = diskspd.results(text)
    assert [failure["code"] for failure in found["failures"]] == ["no_result"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-b4096", "-y", "#1"], "incorrectly provided option: '-y'"),
        (["-b4096", "-r4096", "-s4096", "#1"], "-s) conflicts with random"),
        (["-b4096", "-rs0", "-r4096", "#1"], "should be between 1 and 100"),
        (["-b4096"], "at least one filename"),
        (["#1", "-b4096"], "before targets"),
        (["-b4k", "-w101", "#1"], "between 0 and 100"),
        (["-bx", "#1"], "invalid block size"),
        (["-b4k", "-s4k", "-T4k", "#1"], "-T has no effect"),
        (["-b4k", "-r4k", "-T4k", "-t2", "#1"], "-T conflicts with -r"),
        (["-i5", "#1"], "-j<think time>"),
        (["-j5", "#1"], "-j<think time>"),
        (["-r", "-rdpct90/50:10/40", "#1"], "must total 100%"),
        (["-rdpct90/10:10/90", "-s", "#1"], "sequential-only"),
        (["-Sbu", "#1"], "cache mode"),
        (["-Sx", "#1"], "unrecognized option"),
        (["-Rjson", "#1"], "invalid results format"),
        (["-o0", "#1"], "'-o0'"),
        (["-g0", "#1"], "'-g0'"),
        (["-zabc", "#1"], "32 bit integer"),
        (["-w", "#1"], "no write ratio"),
    ],
    ids=str,
)
def test_diskspd_refuses_command_lines_as_the_real_one_does(bench, words, says):
    state, output = bench.diskspd(["diskspd.exe", *words])
    assert (state["ended"]["exit_code"], output) == (3, "")
    assert says in bench.read("stderr.txt")
    assert "written" not in bench.data


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-b4096", "-w100", "-Rxml", "#2"], "Error opening file: #2 [5]"),
        (["-b4096", "-w100", "-Rxml", "#0"], "[5]"),
        (["-b4096", "-Rxml", "#9"], "[2]"),
        (["-b4096", "-Rxml", "T:\\missing.dat"], "[2]"),
        (["-b4096", f"-B{SIZE}", "-Rxml", "#1"], f"base offset: {SIZE}, thread stride: 0, block size: 4096"),
    ],
    ids=str,
)
def test_diskspd_refuses_targets(bench, words, says):
    state, output = bench.diskspd(["diskspd.exe", *words])
    assert (state["ended"]["exit_code"], diskspd.results(output)[0]["status"]) == (1, "failed")
    assert says in bench.read("stderr.txt")
    assert "written" not in bench.data


@pytest.mark.parametrize(
    ("words", "most"),
    [
        # What the real one did: the burst is divided among threads, a rate makes it forget pauses, and rates run over at 32 bits.
        (["-b4096", "-t3", "-i6", "-j20"], 3 * 2 * 50),
        (["-b4096", "-i5", "-j20", "-g1000i"], 1000),
        (["-b65536", "-g70000i"], 4464),
    ],
    ids=str,
)
def test_diskspd_limits_as_the_real_one_does(bench, words, most):
    text = bench.diskspd(["diskspd.exe", *words, "-r", "-d10", "-L", "-Rxml", "#1"])[1]
    assert diskspd.results(text)[0]["total"]["iops"] == pytest.approx(most, rel=0.001)


# ---- IOMeter


def grid(**changed) -> list:
    """Two access patterns at two depths each."""
    return [
        normalise({**BASE, "read_percent": reads, "queue_depth": depth, **changed})
        for reads in (70, 30)
        for depth in (4, 8)
    ]


@pytest.mark.parametrize("path", [RAW, FILE], ids=["raw", "file"])
def test_iometer_is_read_as_what_was_asked_in_its_order(bench, path):
    asked = grid()
    state, text = bench.iometer(asked, path)
    assert (state["state"], state["ended"]["exit_code"], state["ended"]["timed_out"]) == ("ended", 0, False)
    found = iometer.results(text)
    assert [(one["status"], one["failures"]) for one in found] == [("measured", [])] * 4
    assert [(one["job_name"], one["workload"]["queue_depth"]) for one in found] == icf_writer.steps(asked)
    # IOMeter does not tell the ramp.
    assert [one["workload"] for one in found] == [{**one, "ramp_s": 0} for one in asked]
    assert len({one["total"]["iops"] for one in found}) == 4
    assert all(sum(one["latency_bins"]["counts"]) == one["total"]["ios"] for one in found)
    # The file is written under its other name.
    assert bench.data["written"] == {path: sum(one["write"]["bytes"] for one in found)}
    passed = windows_seconds(state["ended"]["finished_utc"]) - windows_seconds(state["ended"]["started_utc"])
    assert passed == pytest.approx(4 * (3 + 1), abs=0.01)


def windows_seconds(text: str) -> float:
    return time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) + float(text[19:23])


def test_iometer_names_its_columns_as_1_1_0_does(bench):
    text = bench.iometer(grid()[:1])[1]
    real = (FIXTURES / "iometer" / "SYNTHETIC_1.1.0.csv").read_text(encoding="utf-8")
    header = next(line for line in real.splitlines() if line.startswith("'Target Type,"))
    assert header in text.splitlines()
    assert "'End Test\r\n" in text
    assert "STAND-IN" in text
    # Processors have no counters of latency; the others have a cell for each column.
    widths = {
        line.partition(",")[0]: len(line.split(","))
        for line in text.splitlines()
        if line.split(",")[0] in ("ALL", "PROCESSOR", "WORKER", "DISK")
    }
    assert widths == {"ALL": 80, "PROCESSOR": 59, "WORKER": 80, "DISK": 80}


def test_iometer_shows_what_it_has_while_it_runs(bench):
    bench.iometer(grid(), LimitS=9)
    state = bench.status()
    assert (state["ended"]["timed_out"], state["ended"]["exit_code"]) == (True, None)
    found = iometer.results(bench.read("iometer.csv"))
    assert [one["status"] for one in found] == ["measured", "measured", "failed"]


def test_iometer_appends_to_what_is_there(bench):
    words = ["/c", "iometer.icf", "/r", "iometer.csv"]
    before = "'Test Type,Test Description\n0,of others\n"
    bench.start(
        IOMETER,
        words,
        {"iometer.icf": icf_writer.write(grid()[:1], ['1: "x"']), "iometer.csv": before},
        Session="interactive",
        LicenceVersion="1.1.0",
    )
    bench.finished()
    assert bench.read("iometer.csv").startswith(before + "'Test Type")


@pytest.mark.parametrize(
    "changed",
    [
        {"LicenceVersion": ""},
        {"LicenceVersion": "2006.07.27"},
        {"Arguments": "/c C:/storlab/x.icf /r y.csv"},
        {"Arguments": "/c ADMINI~1.icf /r y.csv"},
        {"Arguments": "/r y.csv"},
        {"Arguments": "/x y.csv"},
    ],
    ids=str,
)
def test_iometer_hangs_at_a_window_that_nobody_sees(bench, changed):
    bench.start(
        IOMETER,
        ["none"],
        {"x.icf": "", "iometer.icf": icf_writer.write(grid()[:1], ['1: "x"'])},
        **{"Session": "interactive", "Arguments": "/c iometer.icf /r y.csv", "LicenceVersion": "1.1.0", **changed},
    )
    assert bench.finished(599)["state"] == "running"
    assert bench.finished(2)["ended"]["timed_out"]


@pytest.mark.parametrize(
    ("path", "targets"),
    [("\\\\.\\PhysicalDrive2", "hidden: it has a partition"), ("\\\\.\\PhysicalDrive7", "none"), (RAW, "shown")],
)
def test_iometer_shows_no_disk_with_partitions(bench, path, targets):
    (found,) = iometer.results(bench.iometer(grid()[:1], path)[1])
    assert [failure["code"] for failure in found["failures"]] == ([] if targets == "shown" else ["no_target"])


def test_iometer_reports_a_damaged_configuration(bench):
    sound = icf_writer.write(grid()[:1], ['1: "x"'])
    for text in ("nonsense", sound.replace("'Ramp Up", "'Rampe Up"), sound.replace(",100,70", ",90,70")):
        bench.start(
            IOMETER, ["/c", "a.icf", "/r", "b.csv"], {"a.icf": text}, Session="interactive", LicenceVersion="1.1.0"
        )
        bench.finished()
        (found,) = iometer.results(bench.read("b.csv"))
        assert [failure["code"] for failure in found["failures"]] == ["engine_error"]
        bench.remove()


def test_without_a_second_name_iometer_makes_a_file_of_its_own(bench):
    bench.iometer(grid()[:1], FILE, Link="", LinkTarget="")
    assert list(bench.data["written"]) == ["T:\\iobw.tst"]
    assert {"name": "iobw.tst", "size_bytes": 1 << 30} in bench.data["disks"]["2"]["volumes"]["T"]["entries"]


def test_link_and_licence_are_there_for_the_run_only(bench):
    with bench.world.open():
        bench.data["licences"] = {ACCOUNT: "2006.07.27"}
    bench.start(
        IOMETER,
        ["/c", "a.icf", "/r", "b.csv"],
        {"a.icf": icf_writer.write(grid()[:1], ['T: "x"'])},
        Session="interactive",
        LicenceVersion="1.1.0",
        Link="T:\\iobw.tst",
        LinkTarget=OTHER_FILE,
    )
    assert (bench.data["links"], bench.data["licences"]) == ({"T:\\iobw.tst": OTHER_FILE}, {ACCOUNT: "1.1.0"})
    bench.finished()
    assert (bench.data["links"], bench.data["licences"]) == ({}, {ACCOUNT: "2006.07.27"})
    assert list(bench.data["written"]) == [OTHER_FILE]


@pytest.mark.parametrize(
    ("link", "target"),
    [("T:\\other.dat", FILE), ("T:\\iobw.tst", "T:\\missing.dat"), ("C:\\iobw.tst", FILE)],
    ids=["name is taken", "no target", "another volume"],
)
def test_link_that_cannot_be_made_is_an_error_of_the_start(bench, link, target):
    bench.start(FIO, ["job.fio"], Link=link, LinkTarget=target)
    ended = bench.finished()["ended"]
    assert ended["error"]
    assert (ended["exit_code"], ended["timed_out"]) == (None, False)
    assert bench.data["disks"]["2"]["volumes"]["T"]["entries"][1] == {"name": "other.dat", "size_bytes": SIZE // 2}


# ---- trouble

RUNS = {
    "fio": lambda bench: bench.fio(job(RAW)),
    "diskspd": lambda bench: bench.diskspd(diskspd.argv(normalise(BASE), RAW, 55, SIZE)),
    "iometer": lambda bench: bench.iometer(grid()),
}
READERS = {"fio": fio.results, "diskspd": diskspd.results, "iometer": iometer.results}


def broken(bench, engine: str, fault: str) -> tuple:
    with bench.world.open():
        bench.data["engine_faults"] = [fault]
    state, text = RUNS[engine](bench)
    assert bench.data["engine_faults"] == []
    return state, text


@pytest.mark.parametrize("engine", RUNS)
@pytest.mark.parametrize(
    ("fault", "exit_code"), [("crash", -1073741819), ("killed", 1), ("hang", None), ("no_output", 0)]
)
def test_engine_breaks_as_told(bench, engine, fault, exit_code):
    state, text = broken(bench, engine, fault)
    assert (state["state"], state["ended"]["exit_code"], state["ended"]["timed_out"]) == (
        "ended",
        exit_code,
        fault == "hang",
    )
    if engine != "iometer":
        with pytest.raises(Exception, match=r"left no result|is not XML output|damaged"):
            READERS[engine](text)
    elif text:
        assert READERS[engine](text)[-1]["status"] == "failed"
    # The next one is sound again.
    bench.remove()
    assert READERS[engine](RUNS[engine](bench)[1])[0]["status"] == "measured"


@pytest.mark.parametrize("engine", RUNS)
def test_lost_run_leaves_no_word_and_is_cleaned_up(bench, engine):
    state, _text = broken(bench, engine, "lost")
    assert (state["state"], state["ended"], state["task_result"]) == ("lost", None, None)
    assert bench.script("engine_list", Root="C:\\storlab", TestbedId="t1")["runs"][0]["state"] == "lost"
    if engine == "iometer":
        assert bench.data["licences"] == {ACCOUNT: "1.1.0"}
    bench.remove()
    assert bench.status()["state"] == "missing"
    assert bench.data.get("licences", {}) == {}


@pytest.mark.parametrize("engine", ["fio", "iometer"])
def test_errors_of_the_device_are_told(bench, engine):
    _state, text = broken(bench, engine, "io_errors")
    assert "io_errors" in [failure["code"] for failure in READERS[engine](text)[0]["failures"]]


def test_diskspd_ends_at_an_error_of_the_device(bench):
    state, text = broken(bench, "diskspd", "io_errors")
    assert (state["ended"]["exit_code"], diskspd.results(text)[0]["status"]) == (1, "failed")
    assert "error during read error code" in bench.read("stderr.txt")


@pytest.mark.parametrize(
    ("fault", "codes"),
    [
        ("iometer_error", [["engine_error"]]),
        ("iometer_all_zero", [["no_target"]] * 4),
        ("iometer_abort_after:2", [[], [], ["no_result"]]),
        ("iometer_abort_after:0", [["no_result"]]),
    ],
)
def test_iometer_breaks_as_told(bench, fault, codes):
    _state, text = broken(bench, "iometer", fault)
    assert [[failure["code"] for failure in one["failures"]] for one in iometer.results(text)] == codes


@pytest.mark.parametrize("why", ["fault", "nobody", "another"])
def test_interactive_task_needs_its_account_at_the_console(bench, why):
    with bench.world.open():
        bench.data.update(
            {"engine_faults": ["logged_off"]}
            if why == "fault"
            else {"console_user": "" if why == "nobody" else "BOX\\somebody"}
        )
    bench.start(
        IOMETER,
        ["/c", "a.icf", "/r", "b.csv"],
        {"a.icf": icf_writer.write(grid()[:1], ['1: "x"'])},
        Session="interactive",
        LicenceVersion="1.1.0",
    )
    assert bench.finished(5)["state"] == "running"
    state = bench.finished(20)
    assert (state["state"], state["task_result"]) == ("lost", 267011)
    assert "written" not in bench.data


def test_restart_of_the_host_loses_the_run(bench):
    bench.start(FIO, ["--output-format=json+", "--output=fio.json", "job.fio"], {"job.fio": job(RAW)})
    bench.now += 2
    with bench.world.open():
        Host(bench.world, "box").restart()
    assert bench.status()["state"] == "lost"
    bench.remove()
    assert 0 < bench.data["written"][RAW] < SIZE


# ---- the scripts around them


def test_run_goes_through_its_states(bench):
    assert bench.status() == {"state": "missing", "ended": None, "files": [], "task_result": None}
    bench.start(FIO, ["--output-format=json+", "--output=fio.json", "job.fio"], {"job.fio": job(RAW)})
    assert bench.finished(3.9)["state"] == "running"
    assert bench.data["tasks"][TASK]["priority"] == 4
    state = bench.finished(0.2)
    assert state["state"] == "ended"
    sizes = {one["name"]: one["size_bytes"] for one in state["files"]}
    assert sizes["job.fio"] == len(job(RAW))
    assert {"plan.json", "runner.ps1", "process.json", "stdout.txt", "stderr.txt", "fio.json", "ended.json"} < set(
        sizes
    )
    whole = bench.read("fio.json")
    pieces = [
        bench.script("file_read", Path=f"{FOLDER}\\fio.json", Offset=offset, Bytes=1000)
        for offset in range(0, sizes["fio.json"] + 1000, 1000)
    ]
    assert b"".join(base64.b64decode(piece["content"]) for piece in pieces).decode() == whole
    assert {piece["size_bytes"] for piece in pieces} == {sizes["fio.json"]}
    assert "refused" in bench.script("file_read", Path=f"{FOLDER}\\nothing", Offset=0, Bytes=1)
    bench.remove()
    bench.remove()
    assert bench.status()["state"] == "missing"
    assert bench.data["tasks"] == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"Folder": "C:\\stor lab\\t1\\x"},
        {"Folder": "C:\\storlab\\t1\\ADMINI~1"},
        {"LimitS": 0},
        {"LimitS": "600"},
        {"Arguments": ""},
        {"Session": "both"},
        {"Runner": base64.b64encode(b"Remove-Item C:\\").decode()},
        {"Names": ["a"], "Contents": []},
        {"Folder": "C:\\foreign\\t1\\run"},
    ],
    ids=str,
)
def test_start_refuses(bench, changed):
    with bench.world.open():
        bench.data["foreign_folders"] = ["C:\\foreign"]
    try:
        refused = "refused" in bench.start(FIO, ["job.fio"], **changed)
    except ValueError:
        refused = True
    assert refused
    assert bench.data["tasks"] == {}


def test_start_makes_nothing_twice(bench):
    bench.start(FIO, ["job.fio"])
    assert "exists" in bench.start(FIO, ["job.fio"])["refused"]
    assert "exists" in bench.start(FIO, ["job.fio"], Folder="C:\\storlab\\t1\\run-2")["refused"]
    assert "exists" in bench.start(FIO, ["job.fio"], TaskName="storlab t1 run-2")["refused"]


def test_program_that_is_not_there_is_an_error_of_the_start(bench):
    bench.start("C:\\gone\\fio.exe", ["job.fio"])
    ended = bench.finished()["ended"]
    assert "cannot find the file" in ended["error"]
    assert ended["exit_code"] is None


def test_list_tells_runs_of_one_testbed_or_of_all(bench):
    places = {("t1", "run-a"): 1, ("t1", "run-b"): 2, ("t2", "run-a"): 3}
    for testbed, name in places:
        bench.start(FIO, ["job.fio"], Folder=f"C:\\storlab\\{testbed}\\{name}", TaskName=f"storlab {testbed} {name}")
    bench.module("ansible.windows.win_file", path="C:\\storlab\\tools\\t1", state="directory")
    runs = bench.script("engine_list", Root="C:\\storlab", TestbedId="")["runs"]
    assert {(one["testbed_id"], one["name"]) for one in runs} == set(places)
    assert {one["task"] for one in runs} == {f"storlab {testbed} {name}" for testbed, name in places}
    assert [one["folder"] for one in bench.script("engine_list", Root="C:\\storlab", TestbedId="t2")["runs"]] == [
        "C:\\storlab\\t2\\run-a"
    ]
    assert bench.script("engine_list", Root="D:\\other", TestbedId="")["runs"] == []


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("fio.exe", FIO),
        ("fio", FIO),
        (FIO, FIO),
        (FIO.upper(), FIO),
        ("diskspd.exe", DISKSPD),
        ("C:\\elsewhere\\fio.exe", None),
        ("hammer.exe", None),
    ],
)
def test_program_is_found_by_name_or_path(bench, asked, found):
    host = bench.script("engine_host", Program=asked)
    assert (host["program"], host["account"], host["console_user"]) == (found, ACCOUNT, ACCOUNT)
    assert "stand-in" in host["product"]


@pytest.mark.parametrize(
    "words", [["a", "b c", 'd"e', "f\\", "g h\\", '"', "\\\\.\\x", "", "C:\\a b\\", 'x\\"y', "\t"]]
)
def test_command_lines_are_divided_as_windows_does(words):
    assert engines.split_arguments(subprocess.list2cmdline(words)) == words


# ---- modules that install


URL = "https://downloads.example.net/fio-3.42-x64.msi"
NEW = "C:\\Program Files\\new\\fio.exe"


def get(bench, check: bool = False, **changed) -> dict:
    return bench.module(
        "ansible.windows.win_get_url",
        check,
        **{
            "url": URL,
            "dest": "C:\\storlab\\tools\\fio.msi",
            "checksum": "ab" * 32,
            "checksum_algorithm": "sha256",
            "force": False,
            **changed,
        },
    )


@pytest.fixture
def offered(bench) -> Bench:
    with bench.world.open():
        bench.data["downloads"] = {
            URL: {"sha256": "AB" * 32, "installs": {NEW: {"engine": "fio", "version": "fio-3.43"}}}
        }
    bench.module("ansible.windows.win_file", path="C:\\storlab\\tools", state="directory")
    return bench


@pytest.mark.parametrize(
    "changed",
    [{"checksum": "cd" * 32}, {"url": "https://downloads.example.net/other.msi"}, {"dest": "C:\\nowhere\\fio.msi"}],
    ids=str,
)
def test_download_is_refused(offered, changed):
    assert get(offered, **changed)["failed"]
    assert offered.module("ansible.windows.win_package", path="C:\\storlab\\tools\\fio.msi", state="present")["failed"]


def test_private_folder_is_made_once_and_not_beneath_one_of_others(offered):
    with offered.world.open():
        offered.data["foreign_folders"] = ["C:\\foreign"]
    for _turn in range(2):
        assert offered.script("folder_private", Folder="C:\\storlab\\tools\\t1") == {}
    assert "does not belong" in offered.script("folder_private", Folder="C:\\foreign\\tools")["refused"]
    assert "C:\\foreign\\tools" not in offered.data["folders"]


def test_engine_is_installed_once_and_removed_again(offered):
    def package(state: str, check: bool = False) -> bool:
        return offered.module("ansible.windows.win_package", check, path="C:\\storlab\\tools\\fio.msi", state=state)[
            "changed"
        ]

    assert get(offered, check=True)["changed"]
    assert [get(offered)["changed"], get(offered)["changed"]] == [True, False]
    assert [package("present", check=True), package("present"), package("present")] == [True, True, False]
    assert offered.script("engine_host", Program=NEW)["version"] == "fio-3.43"
    assert [package("absent"), package("absent")] == [True, False]
    assert offered.script("engine_host", Program=NEW)["program"] is None

    def folder(state: str, check: bool = False) -> bool:
        return offered.module("ansible.windows.win_file", check, path="C:\\storlab\\tools", state=state)["changed"]

    assert [folder("directory"), folder("absent", check=True), folder("absent"), folder("absent")] == [
        False,
        True,
        True,
        False,
    ]


def test_archive_is_unpacked(offered):
    get(offered)
    assert offered.module(
        "community.windows.win_unzip", True, src="C:\\storlab\\tools\\fio.msi", dest="C:\\storlab\\tools"
    )["changed"]
    assert offered.script("engine_host", Program=NEW)["program"] is None
    offered.module("community.windows.win_unzip", src="C:\\storlab\\tools\\fio.msi", dest="C:\\storlab\\tools")
    assert offered.script("engine_host", Program=NEW)["program"] == NEW
