# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles: workloads and sweeps with a name, a version and a source, one YAML file each. Documented in docs/workloads.md."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.failure import Failure, bad_value
from .sweep import expand, expand_all
from .workload import NORMALISED

SUFFIX = ".yml"
REQUIRED = ("name", "version", "title", "source")
KEYS = (*REQUIRED, "description", "workload", "workloads", "sweep", "exclude", "published")
NAME = re.compile(r"[a-z0-9]([a-z0-9_]*[a-z0-9])?")
VERSION = re.compile(r"\d{1,4}(\.\d{1,4}){0,2}")
SOURCE = ("title", "url", "read")
PUBLISHED = ("metric", "value", "unit", "where", "note", "limit", "workload")
LIMITS = ("at_most", "at_least")
FROM_MEMORY = "memory"
# Ours have some kilobytes.
LONGEST = 1 << 20
MOST_VALUES = 100_000


def find(name: str, directories: list[str], load: Any) -> dict[str, Any]:
    """The validated profile of this name. When several directories have one, the last directory's counts, so that a user's comes before ours.

    load: turns the text of a YAML file into what it says (yaml.safe_load); whatever it raises means that the file is damaged.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise bad_value("profile", name, "Use the name of a profile: lower-case letters, digits and underscores.")
    paths = [os.path.join(directory, name + SUFFIX) for directory in directories]
    there = [path for path in paths if os.path.isfile(path)]
    if not there:
        raise Failure(
            "profile_unknown",
            f"There is no profile {name}.",
            f"Use one of {', '.join(names(directories))}, or put {name}{SUFFIX} into a "
            "directory that profile_dirs names.",
            profile=name,
            directories=directories,
        )
    path = there[-1]
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise ValueError(f"it has more than {LONGEST} characters")
        content = load(text)
        if _many(content):
            raise ValueError(f"it expands to more than {MOST_VALUES} values")
    except Exception as error:
        raise Failure(
            "profile_unreadable",
            f"The profile {path} cannot be read as YAML: {' '.join(str(error).split())[:300]}.",
            "Correct the file.",
            path=path,
        ) from error
    return validate(content, path)


def _many(content: object) -> bool:
    """Whether there are more than MOST_VALUES in it, which a few lines of aliases can stand for, or no end of them."""
    waiting, count = [content], 0
    while waiting and count <= MOST_VALUES:
        value = waiting.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        count += 1 + len(inner)
        waiting += inner[:MOST_VALUES]
    return count > MOST_VALUES


def names(directories: list[str]) -> list[str]:
    """The names of all profiles in these directories, sorted."""
    return sorted(
        {
            entry[: -len(SUFFIX)]
            for directory in directories
            if os.path.isdir(directory)
            for entry in os.listdir(directory)
            if entry.endswith(SUFFIX) and NAME.fullmatch(entry[: -len(SUFFIX)])
        }
    )


def validate(content: Any, file: str) -> dict[str, Any]:
    """{name, version, title, source, workloads: [normalised], and description, published where given}. Failure 'bad_profile' names the file."""
    try:
        return _validated(content, os.path.basename(file))
    except Failure as failure:
        raise Failure(
            "bad_profile",
            f"The profile {file} is not valid: {failure.what}",
            failure.remedy,
            path=file,
            **failure.details,
        ) from failure


def _validated(content: Any, file_name: str) -> dict[str, Any]:
    _mapping("profile", content, REQUIRED, KEYS)
    name = content["name"]
    if not isinstance(name, str) or not NAME.fullmatch(name) or name + SUFFIX != file_name:
        raise bad_value(
            "name", name, f"It must be the file's name without {SUFFIX}: lower-case letters, digits and underscores."
        )
    if not isinstance(content["version"], str) or not VERSION.fullmatch(content["version"]):
        raise bad_value(
            "version",
            content["version"],
            "Write it like '1.2' between quotes, and raise it whenever the workloads change.",
        )
    _words("title", content["title"])
    if "description" in content:
        _words("description", content["description"])
    for index, source in enumerate(_list("source", content["source"])):
        _source(f"source[{index}]", source)
    given = [key for key in ("workload", "workloads", "sweep") if content.get(key) is not None]
    if given[:2] == ["workload", "workloads"]:
        raise bad_value("workload", content["workload"], "Give workload or workloads, not both.")
    if not given:
        raise bad_value("workload", None, "Give workload, workloads or sweep.")
    # YAML makes a date of a day that is not quoted.
    source = [{**source, "read": str(source["read"])} for source in content["source"]]
    several = "workloads" in given
    workloads = (expand_all if several else expand)(
        content.get("workloads" if several else "workload"),
        content.get("sweep"),
        "workloads" if several else "workload",
        content.get("exclude"),
    )
    for index, figure in enumerate(_list("published", content.get("published", []), empty=True)):
        _published(f"published[{index}]", figure, workloads)
    return {
        **{key: content[key] for key in (*REQUIRED, "description", "published") if key in content},
        "source": source,
        "workloads": workloads,
    }


def _source(variable: str, source: Any) -> None:
    """A source says where a definition comes from and when it was read there, or that it is from memory, which proves nothing."""
    _mapping(variable, source, ("title", "read"), SOURCE)
    _words(f"{variable}.title", source["title"])
    read = str(source["read"])
    if read != FROM_MEMORY and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", read):
        raise bad_value(
            f"{variable}.read", source["read"], f"Write the day it was read (YYYY-MM-DD), or {FROM_MEMORY}."
        )
    if "url" in source and not re.fullmatch(r"https?://\S+", str(source["url"])):
        raise bad_value(f"{variable}.url", source["url"], "Write an http or https address.")


def _published(variable: str, figure: Any, workloads: Sequence[Mapping[str, object]]) -> None:
    _mapping(variable, figure, ("metric", "value", "unit", "where"), PUBLISHED)
    if isinstance(figure["value"], bool) or not isinstance(figure["value"], (int, float)):
        raise bad_value(f"{variable}.value", figure["value"], "Write a number.")
    if "limit" in figure and figure["limit"] not in LIMITS:
        raise bad_value(f"{variable}.limit", figure["limit"], f"Use one of {', '.join(LIMITS)}.")
    # The normalised keys by which a report finds the workload that the figure is of; without them it is of all of them.
    part = figure.get("workload", {})
    _mapping(f"{variable}.workload", part, (), NORMALISED)
    if not any(all(workload.get(key) == value for key, value in part.items()) for workload in workloads):
        raise bad_value(
            f"{variable}.workload", part, "It is not one of the profile's workloads; write its keys as in results."
        )
    for key in set(figure) - {"value", "workload"}:
        _words(f"{variable}.{key}", figure[key])


def _mapping(variable: str, value: Any, required: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    if not isinstance(value, dict):
        raise bad_value(variable, value, f"Give a mapping with {', '.join(required or allowed)}.")
    for key in required:
        if value.get(key) is None:
            raise bad_value(f"{variable}.{key}" if variable != "profile" else key, None, "It is required.")
    for key in value:
        if key not in allowed:
            raise bad_value(
                f"{variable}.{key}" if variable != "profile" else str(key),
                value[key],
                f"There is no such key; use {', '.join(allowed)}.",
            )


def _list(variable: str, value: object, empty: bool = False) -> list[object]:
    if not isinstance(value, list) or not (value or empty):
        raise bad_value(variable, value, "Give a list.")
    return value


def _words(variable: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise bad_value(variable, value, "Write it in words.")
