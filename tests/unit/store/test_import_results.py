# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that other tools left become runs that can be reported; run by Ansible itself. Figures are taken from the files with json alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import jsonschema
import places
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.action import import_results
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import import_files, importer, load
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = places.ROOT
FIXTURES = places.FIXTURES
HCIBENCH = FIXTURES / "hcibench" / "fio-1vmdk-100ws-4k-70rdpct-100randompct-1threads-1732200000"


def run(tmp_path: Path, *options: str) -> subprocess.CompletedProcess:
    # A configuration of its own: the checkout's adds callbacks that print text after the JSON.
    configuration = tmp_path / "ansible.cfg"
    configuration.write_text(
        f"[defaults]\ncollections_path = {ROOT}/.cache/collections:/usr/share/ansible/collections\ninject_facts_as_vars = false\n"
        "stdout_callback = ansible.posix.json\nlocalhost_warning = false\n[inventory]\ninventory_unparsed_warning = false\n",
        encoding="utf-8",
    )
    return subprocess.run(
        ["ansible-playbook", *options],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_CONFIG": str(configuration)},
        capture_output=True,
        text=True,
        check=False,
    )


def task(tmp_path: Path, *options: str, **arguments) -> dict:
    book = tmp_path / "play.yml"
    step = {"storlab.testbed.import_results": {name: str(value) for name, value in arguments.items()}}
    book.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [step]}]), encoding="utf-8")
    done = run(tmp_path, *options, str(book))
    return json.loads(done.stdout)["plays"][0]["tasks"][0]["hosts"]["localhost"]


def contents(folder: Path) -> dict:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def entries(folder: Path) -> list:
    names = sorted(
        (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()), key=importer.natural
    )
    return [entry for name in names for entry in import_files.read(name, (folder / name).read_bytes())]


def points(folder: Path) -> list:
    return importer.points(entries(folder), "old", "run", folder.name)[0]


def fio_jobs(path: Path) -> list:
    content = path.read_text(encoding="utf-8")
    return json.JSONDecoder().raw_decode(content, content.index("{"))[0]["jobs"]


# ---------------------------------------------------------------- the task


def test_bench_fio_folder_becomes_a_run_that_can_be_read_and_nothing_else_is_touched(tmp_path):
    source = tmp_path / "bench"
    shutil.copytree(FIXTURES / "benchfio", source)
    (source / "nvme0" / "4k" / "randread-iodepth-1-numjobs-1_bw.1.log").write_text(
        "500, 90000, 0, 0, 0\n", encoding="utf-8"
    )
    before = contents(source)
    found = task(tmp_path, path=source, results_dir=tmp_path / "results", testbed_id="lab")
    assert (
        found["changed"]
        and found["points"] == 4
        and found["points_failed"] == 0
        and found["unread"] == []
        and found["ignored"] == 1
    )
    assert found["layers"] == ["nvme0"] and found["run_id"] == "bench" and len(found["imported"]) == 4
    assert contents(source) == before
    folder = tmp_path / "results" / "lab" / "bench"
    assert Path(found["run_dir"]) == folder
    stored = load.read_run(str(folder))
    assert (
        stored.damaged == []
        and stored.testbed_id == "lab"
        and {result["layer_kind"] for result in stored.results} == {"imported"}
    )
    assert {result["files"]["raw"]["state"] for result in stored.results} == {"matches"}
    kept = [path.read_bytes() for path in (folder / "points").glob("*/*.json") if path.name != "result.json"]
    assert sorted(kept) == sorted(content for name, content in before.items() if name.endswith(".json"))

    again = task(tmp_path, path=source, results_dir=tmp_path / "results", testbed_id="lab")
    assert not again["changed"] and again["written"] == [] and again["removed"] == []


def test_what_is_gone_from_the_folder_goes_from_the_run_and_the_report_stays(tmp_path):
    source, run_dir = tmp_path / "bench", tmp_path / "out"
    shutil.copytree(FIXTURES / "benchfio", source)
    assert task(tmp_path, path=source, run_dir=run_dir)["points"] == 4
    (run_dir / "report").mkdir()
    (run_dir / "report" / "index.html").write_text("mine", encoding="utf-8")
    (source / "nvme0" / "64k" / "randread-1-1.json").unlink()
    before = contents(run_dir)
    told = task(tmp_path, "--check", path=source, run_dir=run_dir)
    assert told["changed"] and len(told["removed"]) == 2 and contents(run_dir) == before
    found = task(tmp_path, path=source, run_dir=run_dir)
    assert found["removed"] == told["removed"] and found["written"] == told["written"]
    assert len(load.read_run(str(run_dir)).results) == 3 and not list((run_dir / "points").glob("*.64k-*"))
    assert (run_dir / "report" / "index.html").read_text(encoding="utf-8") == "mine"


def test_check_mode_writes_nothing(tmp_path):
    found = task(tmp_path, "--check", path=FIXTURES / "hcibench", run_dir=tmp_path / "out")
    assert found["changed"] and found["points"] == 1 and found["written"] and not (tmp_path / "out").exists()


def test_what_cannot_be_read_is_listed_with_the_reason_and_the_rest_is_imported(tmp_path):
    source = tmp_path / "many"
    shutil.copytree(FIXTURES / "benchfio" / "nvme0" / "4k", source)
    good = (source / "randread-1-1.json").read_text(encoding="utf-8")
    (source / "cut.json").write_text(good[:3000], encoding="utf-8")
    (source / "copy.json").write_text(good, encoding="utf-8")
    (source / "other.json").write_text('{"a": 1}', encoding="utf-8")
    shutil.copy(FIXTURES / "fio" / "terse.txt", source)
    (source / "text.txt").write_text("Command Line: diskspd.exe -b4K x\n\nInput parameters:\n", encoding="utf-8")
    (source / "notes.txt").write_text("measured on Monday\n", encoding="utf-8")
    os.mkfifo(source / "pipe.json")
    found = task(tmp_path, path=source, run_dir=tmp_path / "out")
    reasons = {row["file"]: row["reason"] for row in found["unread"]}
    assert sorted(reasons) == ["cut.json", "other.json", "pipe.json", "randread-1-1.json", "terse.txt", "text.txt"]
    assert (
        "breaks off" in reasons["cut.json"]
        and "copy of copy.json" in reasons["randread-1-1.json"]
        and "terse" in reasons["terse.txt"]
    )
    assert (
        "regular file" in reasons["pipe.json"]
        and "text output" in reasons["text.txt"]
        and "no result of fio" in reasons["other.json"]
    )
    assert found["points"] == 2 and found["ignored"] == 1
    assert json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))["unread"] == found["unread"]


def test_links_out_of_the_folder_are_not_followed(tmp_path):
    """As a stranger's archive may hold them: to a result that is somebody else's, through a folder, and one that stays inside."""
    inside, outside = tmp_path / "given", tmp_path / "private"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "one.json").write_bytes((FIXTURES / "fio" / "four_records.json").read_bytes())
    (inside / "link.json").symlink_to(outside / "one.json")
    (inside / "far.json").symlink_to("/etc/hostname")
    (inside / "folder").symlink_to(outside)
    (inside / "near.json").symlink_to("one.json")
    entries, unread, seen = import_results.collect(str(inside), str(tmp_path / "run"))
    assert {row["file"] for row in unread} == {"link.json", "far.json"}
    assert all("link out of the folder" in row["reason"] for row in unread)
    # One and near; the folder behind a link is not even entered.
    assert {entry["file"] if isinstance(entry, dict) else entry.file for entry in entries} == {"one.json", "near.json"}
    assert seen == 4
    # What is named itself is meant.
    assert len(import_results.collect(str(inside / "link.json"), str(tmp_path / "run"))[0]) == 1


@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (lambda tmp_path: {"path": tmp_path / "missing", "run_dir": tmp_path / "out"}, "bad_value"),
        (lambda tmp_path: {"path": FIXTURES / "benchfio"}, "bad_value"),
        (
            lambda tmp_path: {"path": FIXTURES / "benchfio", "run_dir": tmp_path / "out", "results_dir": tmp_path},
            "bad_value",
        ),
        (lambda tmp_path: {"path": FIXTURES / "benchfio", "results_dir": tmp_path, "testbed_id": "../x"}, "bad_value"),
        (lambda tmp_path: {"path": FIXTURES / "benchfio", "results_dir": tmp_path, "run_id": ".."}, "bad_value"),
        (lambda tmp_path: {"path": FIXTURES / "compare_nothing_here", "run_dir": tmp_path / "out"}, "bad_value"),
        (lambda tmp_path: {"path": tmp_path, "run_dir": tmp_path}, "bad_value"),
        (lambda tmp_path: {"path": FIXTURES / "hammerdb", "run_dir": tmp_path / "out"}, "nothing_imported"),
        (lambda tmp_path: {"path": FIXTURES / "benchfio", "run_dir": _with_a_file(tmp_path / "mine")}, "run_exists"),
    ],
)
def test_refuses_in_one_sentence_and_writes_nothing(tmp_path, prepare, code):
    arguments = prepare(tmp_path)
    found = task(tmp_path, **arguments)
    assert found["failed"] and found["failure"]["code"] == code and found["msg"].count("\n") == 0
    assert not (tmp_path / "out").exists() and not (tmp_path / "imported").exists()


def _with_a_file(folder: Path) -> Path:
    folder.mkdir()
    (folder / "precious.txt").write_text("mine", encoding="utf-8")
    return folder


def test_playbook_imports_and_reports_without_any_host(tmp_path):
    done = run(
        tmp_path,
        "playbooks/import_results.yml",
        "-e",
        # As JSON: a path may have spaces.
        json.dumps({"import_results_path": f"{FIXTURES}/iometer", "report_path": f"{tmp_path}/out"}),
    )
    assert done.returncode == 0, done.stdout
    page = (tmp_path / "out" / "report" / "index.html").read_text(encoding="utf-8")
    assert "10.0k" in page and "80 % read" in page and "These are imported results" in page
    # What could not be used is in the report, too.
    assert "fork_batch_linux.csv" in page and "counts 0 read I/Os" in page
    assert "No worker had a target" in done.stdout
    missing = run(tmp_path, "playbooks/import_results.yml")
    assert missing.returncode != 0 and "import_results_path" in missing.stdout


# ---------------------------------------------------------------- fio, however it lies


def test_figures_of_bench_fio_are_those_of_its_files():
    found = {point["workload_id"].rsplit("-", 1)[0]: point for point in points(FIXTURES / "benchfio")}
    assert sorted(found) == [
        "4k-r100-rnd100-qd1-w1",
        "4k-r100-rnd100-qd1-w2",
        "4k-r75-rnd100-qd1-w1",
        "64k-r100-rnd100-qd1-w1",
    ]
    (one,) = fio_jobs(FIXTURES / "benchfio" / "nvme0" / "4k" / "randread-1-1.json")
    point = found["4k-r100-rnd100-qd1-w1"]
    assert (
        point["read"]["iops"] == one["read"]["iops"]
        and point["read"]["latency_mean_ns"] == one["read"]["lat_ns"]["mean"]
    )
    assert (
        point["read"]["latency_p99_ns"] == one["read"]["clat_ns"]["percentile"]["99.000000"]
        and point["layer"] == "nvme0"
    )


def test_clones_of_numjobs_are_one_load_with_bounds_of_percentiles():
    jobs = fio_jobs(FIXTURES / "benchfio" / "nvme0" / "4k" / "randread-1-2.json")
    assert len(jobs) == 2
    point = next(point for point in points(FIXTURES / "benchfio") if "-w2-" in point["workload_id"])
    assert point["read"]["ios"] == sum(job["read"]["total_ios"] for job in jobs)
    assert point["read"]["iops"] == pytest.approx(sum(job["read"]["iops"] for job in jobs))
    for name, key in (("p99", "99.000000"), ("p99_9", "99.900000")):
        each = sorted(job["read"]["clat_ns"]["percentile"][key] for job in jobs)
        if each[0] == each[1]:
            assert point["read"][f"latency_{name}_ns"] == each[0]
        else:
            assert f"latency_{name}_ns" not in point["read"]
            assert [point["read"][f"latency_{name}_lower_ns"], point["read"][f"latency_{name}_upper_ns"]] == each


def test_hcibench_machines_are_one_point_with_exact_percentiles_of_all():
    files = sorted(HCIBENCH.glob("*.json"))
    jobs = [job for path in files for job in fio_jobs(path)]
    (point,) = points(FIXTURES / "hcibench")
    assert point["layer"] == "hci-fio-vsanDatastore" and [client["host"] for client in point["clients"]] == [
        "hci-fio-vsanDatastore-0-1",
        "hci-fio-vsanDatastore-0-2",
    ]
    merged: dict = {}
    for job in jobs:
        for key, count in job["read"]["clat_ns"]["bins"].items():
            merged[int(key)] = merged.get(int(key), 0) + count
    total, reached = sum(merged.values()), 0
    for key in sorted(merged):
        reached += merged[key]
        if reached >= 0.95 * total:
            break
    assert point["read"]["latency_p95_ns"] == key
    assert point["total"]["iops"] == pytest.approx(sum(job["read"]["iops"] + job["write"]["iops"] for job in jobs))
    assert all("histogram" not in client["read"] for client in point["clients"])
    assert [source["file"] for source in point["sources"]] == [f"{HCIBENCH.name}/{path.name}" for path in files]


def test_a_number_of_many_files_leads_to_all_of_them(tmp_path):
    task(tmp_path, path=FIXTURES / "hcibench", run_dir=tmp_path / "out")
    (folder,) = (tmp_path / "out" / "points").iterdir()
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    listed = (folder / result["raw"]["file"]).read_bytes()
    assert hashlib.sha256(listed).hexdigest() == result["raw"]["sha256"]
    for source in json.loads(listed)["sources"]:
        assert hashlib.sha256((folder / source["file"]).read_bytes()).hexdigest() == source["sha256"]


def test_machines_that_did_not_run_together_are_repetitions(tmp_path):
    source = tmp_path / "in" / HCIBENCH.name
    shutil.copytree(HCIBENCH, source)
    later = source / "hci-fio-vsanDatastore-0-2.json"
    document = json.loads(later.read_text(encoding="utf-8"))
    document["timestamp"] += 3600
    later.write_text(json.dumps(document), encoding="utf-8")
    assert [(point["repetition"], "clients" in point) for point in points(tmp_path / "in")] == [(1, False), (2, False)]


def test_figures_that_cannot_be_true_are_no_measurement(tmp_path):
    """One machine of several did as much with the same latencies in half of the time, which its queue does not hold."""
    source = tmp_path / "in" / HCIBENCH.name
    shutil.copytree(HCIBENCH, source)
    (good,) = points(tmp_path / "in")
    assert good["status"] == "measured"
    assert {check["name"]: check["ok"] for check in good["checks"]} == {"littles_law": True, "block_size": True}
    path = source / "hci-fio-vsanDatastore-0-2.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    for name in ("read", "write"):
        document["jobs"][0][name]["lat_ns"]["mean"] *= 7
    path.write_text(json.dumps(document), encoding="utf-8")
    (point,) = points(tmp_path / "in")
    assert (point["status"], [failure["code"] for failure in point["failures"]]) == ("failed", ["impossible_figures"])
    assert "were in flight on average by count and latency" in point["failures"][0]["message"]
    assert {check["name"]: check["ok"] for check in point["checks"]} == {"littles_law": False, "block_size": True}
    assert point["total"]["ios"] == good["total"]["ios"], "they are kept, and shown as failed"


def test_a_machine_that_ended_early_is_added_with_a_flag(tmp_path):
    source = tmp_path / "in" / HCIBENCH.name
    shutil.copytree(HCIBENCH, source)
    early = source / "hci-fio-vsanDatastore-0-2.json"
    document = json.loads(early.read_text(encoding="utf-8"))
    for name in ("read", "write"):
        part = document["jobs"][0][name]
        for amount in ("runtime", "total_ios", "io_bytes", "io_kbytes"):
            part[amount] //= 2
    early.write_text(json.dumps(document), encoding="utf-8")
    (point,) = points(tmp_path / "in")
    assert "clients_ended_early" in point["flags"]
    # It ran for half of the time it was asked for, which alone is a reason.
    assert [failure["code"] for failure in point["failures"]] == ["too_short"] and "0-2" in point["failures"][0][
        "message"
    ]


def test_cbt_processes_are_one_point():
    (point,) = points(FIXTURES / "cbt")
    folder = FIXTURES / "cbt" / "00000000" / "id-0a1b2c3d" / "osd_ra-00004096" / "op_size-00004096" / "randread"
    jobs = [job for path in folder.iterdir() for job in fio_jobs(path)]
    assert len(jobs) == 4 and point["read"]["ios"] == sum(job["read"]["total_ios"] for job in jobs)
    assert point["layer"] == "cbt" and point["workload"]["workers"] == 2 and len(point["clients"]) == 2


def test_clients_of_fio_are_one_point_with_their_names():
    found, unread = importer.points(
        import_files.read("a/b.txt", (FIXTURES / "fio" / "client_server.txt").read_bytes()), "old", "run", "root"
    )
    assert unread == [] and all(point["layer"] == "a" for point in found)
    assert all(
        len({client["host"] for client in point["clients"]}) == len(point["clients"])
        for point in found
        if "clients" in point
    )


def test_repetitions_documents_in_one_file_and_jobs_of_one_workload(tmp_path):
    text = (FIXTURES / "benchfio" / "nvme0" / "4k" / "randread-1-1.json").read_text(encoding="utf-8")
    later = json.loads(text)
    later["timestamp"] += 60
    later["timestamp_ms"] += 60000
    for number, name in ((2, "run-2"), (10, "run-10")):
        (tmp_path / "sda" / name).mkdir(parents=True)
        (tmp_path / "sda" / name / "x.json").write_text(text.replace('"FIOJOB"', f'"FIOJOB{number}"'), encoding="utf-8")
    (tmp_path / "sda" / "two.out").write_text("fio: a note\n" + text + "\n" + json.dumps(later), encoding="utf-8")
    found = points(tmp_path)
    assert [(point["layer"], point["repetition"], point["sources"][0]["file"]) for point in found] == [
        ("sda", 1, "sda/run-2/x.json"),
        ("sda", 2, "sda/run-10/x.json"),
        ("sda", 3, "sda/two.out"),
        ("sda", 4, "sda/two.out"),
    ]
    assert len({point["point_id"] for point in found}) == 4
    both = json.loads(text)
    both["jobs"].append({**both["jobs"][0], "jobname": "other disk"})
    (alone,) = [importer.points(import_files.read("x.json", json.dumps(both).encode()), "old", "run", "root")]
    assert [point["layer"] for point in alone[0]] == [
        "root-FIOJOB",
        "root-other-disk-" + hashlib.sha256(b"root-other disk").hexdigest()[:6],
    ]


@pytest.mark.parametrize("name", ["benchfio", "hcibench", "cbt", "iometer", "diskspd", "fio"])
def test_stored_points_hold_the_schema_of_results(name):
    schema = json.loads((ROOT / "docs" / "schema" / "storlab.result-1.schema.json").read_text(encoding="utf-8"))
    usable = []
    for path in sorted((FIXTURES / name).rglob("*")):
        if path.is_file():
            try:
                usable += import_files.read(str(path.relative_to(FIXTURES / name)), path.read_bytes())
            except Failure:
                continue
    found, unread = importer.points(usable, "old", "run", name)
    texts, _copies = importer.files(found, unread, name)
    stored = [json.loads(text) for path, text in texts.items() if path.endswith("/result.json")]
    assert stored
    for result in stored:
        jsonschema.Draft202012Validator(schema).validate(result)


# ---------------------------------------------------------------- what is no repetition


def fio_file(folder: Path, name: str, second: int, groups: tuple = (0,), **options) -> None:
    """A file of bench-fio, of one job a group, which ended this second and says these options."""
    document = json.loads((FIXTURES / "benchfio" / "nvme0" / "4k" / "randread-1-1.json").read_text(encoding="utf-8"))
    document["timestamp"] = 1_790_000_000 + second
    job = document["jobs"][0]
    for table in (document.get("global options", {}), job["job options"]):
        for option in ("filename", "size", "filesize", "ioengine", "directory"):
            table.pop(option, None)
    document["jobs"] = [
        {
            **job,
            "jobname": f"job{number}",
            "groupid": group,
            "job options": {**job["job options"], "ioengine": "psync", **options},
        }
        for number, group in enumerate(groups)
    ]
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(document), encoding="utf-8")


def test_files_of_other_devices_engines_and_sizes_are_no_repetitions(tmp_path):
    # Seven files, one folder, one workload; only the first two and the last are of the same thing.
    for number, options in enumerate(
        (
            {"filename": "/dev/sdb", "size": "1g"},
            {"filename": "/dev/sdb", "size": "1g"},
            {"filename": "/dev/sdc", "size": "1g"},
            {"filename": "/dev/sdb", "size": "1g", "ioengine": "sync"},
            {"filename": "/dev/sdb", "size": "4g"},
            {"filename": "/dev/sdb", "size": "1g", "filesize": "8g"},
            {"filename": "/dev/sdb", "size": "1024m"},
        )
    ):
        fio_file(tmp_path / "bench", f"{number}.json", 100 * number, **options)
    found = {Path(point["sources"][0]["file"]).stem: point for point in points(tmp_path / "bench")}
    place = {name: (point["layer"], point.get("variant"), point["repetition"]) for name, point in found.items()}
    assert [place[name] for name in "016"] == [("bench-sdb", "psync-size-1g", number) for number in (1, 2, 3)]
    assert place["2"] == ("bench-sdc", None, 1)
    assert place["3"] == ("bench-sdb", "sync-size-1g", 1) and place["4"] == ("bench-sdb", "psync-size-4g", 1)
    assert place["5"] == ("bench-sdb", "psync-size-1g-file_size-8g", 1)
    assert len({point["point_id"] for point in found.values()}) == 7
    assert len({point["fingerprint"] for point in found.values()}) == 7
    assert found["2"]["path"] == "/dev/sdc" and found["4"]["working_set"] == {"size": 4 << 30}
    assert not any("shared_target" in point["flags"] for point in found.values())


def test_loads_that_shared_a_target_say_so_and_those_that_waited_do_not(tmp_path):
    folder = tmp_path / "bench"
    fio_file(folder, "together.json", 0, groups=(0, 0), filename="/dev/sdb")
    fio_file(folder, "waited.json", 500, groups=(0, 1), filename="/dev/sdb")
    fio_file(folder, "elsewhere.json", 500, filename="/dev/sdc")
    # Two processes of fio at once: each wrote a file of its own.
    fio_file(folder, "left.json", 900, filename="/dev/sdd")
    fio_file(folder, "right.json", 900, filename="/dev/sdd", iodepth="1", description="the other")
    flagged: dict = {}
    for point in points(folder):
        name = Path(point["sources"][0]["file"]).stem
        flagged.setdefault(name, set()).add("shared_target" in point["flags"])
    assert flagged == {
        "together": {True},
        "waited": {False},
        "elsewhere": {False},
        "left": {True},
        "right": {True},
    }


# ---------------------------------------------------------------- IOMeter and diskspd


def test_iometer_file_with_its_updates(tmp_path):
    shutil.copy(FIXTURES / "iometer" / "SYNTHETIC_2006.07.27.csv", tmp_path / "old.csv")
    shutil.copy(FIXTURES / "iometer" / "instSYNTHETIC_1.1.0.csv", tmp_path / "instold.csv")
    (tmp_path / "instnobody.csv").write_bytes((tmp_path / "instold.csv").read_bytes() + b"\n")
    found, unread = importer.points(entries(tmp_path), "old", "run", "array")
    (point,) = found
    assert (
        point["layer"] == "array"
        and point["host"] == "unknown"
        and [client["host"] for client in point["clients"]] == ["HOSTA", "HOSTB"]
    )
    assert point["series"]["interval_s"] == 2 and [source["file"] for source in point["sources"]] == [
        "old.csv",
        "instold.csv",
    ]
    assert [row["file"] for row in unread] == ["instnobody.csv"]
    files, copies = importer.files(found, unread, "array")
    assert sorted(source for source, _sha256 in copies.values()) == ["instold.csv", "old.csv"]
    stored = json.loads(files[f"points/{point['point_id']}/result.json"])
    series = files[f"points/{point['point_id']}/series.json"]
    assert (
        stored["series"] == {"file": "series.json", "sha256": hashlib.sha256(series.encode()).hexdigest()}
        and json.loads(series)["rows"]
    )


def test_diskspd_in_utf_16_as_powershell_redirects_it():
    content = (FIXTURES / "diskspd" / "SYNTHETIC_v2.2.xml").read_text(encoding="utf-8").encode("utf-16")
    found, unread = importer.points(import_files.read("vm1/out.txt", content), "old", "run", "root")
    (point,) = found
    assert unread == [] and (point["host"], point["path"], point["layer"], point["series"]["interval_s"]) == (
        "WIN-BENCH",
        "#1",
        "vm1",
        1,
    )


def test_machines_of_vmfleet_are_one_point_with_bounds_of_percentiles(tmp_path):
    content = (FIXTURES / "diskspd" / "SYNTHETIC_v2.2.xml").read_text(encoding="utf-8")
    for name, p99 in (("vm-base-node1-1", "3.309"), ("vm-base-node2-1", "6.618")):
        (tmp_path / f"result-b8t2o16w25pr-{name}.xml").write_text(
            content.replace("3.309", p99).replace("WIN-BENCH", name), encoding="utf-8"
        )
    (point,) = points(tmp_path)
    assert [client["host"] for client in point["clients"]] == ["vm-base-node1-1", "vm-base-node2-1"]
    assert (
        point["total"]["ios"] == 1_600_000
        and point["total"]["iops"] == 80000
        and point["started_utc"] == "2026-02-03T04:05:06Z"
    )
    assert "latency_p99_ns" not in point["total"] and point["total"]["latency_p50_ns"] == 803_000
    assert [point["total"][f"latency_p99_{end}_ns"] for end in ("lower", "upper")] == [
        pytest.approx(3_309_000),
        pytest.approx(6_618_000),
    ]


def test_percentiles_of_several_are_bounds_unless_they_agree():
    parts = [
        {"latency_p99_ns": 700, "latency_p50_ns": 5},
        {"latency_p99_ns": 300, "latency_p50_ns": 5},
        {"latency_p99_lower_ns": 100, "latency_p99_upper_ns": 200, "latency_p50_ns": 5},
    ]
    assert import_files.bounds(parts, {}) == {
        "latency_p99_lower_ns": 100,
        "latency_p99_upper_ns": 700,
        "latency_p50_ns": 5,
    }
    assert import_files.bounds(parts, {"latency_p99_ns": 650, "latency_p50_ns": 5}) == {}
    assert import_files.bounds([{"latency_p99_ns": 7}, {}], {}) == {}


# ---------------------------------------------------------------- damage

SAMPLES = [
    FIXTURES / "benchfio" / "nvme0" / "4k" / "randread-1-1.json",
    FIXTURES / "fio" / "client_server.txt",
    FIXTURES / "iometer" / "SYNTHETIC_1.1.0.csv",
    FIXTURES / "diskspd" / "SYNTHETIC_v2.2.xml",
]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_damaged_files_are_points_or_reasons_and_never_a_traceback(path):
    original = path.read_bytes()

    @settings(deadline=None, max_examples=60)
    @given(st.integers(0, 1 << 20), st.integers(0, 30), st.binary(max_size=5))
    def check(position, length, replacement):
        at = position % (len(original) + 1)
        try:
            read = import_files.read("f/x.json", original[:at] + replacement + original[at + length :])
            found, unread = importer.points(read, "old", "run", "root")
        except Failure as failure:
            assert failure.what
            return
        for text in importer.files(found, unread, "root")[0].values():
            json.loads(text, parse_constant=pytest.fail)

    check()
