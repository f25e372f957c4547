# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results and profiles of strangers are data: nothing in them is evaluated or followed, and none of them fills the memory."""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from pathlib import Path

import actions
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.action import import_results, report, verify_results
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive, importer, store, verify
from places import FIXTURES
from unchanged import refused

HOSTILE = (
    "{{ lookup('pipe', 'touch CANARY') }}",
    "{% include '/etc/passwd' %}",
    "!!python/object/apply:os.system ['touch CANARY']",
    "$(touch CANARY)",
    "../../CANARY",
    "<script>CANARY()</script>",
)


@pytest.fixture(autouse=True)
def nothing_outside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.parent.glob("CANARY")) and not list(tmp_path.rglob("CANARY"))


def imported(tmp_path: Path, text: str) -> Path:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "fio.json").write_text(text, encoding="utf-8")
    run = tmp_path / "run"
    answer = actions.make(import_results, {"path": str(tmp_path / "theirs"), "run_dir": str(run)}).run(task_vars={})
    assert not answer.get("failed"), answer
    return run


@pytest.mark.parametrize("hostile", HOSTILE)
def test_texts_of_a_strangers_results_are_shown_as_they_are(tmp_path, hostile):
    """Every text of fio's file in turn, from its import to its report."""
    whole = json.loads((FIXTURES / "fio" / "mixed_group.json").read_text(encoding="utf-8"))
    whole["fio version"] = f"fio-3.33 {hostile}"
    for job in whole["jobs"]:
        job["jobname"] = hostile
        job["job options"] = {**job.get("job options", {}), "description": hostile, "filename": hostile}
    run = imported(tmp_path, json.dumps(whole))
    answer = actions.make(report, {"run_dir": str(run), "index": False}).run(task_vars={})
    assert not answer.get("failed"), answer
    page = Path(answer["index"]).read_text(encoding="utf-8")
    assert "<script>CANARY" not in page and "root:x:0" not in page
    found = actions.make(verify_results, {"run_dir": str(run)}).run(task_vars={})
    assert found["verdict"] == "unproven"


def test_no_tag_of_yaml_makes_anything(tmp_path):
    (tmp_path / "evil.yml").write_text(
        "name: evil\nversion: !!python/object/apply:os.system ['touch CANARY']\n", encoding="utf-8"
    )
    with refused(tmp_path) as caught:
        profile.find("evil", [str(tmp_path)], yaml.safe_load)
    assert caught.value.code == "profile_unreadable"


BOMBS = {
    "aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)),
    "itself": "a: &a [*a, *a]\n",
    "long": "#" * (2 << 20),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("bomb", sorted(BOMBS))
def test_a_profile_that_stands_for_too_much_is_refused(tmp_path, bomb):
    (tmp_path / "bomb.yml").write_text(BOMBS[bomb], encoding="utf-8")
    with refused(tmp_path) as caught:
        profile.find("bomb", [str(tmp_path)], yaml.safe_load)
    assert caught.value.code == "profile_unreadable" and len(str(caught.value)) < 1000


def test_our_own_profiles_are_none_of_these():
    folder = str(Path(profile.__file__).parents[3] / "roles" / "benchmark" / "files" / "profiles")
    assert all(profile.find(name, [folder], yaml.safe_load) for name in profile.names([folder]))


@pytest.mark.parametrize("size", ["file", "whole"])
def test_a_packed_bomb_of_a_host_takes_no_memory(monkeypatch, size):
    monkeypatch.setattr(archive, "LARGEST_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(archive, "LARGEST_ARCHIVE_BYTES", 64 << 20)
    stream, number = io.BytesIO(), 1 if size == "file" else 80
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for index in range(number):
            member = tarfile.TarInfo(f"points/a{index}/fio.json")
            member.size = (60 << 20) if size == "file" else 1 << 20
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    packed = stream.getvalue()
    stream.close()
    tracemalloc.start()
    try:
        if size == "file":
            assert archive.unpack(packed, {"a0"})[0] == {}
            assert tracemalloc.get_traced_memory()[1] < 20 << 20
        else:
            with pytest.raises(Failure, match="stands for more than"):
                archive.unpack(packed, {f"a{index}" for index in range(number)})
    finally:
        tracemalloc.stop()


def test_a_result_that_is_too_large_or_too_deep_is_damaged_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "LARGEST_BYTES", 1000)
    path = tmp_path / "result.json"
    path.write_text(" " * 1001 + "{}", encoding="utf-8")
    assert store.read_result(str(path)) == (None, "it has more than 1000 bytes")
    monkeypatch.undo()
    path.write_text('{"a":' * 200_000, encoding="utf-8")
    content, reason = store.read_result(str(path))
    assert content is None and "cannot be read" in reason
    assert verify.kept(str(tmp_path)) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"fio version": "fio-3.33", "jobs": ' + "[" * 100_000,
        '{"fio version": "fio-3.33", "jobs": [' + '{"a":' * 100_000,
    ],
)
def test_a_file_to_import_that_is_nested_without_end_is_unread(text):
    with pytest.raises(Failure):
        importer.read("fio.json", text.encode())
