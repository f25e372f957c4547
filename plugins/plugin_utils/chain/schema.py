# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The JSON schema of an inventory's variables, for editors: made from the words of the description and the roles' argument specifications."""

from __future__ import annotations

from typing import Any

from .description import OLD_WORDS, OPTIONS, WORDS

URL = "https://github.com/storlab/storlab.testbed/blob/main/docs/schema/storlab.testbed.schema.json"
TYPES = {
    "str": {"type": "string"},
    "path": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "dict": {"type": "object"},
    "raw": {},
    "size": {"type": "string", "pattern": r"^\s*[0-9]+\s*(MiB|GiB|TiB)\s*$"},
}
# Any value may be worked out by Jinja2.
TEMPLATE = {"type": "string", "pattern": r"\{\{.*\}\}"}


def schema(roles: dict[str, Any]) -> dict[str, Any]:
    """The schema of group_vars and host_vars. roles: {role: {variable: option}}."""
    variables: dict[str, Any] = {
        name: {key: word[key] for key in ("type", "description", "suboptions") if key in word}
        for name, word in WORDS.items()
    }
    variables["testbed"] |= {"suboptions": OPTIONS}
    for options in roles.values():
        variables |= options
    properties = {name: _either(_value(option)) for name, option in variables.items()}
    for name, now in OLD_WORDS.items():
        properties[name] = {"not": {}, "description": f"Renamed after 0.3: write {now}."}
    rests = sorted(name.removeprefix("testbed_") for name in properties if name.startswith("testbed_"))
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": URL,
        "title": "Variables of an inventory for storlab.testbed",
        "type": ["object", "null"],
        "properties": dict(sorted(properties.items())),
        # Inventories have variables of others, too; with our prefix all are known.
        "patternProperties": {f"^testbed_(?!({'|'.join(rests)})$)": {"not": {}}},
    }


def _either(value: dict[str, Any]) -> dict[str, Any]:
    if not value.get("type") or (value["type"] == "string" and "pattern" not in value and "enum" not in value):
        return value
    description = {"description": value.pop("description")} if "description" in value else {}
    return {**description, "anyOf": [value, TEMPLATE]}


def _value(option: dict[str, Any]) -> dict[str, Any]:
    kind = option.get("type", "str")
    result: dict[str, Any] = {}
    if "description" in option:
        text = option["description"]
        result["description"] = " ".join(text) if isinstance(text, list) else str(text)
    options = option.get("suboptions") or option.get("options")
    if kind == "list":
        element: dict[str, Any] = {key: option[key] for key in ("choices", "suboptions", "options") if key in option}
        result |= {"type": "array", "items": _value({**element, "type": option.get("elements", "raw")})}
        return result
    result |= TYPES[kind]
    if kind == "dict" and options:
        result |= {
            "properties": {name: _value(entry) for name, entry in options.items()},
            "additionalProperties": False,
        }
        required = [name for name, entry in options.items() if entry.get("required")]
        if required:
            result["required"] = required
    elif "choices" in option:
        result["enum"] = option["choices"]
    return result
