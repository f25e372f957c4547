# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""volume_look: the file that is read of a volume that was there before. The folder is the case's own; its volume is said by the world. zero_look: its zeros."""

from __future__ import annotations

from cases import FOLDER, WILD, WILD_NAME, Case, Like, at, call, quiet

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

# ---- a folder of the testbed's own

OWN, STAMP, DATA = at("own"), ".storlab-owner.json", "storlab-benchmark.dat"
SIZES = "Size = [uint64]1099511627776; SizeRemaining = [uint64]549755813888"
ROOMY = SHOWN.replace("FileSystem = ", f"{SIZES}; FileSystem = ")
VOLUME_LOOK = {"volume": VOLUME, "filesystem": "ReFS", "size_bytes": 1 << 40, "free_bytes": 1 << 39}
OURS = {f"own/{STAMP}": "{}", f"own/{DATA}": "12345", "own/letter [x].txt": "1"}


def own_look(what: str, own: object, files: dict, world: str = ROOMY, place: str = "own", **more) -> Case:
    volume = VOLUME_LOOK if world == ROOMY else {"volume": "", "filesystem": "", "size_bytes": 0, "free_bytes": 0}
    return Case(
        "own_look",
        what,
        {"Folder": FOLDER, "Own": at(place), "Stamp": STAMP, "File": DATA},
        [quiet("Get-Volume", FilePath=FOLDER)],
        result={**volume, "own": own},
        changed=False,
        change=world,
        files=files,
        **more,
    )


def own_new(
    what: str, name: str = "own", world: str = "", files: dict | None = None, left: dict | None = None, error=None
) -> Case:
    calls = [
        call("Assert-WindowsPowerShell"),
        call("New-OwnedFolder", Path=at(name)),
        call("Read-FolderRights", Path=at(name)),
    ]
    given = {"Own": at(name), "Stamp": WILD_NAME, "Content": WILD}
    return Case("own_new", what, given, calls, error=error, change=world, files=files or {}, left=left)


def others(**rights: str) -> str:
    lines = "; ".join(f"{key} = {value}" for key, value in rights.items())
    return f"$global:StandIn.Answers['Read-FolderRights'] = @{{ 'own' = @{{ {lines} }} }}"


FOREIGN = Like(r"The folder .*own was made by somebody else\.")
CASES += [
    own_look(
        "all of it", {"plain": True, "names": [STAMP, "letter [x].txt", DATA], "stamp": "{}", "size_bytes": 5}, OURS
    ),
    own_look("nothing there", None, {"other": "1"}),
    own_look("nothing there in check mode", None, {}, check=True),
    own_look("a file of that name", {"plain": False, "names": [], "stamp": "", "size_bytes": None}, {"own": "1"}),
    own_look("an empty folder", {"plain": True, "names": [], "stamp": "", "size_bytes": None}, {"own": None}),
    own_look(
        "folders in the place of files",
        {"plain": True, "names": [STAMP, DATA], "stamp": "", "size_bytes": None},
        {f"own/{STAMP}": None, f"own/{DATA}": None},
    ),
    own_look(
        "a stamp that is too long",
        {"plain": True, "names": [STAMP], "stamp": "", "size_bytes": None},
        {f"own/{STAMP}": "1" * 4097},
    ),
    own_look("a volume that is not there", None, {}, world=GONE),
    own_look(
        "a name that looks like a script",
        {"plain": True, "names": [STAMP], "stamp": "12", "size_bytes": None},
        {f"{WILD_NAME}/{STAMP}": "12"},
        place=WILD_NAME,
    ),
    Case(
        "own_look",
        "names that look like scripts",
        {"Folder": FOLDER, "Own": at("own"), "Stamp": WILD_NAME, "File": f"b {WILD_NAME}"},
        [quiet("Get-Volume", FilePath=FOLDER)],
        result={
            **VOLUME_LOOK,
            "own": {"plain": True, "names": [WILD_NAME, f"b {WILD_NAME}"], "stamp": "12", "size_bytes": 3},
        },
        changed=False,
        change=ROOMY,
        files={f"own/{WILD_NAME}": "12", f"own/b {WILD_NAME}": "123"},
    ),
    own_new("is made and stamped", left={"own": None, f"own/{WILD_NAME}": WILD}),
    own_new("a name that looks like a script", WILD_NAME, left={WILD_NAME: None, f"{WILD_NAME}/{WILD_NAME}": WILD}),
    own_new("of others by its owner", world=others(owner="'S-1-5-21-1'"), left={"own": None}, error=FOREIGN),
    own_new("that takes rights from above", world=others(protected="$false"), left={"own": None}, error=FOREIGN),
    own_new("that leads elsewhere", world=others(leads_elsewhere="$true"), left={"own": None}, error=FOREIGN),
    own_new("that has a stamp already", files={f"own/{WILD_NAME}": "theirs"}, error=Like(r".*")),
    Case(
        "own_remove",
        "with its files, and those above it stay",
        {"Own": at("empty", "own"), "Names": [DATA, STAMP]},
        files={f"empty/own/{DATA}": "1", f"empty/own/{STAMP}": "2"},
        left={"empty": None},
    ),
    Case(
        "own_remove",
        "an empty one",
        {"Own": at("own"), "Names": []},
        files={"own": None, "kept": "1"},
        left={"kept": "1"},
    ),
    Case(
        "own_remove",
        "one that holds something of others stays",
        {"Own": at("own"), "Names": [DATA]},
        files={f"own/{DATA}": "1", "own/letter.txt": "2"},
        left={"own/letter.txt": "2"},
        error=Like(r".*own.*"),
    ),
    Case(
        "own_remove",
        "names that look like scripts",
        {"Own": at(WILD_NAME), "Names": [WILD_NAME]},
        files={f"{WILD_NAME}/{WILD_NAME}": "1", "kept": "2"},
        left={"kept": "2"},
    ),
]
