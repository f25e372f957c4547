# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of what is installed beside the collection names exactly what the locks pin."""

from __future__ import annotations

import json

import write_sbom

LOCK = (
    "cffi==2.1.1 \\\n    --hash=sha256:00\n    # via\n    #   cryptography\nPy_YAML.x==6.0 ; python_version > '3' \\\n"
)


def test_it_is_as_the_locks_are():
    assert write_sbom.PATH.read_text(encoding="utf-8") == write_sbom.document(write_sbom.locks()), (
        "Run python tests/tools/write_sbom.py."
    )


def test_every_pinned_line_is_a_component_and_nothing_else_is():
    lines = {
        (lock, line.split()[0].partition(";")[0])
        for lock, text in write_sbom.locks().items()
        for line in text.splitlines()
        if line and not line.startswith(("#", " "))
    }
    listed = json.loads(write_sbom.PATH.read_text(encoding="utf-8"))["components"]
    found = {
        (entry["value"], f"{component['name']}=={component['version']}")
        for component in listed
        for entry in component["properties"]
    }
    assert found == {(lock, line.replace("_", "-").lower()) for lock, line in lines}
    assert len({component["bom-ref"] for component in listed}) == len(listed) > 100


def test_a_package_is_named_once_with_all_locks_that_pin_it():
    made = json.loads(write_sbom.document({"requirements.lock": LOCK, "requirements-test.lock": "cffi==2.1.1\nx==1\n"}))
    assert [(one["purl"], one["scope"], len(one["properties"])) for one in made["components"]] == [
        ("pkg:pypi/cffi@2.1.1", "required", 2),
        ("pkg:pypi/py-yaml-x@6.0", "required", 1),
        ("pkg:pypi/x@1", "excluded", 1),
    ]


def test_another_version_is_another_document():
    assert write_sbom.document({"a.lock": "x==1\n"}) != write_sbom.document({"a.lock": "x==2\n"})
