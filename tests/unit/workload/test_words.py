# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A word of a workload is said once: a word that is added to the table is checked, documented, stored, filtered and shown, and engines without it refuse it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import places
import pytest
import write_workload
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio_job
from ansible_collections.storlab.testbed.plugins.module_utils.workload import words, workload

# A word that there is not yet.
ADDED = """
    Word(
        "pace_percent",
        "share of the pace that is kept",
        "integer",
        ("fio", "iometer"),
        low=3,
        high=77,
        optional=True,
        column="int",
        indexed=True,
        load="{} % of the pace",
    ),
)
OF = {"""
# Looks at a collection that has one word more and prints a line per room.
LOOK = """
import sys
sys.path[:0] = ["tests", "tests/support", "tests/tools"]
import conftest
from ansible_collections.storlab.testbed.plugins.action import results_query
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.engines import diskspd, icf_writer
from ansible_collections.storlab.testbed.plugins.module_utils.workload import workload
from ansible_collections.storlab.testbed.plugins.plugin_utils.benchmark import search
from ansible_collections.storlab.testbed.plugins.plugin_utils.report.views import load
from ansible_collections.storlab.testbed.plugins.plugin_utils.store import export, point_index, query
import write_workload

def told(call, *given):
    try:
        return str(call(*given))
    except Failure as failure:
        return f"{failure.code}: {failure}"

one = workload.normalise({"pace_percent": 5})
print("normalised", one["pace_percent"], "pace_percent" in workload.normalise({}), workload.workload_id(one) != workload.workload_id(workload.normalise({})))
print("refused", told(workload.normalise, {"pace_percent": 78}))
print("diskspd", told(diskspd.argv, one, "#1", 1))
print("iometer", "pace_percent" in icf_writer.EXPRESSIBLE)
print("export", ("pace_percent", "workload.pace_percent", "int") in export.COLUMNS)
print("index", point_index.SETTINGS[-1], query.SETTINGS["pace_percent"], query.GROUPS[-1])
print("query", results_query.ARGUMENTS["where"]["options"]["pace_percent"])
print("search", search.LOADS[-1], search.OPTIONS["knee"]["options"]["key"]["choices"][-1])
print("view", load.LOADS[-1])
print("page", "| `pace_percent` | share of the pace that is kept |" in write_workload.page(write_workload.PAGE.read_text(encoding="utf-8")))
print("ansible-doc", "      pace_percent:" in write_workload.fragment())
"""


def test_a_word_more_is_one_place(tmp_path):
    copy = tmp_path / "collection"
    for name in ("plugins", "tests/support", "tests/tools"):
        shutil.copytree(places.ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(places.ROOT / "tests" / "conftest.py", copy / "tests")
    # Read alone.
    for name in (".config", "docs", "roles", "meta", "playbooks", "galaxy.yml"):
        (copy / name).symlink_to(places.ROOT / name)
    table = copy / "plugins" / "module_utils" / "workload" / "words.py"
    text = table.read_text(encoding="utf-8")
    assert text.count("\n)\nOF = {") == 1
    table.write_text(text.replace("\n)\nOF = {", ADDED), encoding="utf-8")
    ran = subprocess.run([sys.executable, "-c", LOOK], cwd=copy, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "normalised 5 False True",
        "refused bad_value: workload.pace_percent is 78. Use a whole number from 3 to 77.",
        "diskspd workload_unsupported: diskspd cannot do pace_percent 5. Leave it out, or use another engine.",
        "iometer True",
        "export True",
        "index pace_percent pace_percent pace_percent",
        "query {'type': 'list', 'elements': 'int'}",
        "search pace_percent pace_percent",
        "view ('pace_percent', '{} % of the pace')",
        "page True",
        "ansible-doc True",
    ]


def test_the_fragment_is_written_from_the_table():
    """Else: python tests/tools/write_workload.py."""
    assert write_workload.FRAGMENT.read_text(encoding="utf-8") == write_workload.fragment()
    text = re.search(r'r"""\n(.*)"""', write_workload.fragment(), re.DOTALL)[1]
    assert list(yaml.safe_load(text)["options"]["workload"]["suboptions"]) == list(words.OF)


def test_fio_has_every_word():
    assert {name for name in workload.NORMALISED if name not in words.expressed_by("fio")} == set()
    # Its options that say what a word says are refused by the word's name.
    refused = {name for said in fio_job.WORKLOAD_KEYS.values() for name in said.split(" and ")}
    assert refused <= set(words.OF)


@pytest.mark.parametrize(
    ("engine", "missing"),
    [
        ("diskspd", {"block_sizes", "block_size_range", "loops", "io_bytes", "verify", "on_error", "engine_options"}),
        (
            "iometer",
            {
                "block_size_range",
                "loops",
                "io_bytes",
                "verify",
                "on_error",
                "engine_options",
                "distribution",
                "data",
                "sync",
            }
            | {"rate_iops", "rate_bytes_s", "rate_process"},
        ),
    ],
)
def test_an_engine_refuses_what_it_has_no_way_to_say(engine, missing):
    assert set(workload.NORMALISED) - set(words.expressed_by(engine)) == missing
