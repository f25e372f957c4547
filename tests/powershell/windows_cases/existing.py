# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""volume_look: the file that is read of a volume that was there before. The folder is the case's own; its volume is said by the world. zero_look: its zeros."""

from __future__ import annotations

from cases import FOLDER, WILD_NAME, Case, Like, at, call, quiet

VOLUME = "\\\\?\\Volume{5f8d0000-0000-0000-0000-100000000037}\\"
SHOWN = (
    "$global:StandIn.Answers['Get-Volume'] = { param($Bound, $Name) New-Thing 'MSFT_Volume' "
    f"@{{ UniqueId = '{VOLUME}'; FileSystem = 'ReFS'; FileSystemLabel = 'Data of others' }} }}\n"
)
GONE = "$global:StandIn.Answers['Get-Volume'] = { param($Bound, $Name) Deny-Call -Message 'No objects found.' -Category ObjectNotFound }\n"
THERE = {
    "small": "12",
    "b/equal": "12345",
    "b/deep/big [x] $y": "123456",
    "c/equal": "12345",
    ".hidden": "1234",
    WILD_NAME: "1",
}
TICKS = Like(r"[0-9]{18}")


def look(what: str, file: str = "", size: int | None = None, asked: str = "", world: str = SHOWN, **limits) -> Case:
    """file: the path below the folder that is answered, of so many bytes; asked: the one that is asked for."""
    given = {"LeastBytes": 3, "MostEntries": 99, "MostS": 60, **limits}
    volume = {"volume": VOLUME, "filesystem": "ReFS", "label": "Data of others"}
    chosen = {"path": at(*file.split("/")), "size_bytes": size, "created": TICKS} if file else None
    return Case(
        "volume_look",
        what,
        {"Folder": FOLDER, "File": asked and at(*asked.split("/")), **given},
        [quiet("Get-Volume", FilePath=FOLDER)],
        result={**(volume if world == SHOWN else dict.fromkeys(volume, "")), "file": chosen},
        changed=False,
        change=world,
        files=THERE,
    )


CASES = [
    look("the biggest file", "b/deep/big [x] $y", 6),
    look("a file that is named", "b/equal", 5, asked="b/equal"),
    look("a file that is named and that no search would take", "small", 2, asked="small"),
    look("a file that is named like a pattern", "b/deep/big [x] $y", 6, asked="b/deep/big [x] $y"),
    look("a file that is missing", asked="none"),
    look("a file that looks like a script", WILD_NAME, 1, asked=WILD_NAME),
    look("a folder in the place of a file", asked="b"),
    look("no file is big enough", LeastBytes=7),
    # Those of the top are the first, and two folders, which are not reached.
    look("a search that ends early", ".hidden", 4, MostEntries=4),
    look("a search without time", MostS=-1),
    look("a volume that is not there", "b/equal", 5, asked="b/equal", world=GONE),
]

BLOCKS = {"disk": "\0" * 11 + "h" + "\0" * 3 + "1" + "\0" * 8 + "12", WILD_NAME: "\0" * 4}


def zeros(what: str, offsets: list, samples: int, count: int, name: str = "disk", size: int = 4, **more) -> Case:
    given = {"Path": at(name), "Offsets": offsets, "Bytes": size}
    result = {"samples": samples, "zeros": count}
    calls = [call("Open-RawStream", Path=at(name))]
    return Case("zero_look", what, given, calls, result=result, changed=False, files=BLOCKS, **more)


CASES += [
    zeros("blocks in their order", [0, 4, 8, 16], 4, 3),
    zeros("blocks in another order, in check mode", [16, 8, 4], 3, 2, check=True),
    # In base 64 it is AAAAaA==, and zeros are AAAAAA==.
    zeros("a block that PowerShell takes for zeros where capitals are ignored", [8], 1, 0),
    zeros("a block with something at its end", [12], 1, 0),
    zeros("longer blocks", [0, 16], 2, 2, size=8),
    zeros("no blocks", [], 0, 0),
    zeros("a block beyond the end ends it", [0, 20, 24, 4], 2, 2),
    zeros("a name that looks like a script", [0], 1, 1, name=WILD_NAME),
    Case(
        "zero_look",
        "a file that is missing",
        {"Path": at("none"), "Offsets": [0], "Bytes": 4},
        [call("Open-RawStream", Path=at("none"))],
        error=Like(r".*none.*"),
        changed=False,
        files=BLOCKS,
    ),
]
