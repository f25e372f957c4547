# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results and profiles of strangers are data: nothing in them is evaluated or followed, and none of them fills the memory."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import tarfile
import tracemalloc
from pathlib import Path

import actions
import pytest
import yaml
from ansible_collections.storlab.testbed.plugins.action import import_results, report, verify_results
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.run import supervisor
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import archive, import_files, store, verify
from places import FIXTURES
from unchanged import refused

HOSTILE = (
    "{{ lookup('pipe', 'touch CANARY') }}",
    "{% include '/etc/passwd' %}",
    "!!python/object/apply:os.system ['touch CANARY']",
    "$(touch CANARY)",
    "../../CANARY",
    "<script>CANARY()</script>",
    "\x1b[2J\x1b]0;CANARY\x07 \u202e",
    "=HYPERLINK(CANARY)",
)
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


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
    for file in (file for file in run.rglob("report/*") if file.is_file()):
        assert not OBEYED.search(file.read_text(encoding="utf-8")), file
    rows = csv.reader((run / "report" / "results.csv").read_text(encoding="utf-8").splitlines())
    assert not [cell for row in rows for cell in row if cell.startswith("=")]
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
            with pytest.raises(Failure, match="unpacks to more than"):
                archive.unpack(packed, {f"a{index}" for index in range(number)})
    finally:
        tracemalloc.stop()


def raw_header(name: bytes, kind: bytes, size: int) -> bytes:
    head = bytearray(512)
    head[0 : len(name)], head[156:157], head[257:265] = name, kind, b"ustar\x0000"
    head[100:108] = head[108:116] = head[116:124] = b"0000644\0"
    head[124:136], head[136:148], head[148:156] = b"%011o\0" % size, b"00000000000\0", b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def one(name: bytes, kind: bytes, content: bytes, said: int | None = None) -> bytes:
    return raw_header(name, kind, len(content) if said is None else said) + content + bytes(-len(content) % 512)


PAX = b"".join(b"%d path=%s\n" % (500 + len(b"500 path=\n"), b"x" * 500) for _number in range(6000))
SPARSE = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n23 GNU.sparse.realsize=1\n"
FILE = one(b"points/a0/fio.json", b"0", b"{}")
HEADERS = {
    "pax": one(b"x", b"x", PAX) + FILE,
    "pax for all": one(b"x", b"g", b"11 path=abc\n") + FILE,
    "long name": one(b"././@LongLink", b"L", b"y" * 3_000_000) + FILE,
    "long link": one(b"././@LongLink", b"K", b"y" * 600) + FILE,
    "sparse": raw_header(b"points/a0/fio.json", b"S", 0),
    "link": raw_header(b"points/a0/fio.json", b"1", 0),
    "symbolic link": raw_header(b"points/a0/fio.json", b"2", 0),
    "device": raw_header(b"points/a0/fio.json", b"3", 0),
    "many": raw_header(b"a", b"5", 0) * 5000,
    "cut": FILE[:700],
    "no header": b"x" * 2048,
    "lists": one(b"host.json", b"0", b"[" + b"[]," * 4_000_000 + b"[]]"),
    "deep": one(b"host.json", b"0", b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "no mapping": one(b"host.json", b"0", b"7"),
    "other shape": one(b"host.json", b"0", b'{"devices": {"a": "b"}}'),
    "other beat": one(b"beat.json", b"0", b"[1]"),
}


@pytest.mark.parametrize("kind", sorted(HEADERS))
def test_what_no_runner_packs_is_refused_at_once(kind):
    packed = gzip.compress(HEADERS[kind] + bytes(0 if kind == "cut" else 1024), 1)
    tracemalloc.start()
    try:
        with pytest.raises(Failure) as caught:
            archive.unpack(packed, {"a0"})
        # The lists alone are 12 MB of text, and would be 280 MB of lists.
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
    assert caught.value.code == "transfer_damaged" and len(str(caught.value)) < 400


def test_a_sparse_map_in_a_header_is_not_followed():
    """tarfile would read the content as a list of holes; here a small header of extensions says nothing at all."""
    packed = gzip.compress(one(b"x", b"x", SPARSE) + FILE + bytes(1024))
    assert archive.unpack(packed, {"a0"})[0] == {"a0": {"fio.json": b"{}"}}


def test_no_archive_at_all_is_refused():
    for packed in (b"", b"abc", gzip.compress(b"x" * 5000)[:40]):
        with pytest.raises(Failure) as caught:
            archive.unpack(packed, {"a0"})
        assert caught.value.code == "transfer_damaged"


def test_what_the_runner_packs_is_taken(tmp_path):
    folder = tmp_path / "run" / "points" / "a0"
    folder.mkdir(parents=True)
    (folder / "fio.json").write_text("{}", encoding="ascii")
    (tmp_path / "run" / "host.json").write_text('{"cpu": {"cores": 3}}', encoding="ascii")
    packed = io.BytesIO()
    supervisor.pack(packed, str(tmp_path / "run"), ["host.json", "points/a0"])
    assert archive.unpack(packed.getvalue(), {"a0"}) == ({"a0": {"fio.json": b"{}"}}, {}, {"cpu": {"cores": 3}}, {})


POINT = {
    "point_id": "a0",
    "layer": "backing-a",
    "workload_id": "4k",
    "repetition": 1,
    "workload": {"read_percent": 70, "runtime_s": 1, "ramp_s": 0, "queue_depth": 1, "workers": 1, "direct": True},
    "seed": 5,
}
LAYER = {"name": "backing-a", "kind": "backing", "host": "h", "path": "/dev/a"}
NOTES = {"failures": [], "flags": [], "overridden": [], "exit_code": 0}
WRONG_NOTES = [
    b"7",
    b'"x"',
    b"[" * 50_000,
    b"{}",
    b"not json",
    json.dumps({**NOTES, "failures": "x"}).encode(),
    json.dumps({**NOTES, "flags": [3]}).encode(),
    json.dumps({**NOTES, "prepared": 4}).encode(),
    json.dumps({**NOTES, "steady_state": {"rounds": 3, "window": "x"}}).encode(),
    json.dumps({**NOTES, "exit_code": "0"}).encode(),
    json.dumps({**NOTES, "windows": [5]}).encode(),
    json.dumps({**NOTES, "cpu": 5}).encode(),
]


@pytest.mark.parametrize("notes", WRONG_NOTES)
def test_notes_of_a_wrong_shape_fail_their_point_and_nothing_else(notes):
    files = {"meta.json": notes, "fio.json": (FIXTURES / "fio" / "mixed_group.json").read_bytes()}
    request = {"engine": "fio", "testbed_id": "t", "run_id": "r"}
    result = archive.read_point(POINT, LAYER, request, files)
    assert result["status"] == "failed", result["failures"]
    assert store.problem(json.loads(json.dumps(result))) is None


def test_raw_output_of_too_many_values_is_not_read(monkeypatch):
    monkeypatch.setattr(archive, "MOST_VALUES", 1000)
    files = {"meta.json": json.dumps(NOTES).encode(), "fio.json": b'{"jobs": [' + b"[]," * 1000 + b"[]]}"}
    result = archive.read_point(POINT, LAYER, {"engine": "fio", "testbed_id": "t", "run_id": "r"}, files)
    assert [entry["code"] for entry in result["failures"]] == ["files_unusable"]


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
        import_files.read("fio.json", text.encode())
