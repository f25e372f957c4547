# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark as users run it: ansible-playbook on this machine, with real fio on a loop device and on fio's null engine."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.linux import daemon, own_folder
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import run_folder, verify
from waiting import until

SIZE = 4 << 20
CEILING = {
    "name": "ceiling-localhost",
    "kind": "ceiling",
    "host": "localhost",
    "path": None,
    "parent": None,
    "purpose": "scratch",
    "size_bytes": 1 << 30,
    "identity": {},
}
SHORT = {"ramp_s": 0, "runtime_s": 1}


@pytest.fixture
def place(tmp_path):
    """A folder for one test and a testbed of its own; what still runs of it is ended."""
    testbed = f"test-{uuid.uuid4().hex[:8]}"
    yield tmp_path, testbed
    gone = {"action": "stop", "testbed_id": testbed, "remove": True, "discard": True}
    play(tmp_path, [{"storlab.testbed.benchmark_run": gone}])


@pytest.fixture
def loop(tmp_path):
    image = tmp_path / "image"
    image.write_bytes(bytes(SIZE))
    name = subprocess.run(
        ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
    ).stdout.strip()
    number = os.stat(name).st_rdev
    yield {
        **CEILING,
        "name": "backing-loop",
        "kind": "backing",
        "path": name,
        "size_bytes": SIZE,
        "identity": {"major_minor": f"{os.major(number)}:{os.minor(number)}"},
    }
    subprocess.run(["losetup", "--detach", name], check=True)


def others_measure() -> bool:
    base = Path(own_folder.base_dir())
    return any(
        daemon.alive(str(folder)) for folder in base.glob("*/bench/*") if not folder.parts[-3].startswith("test-")
    )


def task(place, *layers, run_id="one", **options):
    folder, testbed = place
    return {
        "storlab.testbed.benchmark": {
            "testbed_id": testbed,
            "run_id": run_id,
            "results_dir": str(folder / "results"),
            "layers": list(layers) or [CEILING],
            "progress": "none",
            "workload": SHORT,
            **options,
        }
    }


def command(folder, tasks, *options) -> list:
    """ansible-playbook of a play that writes what each task returned into answer-<n>.json."""
    tasks = [
        one
        for number, given in enumerate(tasks)
        for one in (
            {**given, "register": "answer", "ignore_errors": True},
            {
                "ansible.builtin.copy": {
                    "dest": f"{folder}/answer-{number}.json",
                    "content": "{{ answer | to_json }}",
                    "mode": "0600",
                },
                "check_mode": False,
            },
        )
    ]
    # ansible-lint has no say here: the play is the test's own.
    path = folder / f"play-{uuid.uuid4().hex[:6]}.yml"
    path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
    return [
        "ansible-playbook",
        "-i",
        "localhost,",
        "-c",
        "local",
        "-e",
        json.dumps({"ansible_python_interpreter": sys.executable}),
        *options,
        str(path),
    ]


def play(folder, tasks, *options, **variables):
    """(answers of the tasks, what was shown). A host is measured by one at a time: what else runs here, such as other tests, is waited for."""
    until(lambda: not others_measure(), 900)
    done = subprocess.run(
        command(folder, tasks, *options),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ANSIBLE_NOCOLOR": "1", **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [
        json.loads((folder / f"answer-{number}.json").read_text(encoding="utf-8")) for number in range(len(tasks))
    ]
    assert [one["msg"] for one in answers if one.get("failure", {}).get("code") == "run_active"] == [], (
        "something else is being measured here"
    )
    return answers, done.stdout + done.stderr


def run_dir(place, run_id="one") -> Path:
    return place[0] / "results" / place[1] / run_id


def results(place, run_id="one") -> dict:
    return dict(run_folder.results(str(run_dir(place, run_id))))


# ---------------------------------------------------------------- one task


def test_check_mode_lists_the_points_and_measures_nothing(place):
    [answer], shown = play(
        place[0], [task(place, workload={**SHORT, "queue_depth": [1, 8]}, repetitions=2, progress="auto")], "--check"
    )
    assert [
        (point["order"], point["point_id"], point["status"], point["duration_s"]) for point in answer["points"]
    ] == [
        (number, f"ceiling-localhost.4k-r100-rnd100-qd{depth}-w1.r{repetition}", "planned", 1.5)
        for number, (depth, repetition) in enumerate([(1, 1), (8, 1), (1, 2), (8, 2)], start=1)
    ]
    assert (answer["changed"], answer["estimated_s"]) == (True, 8.4)
    assert "[localhost] 3 ceiling-localhost 4k-r100-rnd100-qd1-w1 rep 2/2 2 s" in shown
    assert "[localhost] 4 points to measure, about 8 s\n" in shown
    assert not run_dir(place).exists()


def test_a_second_time_nothing_is_measured(place, loop):
    """The same points of the same run; the fact is the same, and what is new of a bigger plan is measured alone, without writing the layer again."""
    again = task(place, loop, CEILING)
    answers, _shown = play(place[0], [again, again, task(place, loop, CEILING, sweep={"queue_depth": [1, 4]})])
    assert [(one["changed"], [point["status"] for point in one["points"]]) for one in answers[:2]] == [
        (True, ["measured", "measured"]),
        (False, ["measured", "measured"]),
    ]
    assert answers[0]["ansible_facts"] == answers[1]["ansible_facts"]
    found = results(place)
    first, later = (found[f"backing-loop.4k-r100-rnd100-qd{depth}-w1.r1"] for depth in (1, 4))
    assert answers[2]["changed"] and later["started_utc"] > first["started_utc"]
    assert first["prepared"] == later["prepared"]
    [written] = json.loads(
        (run_dir(place) / "preparation" / "fill-backing-loop" / "fio.json").read_text(encoding="utf-8")
    )["jobs"]
    assert written["write"]["io_bytes"] == SIZE
    for summary in answers[2]["ansible_facts"]["storlab_benchmarks"]["one"]["points"].values():
        assert len(json.dumps(summary)) <= 2048
    asked = json.loads((run_dir(place) / "run.json").read_text(encoding="utf-8"))
    assert [(one["order"], one["hosts"], len(one["workloads"])) for one in asked["requests"]] == [
        ("interleaved", ["localhost"], 1),
        ("interleaved", ["localhost"], 2),
    ]
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", asked["collection_version"])


def test_what_the_generator_alone_can_do_is_held_against_a_point(place, loop):
    play(place[0], [task(place, loop, CEILING)])
    found = results(place)
    ceiling = found["ceiling-localhost.4k-r100-rnd100-qd1-w1.r1"]["total"]["iops"]
    checks = {check["name"]: check for check in found["backing-loop.4k-r100-rnd100-qd1-w1.r1"]["checks"]}
    assert checks["ceiling"]["ceiling_iops"] == ceiling
    assert checks["generator"]["share_percent"] == pytest.approx(
        100 * found["backing-loop.4k-r100-rnd100-qd1-w1.r1"]["total"]["iops"] / ceiling, abs=0.01
    )


def test_results_that_cannot_be_kept_are_not_measured(place):
    (place[0] / "results").write_text("", encoding="ascii")
    [answer], _shown = play(place[0], [task(place)])
    assert answer["failure"]["code"] == "results_unwritable"
    assert "cannot be written: Not a directory. Make room there or correct results_dir" in answer["msg"]
    assert not state_dir(place).exists()


def test_async_is_refused_in_words(place):
    [answer], _shown = play(place[0], [{**task(place), "async": 60, "poll": 0}])
    assert (answer["failed"], answer["failure"]["code"]) == (True, "async_unsupported")
    assert "Remove async" in answer["msg"]
    assert not run_dir(place).exists()


def test_facts_are_cached(place):
    """A later playbook finds the results in the fact cache."""
    cache = {
        "ANSIBLE_CACHE_PLUGIN": "ansible.builtin.jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(place[0] / "cache"),
    }
    play(place[0], [task(place)], **cache)
    [answer], _shown = play(
        place[0],
        [{"ansible.builtin.debug": {"msg": "{{ ansible_facts['storlab_benchmarks']['one']['points'] | list }}"}}],
        **cache,
    )
    assert answer["msg"] == ["ceiling-localhost.4k-r100-rnd100-qd1-w1.r1"]


def test_a_terminal_is_shown_a_bar(place):
    shown = []

    def read(descriptor):
        shown.append(os.read(descriptor, 4096))
        return shown[-1]

    argv = command(place[0], [task(place, progress="auto")])
    # pty.spawn takes this process's own input and environment.
    with open(os.devnull, encoding="utf-8") as null, contextlib.ExitStack() as stack:
        stdin = os.dup(0)
        stack.callback(os.dup2, stdin, 0)
        os.dup2(null.fileno(), 0)
        assert pty.spawn(argv, read) == 0
    assert re.search(rb"\[localhost\] \[[#.]{20}\] 1/1 ceiling-localhost", b"".join(shown))


def test_a_log_is_shown_lines(place):
    _answers, shown = play(place[0], [task(place, progress="auto")])
    assert re.search(
        r"^\[localhost\] 1 point to measure, about 3 s, until \d{4}-\d\d-\d\d \d\d:\d\d UTC$", shown, re.MULTILINE
    )
    assert re.search(
        r"^\[localhost\] 1/1 ceiling-localhost 4k-r100-rnd100-qd1-w1 measure \d/1 s .*left$", shown, re.MULTILINE
    )
    assert "\r" not in shown and "#" not in shown.replace("##", "")[:200]


def test_a_beat_a_round_is_kept_beside_the_run_unless_it_is_switched_off(place):
    """With a second call that measures nothing new, and so plays nothing."""
    asked = task(place, repetitions=2)
    play(place[0], [asked, asked, task(place, run_id="without", beat=False)])
    lines = [json.loads(line) for line in (run_dir(place) / "beats.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["host"], line["round"]) for line in lines] == [("localhost", 1), ("localhost", 2)]
    assert all(line["null_iops"] > 0 and line["memory_copy_bytes_s"] > 0 for line in lines)
    # Each before anything of its round was measured.
    starts = {
        number: min(one["started_utc"] for one in results(place).values() if one["repetition"] == number)
        for number in (1, 2)
    }
    assert all(line["started_utc"] <= starts[line["round"]] for line in lines)
    found = verify.verify(str(run_dir(place)))
    assert (found["verdict"], found["ledger"]) == ("follows", "holds")
    assert not (run_dir(place, "without") / "beats.jsonl").exists()


def test_hosts_that_take_turns_for_want_of_forks_are_told(place):
    """Two hosts and one fork; with two forks, or a throttle that asks for turns, nothing is said."""

    def shown(*options, **keywords):
        argv = command(
            place[0],
            [
                {
                    **task(
                        place,
                        progress="none",
                        layers=[
                            {**CEILING, "host": "{{ inventory_hostname }}", "name": "ceiling-{{ inventory_hostname }}"}
                        ],
                    ),
                    **keywords,
                }
            ],
            *options,
        )
        play_file = Path(argv[-1])
        play_file.write_text(
            play_file.read_text(encoding="utf-8").replace("hosts: localhost", "hosts: all"), encoding="utf-8"
        )
        argv[argv.index("localhost,")] = "one,two,"
        until(lambda: not others_measure(), 900)
        return " ".join(
            subprocess.run(
                argv, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
            ).stderr.split()
        )

    warning = "2 hosts are to measure at once, but forks is 1: they take turns."
    assert warning in shown("--forks", "1")
    shutil.rmtree(run_dir(place))
    assert warning not in shown("--forks", "2", throttle=1)


# ---------------------------------------------------------------- interrupted


def state_dir(place, run_id="one") -> Path:
    return Path(own_folder.base_dir(), place[1], "bench", run_id)


def measuring(place, point) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((state_dir(place) / "state.json").read_text(encoding="utf-8"))["point"] == point
    return False


def engine(place) -> int | None:
    """The process of fio that works in this run's folder."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if (
                os.readlink(f"/proc/{name}/cwd").startswith(f"{state_dir(place)}/")
                and Path(f"/proc/{name}/comm").read_text(encoding="ascii") == "fio\n"
            ):
                return int(name)
    return None


def interrupted(place, tasks, point) -> None:
    """Ctrl-C while this point is measured."""
    process = subprocess.Popen(
        command(place[0], tasks),
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: measuring(place, point))
    # A terminal sends it to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(30) != 0


def test_after_ctrl_c_the_run_goes_on_and_every_point_is_measured_once(place):
    tasks = [task(place, workload={**SHORT, "runtime_s": 2, "queue_depth": [1, 2, 4]})]
    interrupted(place, tasks, 2)
    here, there = (
        folder / "points" / "ceiling-localhost.4k-r100-rnd100-qd1-w1.r1" / "fio.json"
        for folder in (run_dir(place), state_dir(place))
    )
    # Of what is finished the controller has one part by now, and the host the rest.
    first = (here if here.exists() else there).read_bytes()
    [answer], _shown = play(place[0], tasks)
    assert [point["status"] for point in answer["points"]] == ["measured"] * 3
    found = results(place)
    assert (run_dir(place) / "points" / "ceiling-localhost.4k-r100-rnd100-qd1-w1.r1" / "fio.json").read_bytes() == first
    spans = sorted((one["started_utc"], one["finished_utc"]) for one in found.values())
    assert all(early[1] <= late[0] for early, late in zip(spans, spans[1:]))
    assert not state_dir(place).exists()


def test_a_host_that_dies_takes_only_what_it_was_measuring(place):
    """The supervisor is killed and its folder in memory is gone, as after a reset, while the third of four points is measured."""
    tasks = [task(place, workload={**SHORT, "runtime_s": 3, "queue_depth": [1, 2, 4, 8]})]
    process = subprocess.Popen(command(place[0], tasks), cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)
    until(lambda: len(results(place)) == 2)
    os.kill(json.loads((state_dir(place) / "supervisor.json").read_text(encoding="utf-8"))["pid"], signal.SIGKILL)
    shutil.rmtree(state_dir(place))
    assert process.wait(60) == 0
    answer = json.loads((place[0] / "answer-0.json").read_text(encoding="utf-8"))
    assert (answer["failure"]["code"], answer["failure"]["details"]["taken"]) == ("run_lost", 2)
    before = results(place)
    assert [one["status"] for one in before.values()] == ["measured"] * 2
    [answer], _shown = play(place[0], tasks)
    after = results(place)
    assert len(after) == 4
    assert {name: after[name] for name in before} == before
    assert all(
        after[name]["started_utc"] > max(one["finished_utc"] for one in before.values())
        for name in set(after) - set(before)
    )


def test_a_changed_plan_takes_what_the_earlier_one_left(place):
    """Ctrl-C, then another workload under the same run id: the finished points of the first are kept as what they are."""
    interrupted(place, [task(place, workload={**SHORT, "queue_depth": [1, 2]})], 1)
    until(lambda: not daemon.alive(str(state_dir(place))))
    play(place[0], [task(place, workload={**SHORT, "queue_depth": 4})])
    found = results(place)
    assert sorted(one["workload"]["queue_depth"] for one in found.values()) == [1, 2, 4]
    assert {one["status"] for one in found.values()} == {"measured"}
    assert not state_dir(place).exists()


def test_what_failed_is_said_and_measured_again_alone(place):
    """The engine of the first of two points is killed, as the kernel does when memory runs out."""
    tasks = [task(place, workload={**SHORT, "runtime_s": 3, "queue_depth": [1, 2]})]
    process = subprocess.Popen(command(place[0], tasks), cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)
    until(lambda: measuring(place, 1))
    until(lambda: engine(place) is not None)
    os.kill(engine(place), signal.SIGKILL)
    assert process.wait(60) == 0
    answer = json.loads((place[0] / "answer-0.json").read_text(encoding="utf-8"))
    assert answer["failed"] and answer["msg"].startswith(
        "1 of 2 points on localhost failed, first ceiling-localhost.4k-r100-rnd100-qd1-w1.r1: fio left 0 results and was ended by signal 9 (Killed)."
    )
    assert [point["status"] for point in answer["points"]] == ["failed", "measured"]
    assert "ansible_facts" not in answer
    first = results(place)["ceiling-localhost.4k-r100-rnd100-qd2-w1.r1"]
    [answer], _shown = play(place[0], tasks)
    assert [point["status"] for point in answer["points"]] == ["measured"] * 2
    assert results(place)["ceiling-localhost.4k-r100-rnd100-qd2-w1.r1"] == first


def test_what_failed_after_nobody_looked_is_measured_again(place):
    """As when the controller loses a host, whose storage is out of reach too: what failed then is no answer to somebody who runs it again."""
    tasks = [task(place, workload={**SHORT, "runtime_s": 3, "queue_depth": [1, 2]})]
    interrupted(place, tasks, 1)
    until(lambda: engine(place) is not None)
    os.kill(engine(place), signal.SIGKILL)
    until(lambda: not daemon.alive(str(state_dir(place))))
    came = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    [answer], _shown = play(place[0], tasks)
    assert [point["status"] for point in answer["points"]] == ["measured"] * 2
    again, kept = (results(place)[f"ceiling-localhost.4k-r100-rnd100-qd{depth}-w1.r1"] for depth in (1, 2))
    assert kept["finished_utc"] < came < again["started_utc"]
    assert not state_dir(place).exists()


def ended(pid: int) -> bool:
    """Whether the process is gone, or waits for its new parent to look: the first process of a container may never do that."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_after_ctrl_c_it_can_be_stopped(place):
    tasks = [task(place, workload={**SHORT, "runtime_s": 600})]
    interrupted(place, tasks, 1)
    supervisor = json.loads((state_dir(place) / "supervisor.json").read_text(encoding="utf-8"))["pid"]
    answers, _shown = play(
        place[0], [{"storlab.testbed.benchmark_run": {"action": "stop", "testbed_id": place[1], "remove": True}}] * 2
    )
    assert [one["changed"] for one in answers] == [True, False]
    assert not state_dir(place).exists()
    until(lambda: ended(supervisor))


# ---------------------------------------------------------------- searches


def test_a_search_ends_with_an_answer_and_is_not_repeated(place, loop):
    """A limit that a RAM-backed device keeps at every load: honest about it, and found again without measuring."""
    once = task(place, loop, search={"max_iops_at": {"limit_ms": 10_000, "high": 4}})
    answers, _shown = play(place[0], [once, once])
    [found] = answers[0]["search"]
    assert (found["outcome"], found["found"]["load"], [one["load"] for one in found["steps"]]) == (
        "highest_within_limit",
        4,
        [1, 2, 4],
    )
    assert found["found"]["iops"] == pytest.approx(
        results(place)["backing-loop.4k-r100-rnd100-qd4-w1.r1"]["total"]["iops"], rel=0.01
    )
    assert (answers[1]["changed"], answers[1]["search"]) == (False, answers[0]["search"])
    kept = json.loads((run_dir(place) / "search.json").read_text(encoding="utf-8"))
    assert kept["backing-loop.4k-r100-rnd100-qd1-w1.max_iops_at"]["found"]["load"] == 4


def test_a_search_goes_on_where_it_was(place):
    """The results of the second step are lost; the first is not measured again, and the answer is the same kind of answer."""
    once = task(place, search={"max_iops_at": {"limit_ms": 10_000, "high": 2}})
    play(place[0], [once])
    before = results(place)
    lost = "ceiling-localhost.4k-r100-rnd100-qd2-w1.r1"
    shutil.rmtree(run_dir(place) / "points" / lost)
    [answer], _shown = play(place[0], [once])
    after = results(place)
    kept = "ceiling-localhost.4k-r100-rnd100-qd1-w1.r1"
    assert after[kept]["started_utc"] == before[kept]["started_utc"]
    assert after[lost]["started_utc"] > before[lost]["started_utc"]
    assert answer["search"][0]["outcome"] == "highest_within_limit"


def test_a_ladder_offers_shares_of_the_peak(place, loop):
    [answer], _shown = play(place[0], [task(place, loop, search={"rate_ladder": {"percents": [10]}})])
    [found] = answer["search"]
    [rung] = found["steps"]
    assert rung["load"] == round(found["found"]["iops"] / 10)
    # fio was told so, and a machine that is busy by then does less than it is offered, never more.
    told = [path.read_text(encoding="utf-8") for path in run_dir(place).glob("points/*/job.fio")]
    assert [re.findall(r"^rate_iops=(\d+)", job, re.M) for job in told if "rate_iops" in job] == [[str(rung["load"])]]
    assert 0 < rung["iops"] <= rung["load"] * 1.2


# ---------------------------------------------------------------- variants


def test_variants_take_turns(place, loop):
    """Two read-ahead settings of the loop device: measured in the order that is drawn for each round, each under its own setting."""
    folder, testbed = place
    setting = f"/sys/block/{os.path.basename(loop['path'])}/queue/read_ahead_kb"
    before = Path(setting).read_text(encoding="utf-8").strip()
    (folder / "read_ahead.yml").write_text(
        yaml.safe_dump(
            [
                {
                    "ansible.builtin.shell": "echo {{ benchmark_variant_vars.read_ahead_kb }} > " + setting,
                    "changed_when": True,
                }
            ]
        ),
        encoding="utf-8",
    )
    role = {
        "ansible.builtin.include_role": {"name": "storlab.testbed.benchmark"},
        "vars": {
            "benchmark_testbed_id": testbed,
            "benchmark_run_id": "one",
            # Draws long short, short long.
            "benchmark_seed": 11,
            "benchmark_results_dir": str(folder / "results"),
            "benchmark_ceiling": False,
            "benchmark_layers": {"backing-loop": loop},
            "benchmark_workloads": [{**SHORT, "random_percent": 0, "direct": False}],
            "benchmark_repetitions": 2,
            "benchmark_progress": "none",
            "benchmark_variants": [
                {"name": name, "tasks_file": "read_ahead.yml", "vars": {"read_ahead_kb": size}}
                for name, size in (("short", 64), ("long", 512))
            ],
        },
    }
    play(folder, [role])
    found = sorted(results(place).values(), key=lambda one: one["started_utc"])
    assert [(one["variant"], one["repetition"], one["status"]) for one in found] == [
        ("long", 1, "measured"),
        ("short", 1, "measured"),
        ("short", 2, "measured"),
        ("long", 2, "measured"),
    ]
    assert found[0]["point_id"] == "backing-loop." + found[0]["workload_id"] + ".long.r1"
    assert Path(setting).read_text(encoding="utf-8").strip() == "512" != before
    asked = json.loads((run_dir(place) / "run.json").read_text(encoding="utf-8"))
    # In the order in which they were measured first.
    assert asked["variants"] == ["long", "short"]
    assert len({json.dumps(one["prepared"]) for one in found}) == 1, "the layer was written again between the turns"
    host = json.loads((run_dir(place) / "hosts" / "localhost.json").read_text(encoding="utf-8"))
    assert {name: of["devices"]["backing-loop"]["queue"]["read_ahead_kb"] for name, of in host["variants"].items()} == {
        "short": "64",
        "long": "512",
    }


# ---------------------------------------------------------------- rounds


def test_hosts_take_turns_in_every_round(place):
    """Three hosts that are this machine, each with its ceiling, one of which loses its engine in the first round."""
    folder, testbed = place
    names = ["one", "two", "three"]
    role = {
        "ansible.builtin.import_role": {"name": "storlab.testbed.benchmark"},
        "throttle": 1,
        "vars": {
            "benchmark_testbed_id": testbed,
            "benchmark_run_id": "one",
            "benchmark_results_dir": str(folder / "results"),
            "benchmark_workloads": [SHORT],
            "benchmark_repetitions": 3,
            "benchmark_progress": "none",
        },
    }
    argv = command(folder, [role])
    play_file = Path(argv[-1])
    play_file.write_text(
        play_file.read_text(encoding="utf-8").replace("hosts: localhost", "hosts: all"), encoding="utf-8"
    )
    argv[argv.index("localhost,")] = ",".join(names) + ","
    process = subprocess.Popen(argv, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    until(lambda: engine(place) is not None)
    os.kill(engine(place), signal.SIGKILL)
    shown, _nothing = process.communicate()
    found = sorted(results(place).values(), key=lambda one: one["started_utc"])
    assert [one["repetition"] for one in found] == [1] * 3 + [2] * 3 + [3] * 3
    spans = [(one["started_utc"], one["finished_utc"]) for one in found]
    assert all(early[1] <= late[0] for early, late in zip(spans, spans[1:])), "two were measured at once"
    rounds = [[one["host"] for one in found[at : at + 3]] for at in (0, 3, 6)]
    assert all(sorted(one) == sorted(names) for one in rounds)
    # The order of the hosts is turned, not shuffled.
    assert all(one in ([*names[at:], *names[:at]] for at in range(3)) for one in rounds)
    assert [one["status"] for one in found] == ["failed"] + ["measured"] * 8
    # Of all rounds, at their end, and as the failure that it is without rounds.
    assert f"1 of 3 points on {found[0]['host']} failed" in shown
    assert re.search(r"code\W+points_failed", shown)


def test_one_process_measures_all_turns_of_a_host(place):
    """And it, its folder and what it measured are left as after a run without turns: nothing on the host, all points here."""
    folder, testbed = place
    role = {
        "ansible.builtin.import_role": {"name": "storlab.testbed.benchmark"},
        "vars": {
            "benchmark_testbed_id": testbed,
            "benchmark_run_id": "one",
            "benchmark_results_dir": str(folder / "results"),
            "benchmark_workloads": [SHORT],
            "benchmark_repetitions": 3,
            "benchmark_progress": "none",
        },
    }
    process = subprocess.Popen(command(folder, [role]), cwd=Path(__file__).parents[2], stdout=subprocess.DEVNULL)
    record, pids = Path(own_folder.RUN_DIR) / testbed / "bench" / "one" / "supervisor.json", set()
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            pids.add(json.loads(record.read_text(encoding="utf-8"))["pid"])
        time.sleep(0.02)
    assert len(pids) == 1
    kept = sorted(results(place).values(), key=lambda result: result["started_utc"])
    assert [(result["repetition"], result["status"]) for result in kept] == [
        (number, "measured") for number in (1, 2, 3)
    ]
    beats = (run_dir(place) / "beats.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["round"] for line in beats] == [1, 2, 3]
    assert not record.parent.exists()
    until(lambda: daemon.start_ticks(pids.pop()) is None if pids else True)
