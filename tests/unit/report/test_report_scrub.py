# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scrubbed report: none of the names of a run full of names survives in any file, and every figure stays."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from ansible_collections.storlab.testbed.plugins.plugin_utils.report import junit, model, render, scrub, static
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import load
from fixtures.compare import make_runs
from fixtures.report import make_fixture
from plays import play
from plays import report as task

HOSTS = {"target01": "stor-vault7", "hypervisor01": "esx42.lab.acme-corp.example", "guest01": "db-oracle9"}
SECRET = (
    "stor-vault7",
    "esx42",
    "acme-corp",
    "oracle9",
    "kepler",
    "jdoe42",
    "mmustermann",
    "10.20.30.40",
    "192.168.77.5",
    "fd00:aa::17",
    "52:54:00:ab:cd:ef",
    "iqn.2026-01.example.acme:kepler-bench",
    "iqn.2026-01.example.acme:other",
    "6001405deadbeefdeadbeefdeadbeef0",
    "deadbeef",
    "01020304-aaaa-bbbb-cccc-0102030405ff",
    "5f3e1a2b-1234abcd-5678-001122334455",
    "S3RI4L0815",
    "t10.ATA",
    "WDPLATE",
)


def renamed(found):
    """The synthetic run as somebody would have it who names his machines."""
    text = json.dumps(found)
    for old, new in {**HOSTS, '"embedded"': '"kepler"'}.items():
        text = text.replace(old, new)
    return json.loads(text)


@pytest.fixture
def folder(tmp_path) -> Path:
    original = Path(make_fixture.write_run(str(tmp_path / "source"), 2, 2))
    target = tmp_path / "results" / "kepler" / "run-of-jdoe42"
    for path in sorted(original.rglob("*")):
        name = str(path.relative_to(original))
        for old, new in HOSTS.items():
            name = name.replace(old, new)
        if path.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(
                path.read_bytes()
                if path.suffix != ".json"
                else json.dumps(renamed(json.loads(path.read_text()))).encode()
            )
    layers = json.loads((target / "layers.json").read_text())
    layers["target-bench"].update(
        path="/dev/disk/by-path/ip-10.20.30.40:3260-iscsi-iqn.2026-01.example.acme:kepler-bench-lun-1",
        identity={
            "naa": "naa.6001405deadbeefdeadbeefdeadbeef0",
            "serial": "S3RI4L0815",
            "uuid": "01020304-aaaa-bbbb-cccc-0102030405ff",
        },
        detail={
            "transport": "iscsi over fd00:aa::17",
            "volume": "/vmfs/volumes/5f3e1a2b-1234abcd-5678-001122334455/x.vmdk",
        },
    )
    layers["initiator-bench"]["path"] = "/dev/disk/by-id/scsi-36001405deadbeefdeadbeefdeadbeef0"
    (target / "layers.json").write_text(json.dumps(layers))
    host = target / "hosts" / "stor-vault7.json"
    facts = json.loads(host.read_text())
    facts.update(
        owner="jdoe42",
        login="MMustermann",
        mac="52:54:00:AB:CD:EF",
        product="S3RI4L0815 of STOR-VAULT7",
        address=["192.168.77.5", "127.0.0.1"],
        disk="t10.ATA_____WDPLATE_1",
        fqdn="stor-vault7.lab.acme-corp.example",
        backup="ssh://root@esx42.lab.acme-corp.example/home/jdoe42/x",
    )
    host.write_text(json.dumps(facts))
    for number, path in enumerate(sorted((target / "points").glob("*/result.json"))):
        result = json.loads(path.read_text())
        result.update(run_id="run-of-jdoe42", started_utc=result["started_utc"])
        result["counters"] = {"hosts": {"esx42.lab.acme-corp.example": {"cpu": {"us_per_io": 3.5 + number}}}}
        result["clients"] = [{"host": "db-oracle9", "status": "measured", "failures": []}]
        if number == 1:
            message = "/home/mmustermann/x of stor-vault7 (192.168.77.5), iqn.2026-01.example.acme:other."
            result.update(status="failed", failures=[{"code": "io_errors", "message": message}])
        path.write_text(json.dumps(result))
    (target / "run.json").write_text(
        json.dumps(
            {"testbed_id": "kepler", "unread": [{"file": "/home/jdoe42/esx42/fio.json", "reason": "it is empty"}]}
        )
    )
    (target / "points" / "broken-db-oracle9").mkdir()
    (target / "points" / "broken-db-oracle9" / "result.json").write_text("{")
    return target


def written(folder: Path, scrubbed: bool) -> dict:
    run = load.read_run(str(folder))
    names = scrub.Pseudonyms([run])
    report = names.unlinked(model.build(names.run(run))) if scrubbed else model.build(run)
    return {**render.render(report), "junit.xml": junit.junit(report), **static.files(report, ["svg"])}


def test_no_name_survives_in_any_file(folder):
    before, after = written(folder, False), written(folder, True)
    assert [secret for secret in SECRET if not any(secret.lower() in text.lower() for text in before.values())] == []
    assert [(name, secret) for name, text in after.items() for secret in SECRET if secret.lower() in text.lower()] == []
    assert len(after) > 10


def test_a_name_is_the_same_everywhere_and_no_two_are(folder):
    files = written(folder, True)
    said = json.loads(files["results.json"])
    layers = {layer["name"]: layer for layer in said["layers"]}
    assert [layers[name]["host"] for name in ("backing-bench", "initiator-bench", "guest-host-3")] == [
        "host-1",
        "host-2.domain-1",
        "host-3",
    ]
    assert said["testbed_id"] == "testbed-1" and re.fullmatch("run-of-user-[12]", said["run_id"])
    target, initiator = layers["target-bench"], layers["initiator-bench"]
    assert re.fullmatch(r"/dev/disk/by-path/ip-addr-\d:3260-iscsi-iqn-1-lun-1", target["path"])
    assert target["identity"]["naa"] == initiator["path"].rpartition("/")[2] == "naa-1"
    assert set(said["hosts"]) == {"host-1", "host-2.domain-1", "host-3"}
    facts = said["hosts"]["host-1"]["environment"]
    assert facts["product"] == f"{target['identity']['serial']} of host-1" and facts["fqdn"] == "host-1.domain-1"
    assert facts["address"].endswith(", 127.0.0.1") and facts["owner"] != facts["login"]
    assert facts["backup"] == f"ssh://root@host-2.domain-1/home/{facts['owner']}/x"
    rows = list(csv.DictReader(io.StringIO(files["results.csv"])))
    assert {row["host"] for row in rows} == set(said["hosts"])
    assert all(name in files["index.html"] for name in ("host-1", "host-2.domain-1", "naa-1"))


def test_every_figure_stays(folder):
    before, after = (
        list(csv.DictReader(io.StringIO(written(folder, scrubbed)["results.csv"]))) for scrubbed in (False, True)
    )
    figures = [column for column in before[0] if re.search(r"_(ns|s|ios|iops|bytes|percent|io)$|_iops$", column)]
    assert len(figures) > 40 and len(before) == len(after) == 24
    by_checksum = {row["raw_sha256"]: row for row in after}
    assert len(by_checksum) == 24
    for row in before:
        assert {column: row[column] for column in figures} == {
            column: by_checksum[row["raw_sha256"]][column] for column in figures
        }
    # In the page: the same exact figures, as often.
    exact = [
        sorted(re.findall(r'<data value="([^"]+)"', written(folder, scrubbed)["index.html"]))
        for scrubbed in (False, True)
    ]
    assert exact[0] == exact[1] and len(exact[0]) > 200


def test_raw_files_are_not_linked_and_the_report_says_so(folder):
    before, after = written(folder, False), written(folder, True)
    assert 'href="../points/' in before["index.html"]
    assert 'href="../' not in after["index.html"]
    for name in ("index.html", "report.md", "results.json"):
        assert "so they are not linked" in after[name] and "so they are not linked" not in before[name]
    checksums = {row["raw_sha256"] for row in csv.DictReader(io.StringIO(before["results.csv"]))}
    assert all(checksum in after["index.html"] for checksum in checksums)


def test_the_same_run_gives_the_same_pseudonyms(folder):
    assert written(folder, True) == written(folder, True)


def run_of(*hosts, **more) -> load.Run:
    results = [
        {"testbed_id": "b", "host": host, "layer": f"guest-{host}", "layer_kind": "guest", **more} for host in hosts
    ]
    return load.Run("/nowhere", "b", "r", results=results)


def test_a_pseudonym_that_somebody_has_is_not_given_to_another():
    names = scrub.Pseudonyms([run_of("web", "host-1", "host-2")])
    assert [names.text(host) for host in ("web", "host-1", "host-2")] == ["host-3", "host-4", "host-5"]


def test_words_of_the_schema_stay_when_a_host_is_called_like_one():
    run = scrub.Pseudonyms(
        [found := run_of("guest", "iops", total={"iops": 7.5, "histogram": {"bins": {"5": 1}}})]
    ).run(found)
    first, second = run.results
    assert (first["layer_kind"], first["host"], first["layer"]) == ("guest", "guest", "guest-guest")
    assert (second["host"], second["layer"]) == ("host-1", "guest-host-1")
    assert all(set(result) == {"testbed_id", "host", "layer", "layer_kind", "total"} for result in run.results)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T13:36:16Z",
        "13:36:16",
        "6.1.0-50-cloud-amd64",
        "4k-r70-rnd100-qd8-w1",
        "fio-3.33",
        "127.0.0.1",
        "::1",
        "8:16",
        "0000:00:1f.2",
        "/srv/storlab/ds1/bench.dat",
        "x86_64",
        "1048576",
        "[none] mq-deadline",
    ],
)
def test_what_tells_nothing_stays(text):
    assert scrub.Pseudonyms([run_of("web01")]).text(text) == text


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("[fe80::5054:ff:fe12:3456]:3260", "[addr-1]:3260"),
        ("10.0.0.7.", "addr-1."),
        ("10.0.0.7:3260 and 10.0.0.8", "addr-1:3260 and addr-2"),
        ("/home/ann/a /home/bob/b /home/ann/c", "/home/user-1/a /home/user-2/b /home/user-1/c"),
        ("WEB01.r1, web012, xweb01, web01_a", "host-1.r1, web012, xweb01, host-1_a"),
        ("NAA.60014051234567890000000000000001 = 60014051234567890000000000000001", "naa-1 = naa-1"),
        ("C:\\Users\\ann\\x", "C:\\Users\\user-1\\x"),
    ],
)
def test_shapes_and_boundaries(text, scrubbed):
    assert scrub.Pseudonyms([run_of("web01")]).text(text) == scrubbed


def test_a_serial_number_that_is_a_number_is_one():
    run = scrub.Pseudonyms([found := run_of("web01", serial=8150815, order=8150815, owner=True)]).run(found)
    assert (run.results[0]["serial"], run.results[0]["order"], run.results[0]["owner"]) == ("serial-1", 8150815, True)


def test_two_runs_share_their_pseudonyms():
    first, second = run_of("a-host", "b-host"), run_of("b-host", "c-host")
    names = scrub.Pseudonyms([first, second])
    assert [[result["host"] for result in names.run(run).results] for run in (first, second)] == [
        ["host-1", "host-2"],
        ["host-2", "host-3"],
    ]


# -- with the tasks ---------------------------------------------------------------------------------------------------


def test_the_task_scrubs_every_file_and_takes_the_links_of_an_older_report_away(tmp_path, folder):
    open_report = task(tmp_path, run_dir=str(folder), static=["svg"])
    assert "guest-db-oracle9" in Path(open_report["files"]["index.html"]).read_text(encoding="utf-8")
    found = task(tmp_path, run_dir=str(folder), scrub=True, static=["svg"], title="What stor-vault7 costs")
    texts = {str(path): path.read_text(encoding="utf-8") for path in (folder / "report").rglob("*") if path.is_file()}
    assert len(texts) > 10 and set(texts) == set(found["files"].values())
    assert [(name, secret) for name, text in texts.items() for secret in SECRET if secret.lower() in text.lower()] == []
    assert "<h1>What host-1 costs</h1>" in texts[found["index"]]
    assert (
        task(tmp_path, run_dir=str(folder), scrub=True, static=["svg"], title="What stor-vault7 costs")["written"] == []
    )


def test_a_comparison_is_scrubbed_under_the_same_names_on_both_sides(tmp_path):
    rates = {("backing-vault7", next(iter(make_runs.WORKLOADS))): 20_000}
    for run_id, rate, scheduler, seed in (
        ("before-kepler", 1.0, "[none] mq-deadline", 1),
        ("after-kepler", 0.8, "none [mq-deadline]", 2),
    ):
        results = make_runs.results(
            5, {place: value * rate for place, value in rates.items()}, 2.0, seed=seed, run_id=run_id
        )
        run = make_runs.write_run(
            tmp_path / "results", [{**result, "host": "stor-vault7", "testbed_id": "kepler"} for result in results]
        )
        facts = json.loads(json.dumps(make_runs.environment(scheduler)).replace("backing-a", "backing-vault7"))
        for path in Path(run, "hosts").glob("*"):
            path.unlink()
        Path(run, "hosts", "stor-vault7.json").write_text(json.dumps({**facts, "owner": "jdoe42"}))
        layers = Path(run, "layers.json")
        layers.write_text(layers.read_text().replace('"target01"', '"stor-vault7"'))
    sides = {
        side: {"run_dir": str(next((tmp_path / "results").glob(f"*/{run}"))), "layer": "backing-vault7"}
        for side, run in (("baseline", "before-kepler"), ("candidate", "after-kepler"))
    }
    found, scrubbed = (
        play(
            tmp_path,
            {
                "storlab.testbed.compare": {
                    **sides,
                    "scrub": scrub_it,
                    "under_test": ["hosts.stor-vault7.devices.*.queue.scheduler"],
                    "output_dir": str(tmp_path / f"out-{scrub_it}"),
                }
            },
        )[0]
        for scrub_it in (False, True)
    )
    assert "failed" not in found and "failed" not in scrubbed, scrubbed.get("msg")
    assert [(row["verdict"], row["change_percent"]) for row in found["rows"]] == [
        (row["verdict"], row["change_percent"]) for row in scrubbed["rows"]
    ]
    texts = {path: path.read_text(encoding="utf-8") for path in Path(scrubbed["compare_dir"]).iterdir()}
    assert (
        len(texts) == 6
        and "kepler" in Path(found["index"]).read_text(encoding="utf-8")
        and "kepler" not in scrubbed["compare_dir"]
    )
    assert [
        (path.name, secret)
        for path, text in texts.items()
        for secret in ("stor-vault7", "kepler", "jdoe42")
        if secret in text
    ] == []
