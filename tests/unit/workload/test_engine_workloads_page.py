# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/workloads.md says what the code does: its tables are those of the code, and its examples are accepted."""

from __future__ import annotations

import re

import places
import pytest
import write_workload
import yaml
from ansible_collections.storlab.testbed.plugins.module_utils.engines import fio_job
from ansible_collections.storlab.testbed.plugins.module_utils.workload import profile
from ansible_collections.storlab.testbed.plugins.module_utils.workload.sweep import expand_all
from ansible_collections.storlab.testbed.plugins.module_utils.workload.words import WORDS
from ansible_collections.storlab.testbed.plugins.module_utils.workload.workload import (
    OPTIONAL,
    PATTERNS,
    SYNC_MODES,
)

ROOT = places.ROOT
PAGE = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
SHIPPED = str(ROOT / "roles" / "benchmark" / "files" / "profiles")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def section(title: str) -> str:
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE).group(1)


def rows(title: str) -> dict:
    """{names in the first column: the other columns} of all tables of a section, one entry a name."""
    found = {}
    for line in section(title).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        for name in re.findall(r"`([a-z0-9_]+)`", cells[0]) if line.startswith("| `") else ():
            found[name] = cells[1:]
    return found


def test_the_words_are_those_of_the_table():
    """Else: python tests/tools/write_workload.py."""
    assert write_workload.page(PAGE) == PAGE
    assert list(rows("Keys")) == [word.name for word in WORDS]
    assert {name for name, cells in rows("Keys").items() if len(cells) == 1} == set(OPTIONAL)


@pytest.mark.parametrize(
    ("key", "choices"),
    [
        *((word.name, word.choices) for word in WORDS if word.choices),
        ("data", PATTERNS),
        ("sync", [mode for mode in SYNC_MODES if mode != "none"]),
    ],
)
def test_choices_are_told(key, choices):
    assert set(choices) <= set(re.findall(r"`(\w+)`", rows("Keys")[key][0]))


def test_options_of_fio_are_those_of_the_code():
    passed_on = re.search(r"Passed on are (.*)\.", section("fio")).group(1)
    assert set(re.findall(r"`(\w+)`", passed_on)) == {"ioengine"} | fio_job.ALLOWED
    assert (
        set(re.findall(r"`(\w+)`", re.search(r"cannot do there: ([^.]*)\.", section("fio")).group(1)))
        == fio_job.NOT_ON_WINDOWS
        <= fio_job.ALLOWED
    )
    told = {name: cells for name, cells in rows("fio").items() if len(cells) == 2}
    assert {name: (cells[0] == "yes", set(re.findall(r"`(\w+)`", cells[1]))) for name, cells in told.items()} == {
        name: (name in fio_job.ASYNCHRONOUS, own) for name, own in fio_job.IOENGINES.items()
    }


def test_profiles_are_those_that_are_shipped():
    told = rows("Profiles")
    assert sorted(told) == profile.names([SHIPPED])
    for name, (version, title, count, source) in told.items():
        found = profile.find(name, [SHIPPED], yaml.safe_load)
        assert (version, title, int(count)) == (found["version"], found["title"], len(found["workloads"]))
        assert [one for one in found["source"] if one["title"] not in source or one.get("url", "") not in source] == []
        assert source.count("(from memory)") == sum(one["read"] == profile.FROM_MEMORY for one in found["source"])


def test_examples_are_accepted():
    assert len(EXAMPLES) == 3
    for text, count in zip(EXAMPLES, (3, 6)):
        example = yaml.safe_load(text)
        assert (
            len(
                expand_all(
                    example["benchmark_workloads"],
                    example.get("benchmark_sweep"),
                    exclude=example.get("benchmark_exclude"),
                )
            )
            == count
        )
    assert len(profile.validate(yaml.safe_load(EXAMPLES[2]), "my_database.yml")["workloads"]) == 3
