# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scripts that read, write and remove files and folders. They touch the case's own folder, and no stand-in."""

from __future__ import annotations

import base64

from cases import WILD_NAME, Bytes, Case, Like, at, call


def told(content: str, size_bytes: int) -> dict:
    return {"content": base64.b64encode(content.encode()).decode(), "size_bytes": size_bytes}


DIGITS = {"file": "0123456789"}
READ = {"changed": False, "files": DIGITS}
NAMED = {"a [file] $x 'y' ü 日本.txt": "abc"}
DEEP = {"kept": "k", "deep/er/still/x": "1", "deep/er/y": "2"}
CASES = [
    Case("file_read", "a part", {"Path": at("file"), "Offset": 4, "Bytes": 3}, result=told("456", 10), **READ),
    Case("file_read", "to the end", {"Path": at("file"), "Offset": 8, "Bytes": 100}, result=told("89", 10), **READ),
    Case(
        "file_read",
        "all in check mode",
        {"Path": at("file"), "Offset": 0, "Bytes": 10},
        result=told("0123456789", 10),
        check=True,
        **READ,
    ),
    Case("file_read", "past the end", {"Path": at("file"), "Offset": 2**43, "Bytes": 4}, result=told("", 10), **READ),
    Case(
        "file_read",
        "an empty file",
        {"Path": at("e"), "Offset": 0, "Bytes": 4},
        result=told("", 0),
        changed=False,
        files={"e": ""},
    ),
    Case(
        "file_read",
        "a name that looks like a script",
        {"Path": at("a [file] $x 'y' ü 日本.txt"), "Offset": 1, "Bytes": 1},
        result=told("b", 3),
        changed=False,
        files=NAMED,
    ),
    Case(
        "file_read",
        "a file that is missing",
        {"Path": at("none"), "Offset": 0, "Bytes": 1},
        error=Like(r".*none.*"),
        **READ,
    ),
    Case("file_write", "nothing", {"Path": at("w"), "SizeBytes": 0}, left={"w": ""}),
    Case("file_write", "less than a block", {"Path": at("w"), "SizeBytes": 513}, left={"w": Bytes(513)}),
    # Blocks are made anew, so two parts of the file differ.
    Case(
        "file_write",
        "two blocks and a part",
        {"Path": at("w"), "SizeBytes": 2 * 2**20 + 5},
        left={"w": Bytes(2 * 2**20 + 5)},
    ),
    Case(
        "file_write",
        "over a longer one",
        {"Path": at("w"), "SizeBytes": 2},
        files={"w": "longer"},
        left={"w": Bytes(2, False)},
    ),
    Case(
        "file_write",
        "a name that looks like a script",
        {"Path": at(WILD_NAME), "SizeBytes": 3},
        left={WILD_NAME: Bytes(3, False)},
    ),
    Case(
        "file_write",
        "into a folder that is missing",
        {"Path": at("none", "w"), "SizeBytes": 2},
        error=Like(r".*none.*"),
    ),
    Case("file_remove", "this one only", {"Path": at("a")}, files={"a": "1", "ab": "2"}, left={"ab": "2"}),
    Case(
        "file_remove",
        "a name that looks like a script",
        {"Path": at("a [file] $x 'y' ü 日本.txt")},
        files={**NAMED, "a f $x 'y' ü 日本.txt": "other"},
        left={"a f $x 'y' ü 日本.txt": "other"},
    ),
    Case("file_remove", "a hidden one", {"Path": at(".a")}, files={".a": "1", "a": "2"}, left={"a": "2"}),
    Case("file_remove", "a file that is missing", {"Path": at("none")}, files={"a": "1"}, error=Like(r".*none.*")),
    Case(
        "folder_remove",
        "with all in it, and the empty ones above",
        {"Folder": at("deep", "er")},
        files=DEEP,
        left={"kept": "k"},
    ),
    Case(
        "folder_remove",
        "one above that holds a file stays",
        {"Folder": at("deep", "er", "still")},
        files=DEEP,
        left={"kept": "k", "deep/er/y": "2"},
    ),
    Case(
        "folder_remove",
        "when only those above are left",
        {"Folder": at("a", "b", "c")},
        files={"kept": "k", "a/b": None},
        left={"kept": "k"},
    ),
    Case("folder_remove", "when nothing is left", {"Folder": at("a", "b")}, files={"kept": "k"}),
    Case(
        "folder_remove",
        "one above with a hidden file stays",
        {"Folder": at("deep", "er")},
        files={"kept": "k", "deep/.hidden": "h", "deep/er/.hidden": "i"},
        left={"kept": "k", "deep/.hidden": "h"},
    ),
    Case(
        "folder_remove",
        "a name with wildcards",
        {"Folder": at("[ab]")},
        files={"kept": "k", "[ab]/x": "1", "a/x": "2"},
        left={"kept": "k", "a/x": "2"},
    ),
]

# ---- folders for what runs with all rights. Who they belong to is said by the world.


def rights(**names) -> str:
    """A world in which folders of these names have other rights than those that the script gives."""
    lines = "; ".join(f"'{name}' = @{{ {content} }}" for name, content in names.items())
    return f"$global:StandIn.Answers['Read-FolderRights'] = @{{ {lines} }}"


def rule(who: str, bits: int, allows: bool = True, below_only: bool = False) -> str:
    return f"rules = @(@{{ who = '{who}'; allows = ${str(allows).lower()}; below_only = ${str(below_only).lower()}; rights = {bits} }})"


def steps(*names: str, made: int = 0) -> list:
    """What is asked of the folders below the case's own, of which the last ones are made."""
    found = []
    for position in range(len(names)):
        path = at(*names[: position + 1])
        if position >= len(names) - made:
            found.append(call("New-OwnedFolder", Path=path))
        found.append(call("Read-FolderRights", Path=path))
    return found


USER = "S-1-5-21-1-2-3-1001"
FULL = 0x1F01FF
REPLACED = Like(
    r"The folder .*lab may be replaced by others than administrators\. Take away their rights, or remove it\."
)
ASSERTED = call("Assert-WindowsPowerShell")
LAST = call("Read-FolderRights", Path=at("lab", "t1"))
FIRST = [ASSERTED, call("Read-FolderRights", Path=at("lab"))]
THERE = {"lab/t1": None}


def private(what: str, world: str = "", error=None, calls=None, files=None, left=None) -> Case:
    wanted = [ASSERTED, *steps("lab", "t1"), LAST] if calls is None else calls
    return Case(
        "folder_private",
        what,
        {"Folder": at("lab", "t1")},
        wanted,
        error=error,
        change=world,
        files=THERE if files is None else files,
        left=left,
    )


CASES += [
    private("is made with those above it", calls=[ASSERTED, *steps("lab", "t1", made=2), LAST], files={}, left=THERE),
    private(
        "is made in one that is there",
        calls=[ASSERTED, *steps("lab", "t1", made=1), LAST],
        files={"lab": None},
        left=THERE,
    ),
    private("is there already, and ours"),
    private("belongs to the system", rights(lab="owner = 'S-1-5-18'")),
    private(
        "one above leads elsewhere",
        rights(lab="leads_elsewhere = $true"),
        Like(r"The folder .*lab leads elsewhere\. Remove it\."),
        FIRST,
    ),
    private(
        "one above belongs to a user",
        rights(lab=f"owner = '{USER}'"),
        Like(r"The folder .*lab does not belong to the administrators\. Remove it\."),
        FIRST,
    ),
    private(
        "takes rights from above",
        rights(t1="protected = $false"),
        Like(r"The folder .*t1 was made by somebody else\. Remove it\."),
    ),
    private("one above takes rights from above", rights(lab="protected = $false")),
    # Each right by which a user could put another folder in its place, by itself.
    *(
        private(f"a user has the right {bits:#x} on one above", rights(lab=rule(USER, bits)), REPLACED, FIRST)
        for bits in (0x40, 0x10000, 0x40000, 0x80000, 0x10000000, FULL)
    ),
    # Read and execute; create files and folders; write attributes: all that does not take a folder away.
    private(
        "a user has every other right on one above",
        rights(lab=rule(USER, FULL & ~(0x40 | 0x10000 | 0x40000 | 0x80000))),
    ),
    private("a user is denied everything", rights(lab=rule(USER, FULL, allows=False))),
    private("a user has all rights on what is below only", rights(lab=rule(USER, FULL, below_only=True))),
    private("the administrators have all rights", rights(lab=rule("S-1-5-32-544", FULL))),
]
