# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook gate as a pipeline calls it: real fio measures a device whose latency a command sets, in turns.

fio of these plays is a script that leads what was asked of the null engine to the scripted device (scripted_device.py), which keeps each request as long as
the state file says. So no device of this machine is touched.

Each play is in a mount namespace of its own, where /run/storlab is a folder of the test: whatever else measures on this machine is not seen there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon, own_folder
from places import ROOT
from scripted_device import scripted

SIZE = 4 << 20
LATENCY_S = {"even": 0.04, "slow": 0.08}
LATENCY_OF = {"baseline": "even", "candidate": "slow"}
FIO = """import os, pathlib, re, sys
words = sys.argv[1:]
for place, word in enumerate(words):
    path = pathlib.Path(word)
    text = path.read_text() if word.endswith(".fio") else ""
    engine = re.search("^ioengine=.*$", text, re.MULTILINE)
    file = re.search("^filename=(.*)$", text, re.MULTILINE)
    if engine:
        state = pathlib.Path(file[1]).read_bytes()[:4].decode() if file else pathlib.Path({state!r}).read_text().strip()
        led = path.with_suffix(".led.fio")
        swap = "ioengine=nbd\\nuri=" + {uri!r} % (state + "." + str(os.getpid()))
        led.write_text(text.replace(engine[0], swap).replace(file[0] if file else "", ""))
        words[place] = str(led)
os.execv({fio!r}, [{fio!r}, *words])
"""


@pytest.fixture
def lab(tmp_path):
    """A device of known latency, fio that reaches it, and a playbook that measures it once for each repetition that is lacking."""
    fio = str(shutil.which("fio"))
    if "nbd" not in subprocess.run([fio, "--enghelp"], check=True, capture_output=True, text=True).stdout:
        pytest.skip("fio of this machine has no engine nbd")
    state, testbed = tmp_path / "state", f"test-{uuid.uuid4().hex[:8]}"
    layer = {
        "name": "ceiling-localhost",
        "kind": "ceiling",
        "host": "localhost",
        "path": None,
        "parent": None,
        "purpose": "scratch",
        "size_bytes": SIZE,
        "identity": {},
    }
    task = {
        "testbed_id": testbed,
        "run_id": "{{ testbed_run_id }}",
        "results_dir": "{{ testbed_results_dir }}",
        "layers": [layer],
        "workload": {"queue_depth": 8, "ramp_s": 0, "runtime_s": 1},
        "repetitions": "{{ benchmark_repetitions }}",
        "prepare": {"fill": False},
        "beat": False,
        "progress": "none",
    }
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [{"storlab.testbed.benchmark": task}]}
    (tmp_path / "measure.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "fio"
    with scripted(tmp_path, SIZE, lambda export, _number, _elapsed_s: LATENCY_S[export.partition(".")[0]]) as device:
        program = script.with_suffix(".py")
        program.write_text(FIO.format(state=str(state), fio=fio, uri=device.uri("%s")), encoding="utf-8")
        script.write_text(f"#!/bin/sh\nexec '{sys.executable}' '{program}' \"$@\"\n", encoding="utf-8")
        script.chmod(0o755)
        yield tmp_path, testbed
    gone = {"action": "stop", "testbed_id": testbed, "remove": True, "discard": True}
    (tmp_path / "gone.yml").write_text(
        yaml.safe_dump([{**play, "tasks": [{"storlab.testbed.benchmark_run": gone}]}]), encoding="utf-8"
    )
    called(tmp_path, str(tmp_path / "gone.yml"))


# Within the namespace alone; the folder keeps what the runs of one test leave for each other.
PRIVATE = 'mkdir -p "$0" && mount --bind "$1" "$0" && shift && exec "$@"'


def called(folder: Path, *words: str) -> subprocess.CompletedProcess:
    state = folder / "run"
    state.mkdir(mode=0o755, exist_ok=True)
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
        "PWD": str(folder),
    }
    environment.pop("ANSIBLE_CONFIG", None)
    return subprocess.run(
        [
            *("unshare", "--mount", "--propagation", "private", "sh", "-c", PRIVATE, own_folder.RUN_DIR, str(state)),
            "ansible-playbook",
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            f"ansible_python_interpreter={sys.executable}",
            *words,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=900,
    )


def gate(lab: tuple, run_id: str, state_of_candidate: str, **more) -> subprocess.CompletedProcess:
    folder, testbed = lab
    sides = {
        side: {"command": f"echo {state} > state"}
        for side, state in (("baseline", "even"), ("candidate", state_of_candidate))
    }
    words = ["-c", "local", "-e", f"ansible_python_interpreter={sys.executable}"]
    given = {
        "testbed_id": testbed,
        "testbed_run_id": run_id,
        "testbed_results_dir": "results",
        "testbed_compare_fail_on": ["regression > 20 %", "missing"],
        "testbed_compare_margin_percent": 20,
        "testbed_compare_metrics": ["iops", "latency_mean_ns"],
        # The same text on both sides is refused, so an equal pair has a comment.
        "testbed_gate": {**sides, "rounds": 4, "playbook": "measure.yml", "arguments": words, **more},
    }
    return called(folder, "storlab.testbed.gate", "-e", json.dumps(given))


def last_line(done: subprocess.CompletedProcess) -> str:
    lines = [line for line in done.stdout.splitlines() if line.startswith(("Passed", "Failed", "Inconclusive"))]
    assert lines, done.stdout[-6000:] + done.stderr
    return lines[-1]


def junit(folder: Path, testbed: str, run_id: str) -> ET.Element:
    path = folder / "results" / testbed / "compare" / f"{run_id}-candidate-vs-{run_id}-baseline" / "junit.xml"
    return ET.parse(path).getroot()  # noqa: S314 our own text


@pytest.mark.long
def test_half_the_speed_fails_and_the_same_speed_passes(lab):
    folder, testbed = lab
    done = gate(lab, "half", "slow")
    assert done.returncode == 2 and last_line(done).startswith("Failed"), done.stdout[-3000:] + done.stderr
    suites = junit(folder, testbed, "half")
    assert suites.findall(".//failure")
    comparison = json.loads(
        (folder / "results" / testbed / "compare" / "half-candidate-vs-half-baseline" / "comparison.json").read_text(
            encoding="utf-8"
        )
    )
    assert (comparison["design"], comparison["outcome"]) == ("interleaved", "failed")
    changes = {row["metric"]: row["change_percent"] for row in comparison["rows"]}
    assert -60 < changes["iops"] < -40 and 60 < changes["latency_mean_ns"] < 140
    starts = sorted(
        (json.loads(path.read_text(encoding="utf-8"))["started_utc"], path.parts[-4])
        for path in folder.glob("results/*/half-*/points/*/result.json")
    )
    order = [side.partition("-")[2] for _start, side in starts]
    assert [sorted(order[place : place + 2]) for place in range(0, 8, 2)] == [["baseline", "candidate"]] * 4

    done = gate(lab, "same", "even #")
    assert done.returncode == 0 and last_line(done).startswith("Passed"), done.stdout[-3000:] + done.stderr
    assert not junit(folder, testbed, "same").findall(".//failure")


def test_a_command_that_fails_stops_before_anything_is_measured(lab):
    folder, testbed = lab
    sides = {"baseline": {"command": "echo no such build >&2; exit 3"}, "candidate": {"command": "exit 3"}}
    done = gate(lab, "broken", "even #", **sides)
    assert done.returncode == 2
    text = " ".join((done.stdout + done.stderr).split())
    assert "ended with 3 in round 1" in text and "continues this gate" in text
    assert not (folder / "results" / testbed).exists()


@pytest.mark.long
def test_two_inventories_are_two_sides(lab):
    """The state of a side follows from a variable of its inventory, and the playbook brings the host to it."""
    folder, testbed = lab
    (play,) = yaml.safe_load((folder / "measure.yml").read_text(encoding="utf-8"))
    switch = {"ansible.builtin.copy": {"content": "{{ state }}\n", "dest": str(folder / "state")}}
    play["tasks"].insert(0, switch)
    (folder / "measure.yml").write_text(yaml.safe_dump([play]), encoding="utf-8")
    for name, state in (("old", "even"), ("new", "slow")):
        lines = {"all": {"hosts": {"localhost": {"state": state, "ansible_connection": "local"}}}}
        (folder / f"{name}.yml").write_text(yaml.safe_dump(lines), encoding="utf-8")
    done = gate(lab, "two", "", baseline={"inventory": "old.yml"}, candidate={"inventory": "new.yml"})
    assert done.returncode == 2 and last_line(done).startswith("Failed"), done.stdout[-3000:] + done.stderr
    (comparison,) = folder.glob("results/*/compare/two-candidate-vs-two-baseline/comparison.json")
    changes = {row["metric"]: row["change_percent"] for row in json.loads(comparison.read_text("utf-8"))["rows"]}
    assert -60 < changes["iops"] < -40
    assert junit(folder, testbed, "two").findall(".//failure")


@pytest.mark.long
def test_two_states_of_a_testbed_are_built_in_turns_and_measured_by_the_shipped_playbook(lab):
    """As the recipe has it, without a playbook of the user. The testbed is a folder of somebody's, and a variable says which."""
    folder, testbed = lab
    shares = {side: folder / side for side in LATENCY_OF}
    for side, share in shares.items():
        share.mkdir()
        # The script of fio leads a file to the state that it names.
        (share / "data.img").write_bytes(LATENCY_OF[side].encode() + bytes(SIZE))
    before = {side: sorted(os.walk(share)) for side, share in shares.items()}
    content = {
        "vars": {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "testbed_id": testbed,
            "testbed": {"existing": [{"name": "nas", "kind": "path", "path": "{{ share }}"}]},
            "testbed_state_dir": str(folder / "kept"),
            "share": str(shares["baseline"]),
            "benchmark_workloads": [{"read_percent": 100, "queue_depth": 8, "ramp_s": 0, "runtime_s": 1}],
            "benchmark_ceiling": False,
            "benchmark_beat": False,
        },
        "children": {"clients": {"hosts": {"client01": {"ansible_host": "127.0.0.1"}}}},
    }
    inventory = folder / "lab.yml"
    inventory.write_text(yaml.safe_dump({"all": content}), encoding="utf-8")
    # The gate stops before its third turn; that turns go on to a comparison is tested above.
    sides = {
        side: {
            "command": f"echo {side} >> turns && test $(wc -l < turns) -lt 3",
            "inventory": inventory.name,
            "vars": {"share": str(share)},
            "build": True,
        }
        for side, share in shares.items()
    }
    try:
        done = gate(lab, "built", "", **sides, playbook="storlab.testbed.benchmark", arguments=[])
    finally:
        down = called(folder, "-i", inventory.name, "storlab.testbed.teardown", "storlab.testbed.verify_clean")
    assert down.returncode == 0, down.stdout[-3000:] + down.stderr
    text = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2 and "ended with 1 in round 2" in text, text[-3000:]
    assert {side: sorted(os.walk(share)) for side, share in shares.items()} == before
    rates = {}
    for side in sides:
        (path,) = folder.glob(f"results/{testbed}/built-{side}/points/*/result.json")
        result = json.loads(path.read_text("utf-8"))
        assert (result["status"], result["layer"]) == ("measured", "datastore-nas")
        rates[side] = result["total"]["iops"]
    assert 0.4 < rates["candidate"] / rates["baseline"] < 0.6


@pytest.mark.long
def test_another_run_on_the_host_is_named_in_one_sentence(lab):
    folder, _testbed = lab
    other = folder / "run" / "someone-else" / "bench" / "nightly"
    other.mkdir(parents=True, mode=0o700)
    for path in (folder / "run", *other.parents[:2]):
        path.chmod(0o755 if path.name == "run" else 0o700)
    pid = daemon.detach(lambda: time.sleep(300), str(other))
    try:
        done = gate(lab, "beside", "even #")
    finally:
        os.kill(pid, signal.SIGKILL)
    assert done.returncode == 2
    text = " ".join((done.stdout + done.stderr).split())
    sentence = "of the gate, {} was not measured: Run nightly of testbed someone-else is measuring on this host, and two at once would measure each other."
    assert any(sentence.format(side) in text for side in ("baseline", "candidate")), text[-3000:]
    assert "-e testbed_run_id=beside continues this gate" in text
    assert "Its last lines" not in text
    assert not list(folder.glob("results/*/beside-*/points/*/result.json"))
