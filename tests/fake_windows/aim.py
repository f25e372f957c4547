# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arsenal Image Mounter on the stand-in: aim_ll's command line, words and exit codes, written from its source (aimcmd.cpp, drvsetup.cpp).

It takes what aim_ll takes, with what may go wrong there: small letters of units are powers of ten, -d without a number removes every device,
--uninstall removes those of everybody, a number is given out once, new devices get one partition, and a restart loses all of them.
"""

from __future__ import annotations

import re
import uuid

from refused import Refused

UNITS = {
    "": 1,
    "b": 512,
    "K": 1 << 10,
    "M": 1 << 20,
    "G": 1 << 30,
    "T": 1 << 40,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
}
NOT_INSTALLED = "Arsenal Image Mounter not installed.\n"
NUMBERS = [f"{lun:02X}{target:02X}00" for lun in range(24) for target in range(8)]


class Aim:
    """Scripts of the RAM disk provider aim. data["aim"]: {program, folder: where the setup files are, restart, installed, devices: {number: drive}}."""

    data: dict

    def script_aim_list(self, Program: str) -> dict:
        if Program != self._aim().get("program"):
            return {"found": False, "exit_code": None, "output": "", "errors": ""}
        return {"found": True, **self._aim_ll(["-l"])}

    def script_aim_run(self, Program: str, Arguments: str) -> dict:
        if Program != self._aim().get("program"):
            raise Refused(
                f"{Program} is missing or cannot be started: name the program of Arsenal Image Mounter in ramdisk_aim_program."
            )
        return self._aim_ll([quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', Arguments)])

    def restart_aim(self) -> None:
        aim = self._aim()
        for number in list(aim.get("devices", {})):
            self._aim_lose(number)
        if aim.get("installed") in ("pending", "leaving"):
            aim["installed"] = aim["installed"] == "pending"

    def _aim(self) -> dict:
        return self.data.get("aim") or {}

    def _aim_lose(self, number: str) -> None:
        self.data["disks"].pop(str(self._aim()["devices"].pop(number)))

    def _aim_ll(self, arguments: list) -> dict:
        code, output, errors = self._aim_do(arguments)
        return {"exit_code": code, "output": output.replace("\n", "\r\n"), "errors": errors.replace("\n", "\r\n")}

    def _aim_do(self, arguments: list) -> tuple:
        aim, mode = self._aim(), arguments[0]
        if mode in ("--install", "--uninstall"):
            return self._aim_setup(mode, arguments[1:])
        options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
        if mode not in ("-a", "-d", "-l") or set(options) - {"-t", "-s", "-u"}:
            return -1, "", "Low-level command line interface to Arsenal Image Mounter virtual\nSCSI miniport driver.\n"
        if aim["installed"] is not True:
            return (6 if mode == "-d" else 4), "", NOT_INSTALLED
        if mode == "-l":
            return self._aim_told(aim["devices"])
        return self._aim_attach(options) if mode == "-a" else self._aim_detach(options.get("-u"))

    def _aim_told(self, devices: dict) -> tuple:
        if not devices:
            return 1, "No virtual disks.\n", ""
        text = ""
        for number, drive in devices.items():
            disk = self.data["disks"][str(drive)]
            text += (
                f"Device number {number}\nDevice is \\\\?\\PhysicalDrive{drive}\nNo image file.\n"
                f"Size: {disk['size_bytes']} bytes ({disk['size_bytes'] / (1 << 20):.4g} MB), Virtual Memory, HDD, Modified.\n"
            )
            for letter in disk["volumes"]:
                text += f"Contains volume \\\\?\\Volume{{{uuid.uuid5(uuid.NAMESPACE_DNS, letter)}}}\\\n  Mounted at {letter}:\\\n\n"
            text += "\n"
        return 0, f"{text}{len(devices)} device{'' if len(devices) == 1 else 's'} found.\n", ""

    def _aim_attach(self, options: dict) -> tuple:
        devices = self._aim()["devices"]
        size, unit = re.fullmatch(r"(\d+)(\w?)", options["-s"]).groups()
        if unit not in UNITS:
            return 10, "", f"Unsupported size suffix: '{unit}'\n"
        number, size_bytes = (
            options.get("-u") or next(one for one in NUMBERS if one not in devices),
            int(size) * UNITS[unit],
        )
        if number in devices or options["-t"] != "vm" or number not in NUMBERS:
            return (
                3,
                "Creating device...\n",
                "Error creating virtual disk: Cannot create a file when that file already exists. \n",
            )
        if size_bytes > self._aim().get("memory_bytes", 16 << 30):
            return (
                3,
                "Creating device...\n",
                "Error creating virtual disk: Not enough memory resources are available to process this command. \n",
            )
        disks = self.data["disks"]
        drive = next(free for free in range(1, 999) if str(free) not in disks)
        letter = next(
            free for free in "DEFGHIJ" if free not in {key for disk in disks.values() for key in disk["volumes"]}
        )
        # belief: that each disk of Arsenal Image Mounter has a GUID in braces as its serial, and the bytes of the GUID as its unique id.
        guid = uuid.uuid4()
        disks[str(drive)] = {
            "name": "Arsenal Virtual",
            "lun": int(number[:2], 16),
            "serial": f"{{{guid}}}",
            "unique_id": guid.bytes_le.hex().upper(),
            "bus": "SCSI",
            "size_bytes": size_bytes,
            "style": "MBR",
            "offline": False,
            "read_only": False,
            "boot": False,
            "system": False,
            "clustered": False,
            "partitions": [{"number": 1, "type": "IFS", "size_bytes": size_bytes - (1 << 20), "letter": letter}],
            "volumes": {letter: {"label": "", "filesystem": "", "size_bytes": 0, "entries": []}},
        }
        devices[number] = drive
        return (
            0,
            (
                f"Creating device...\nCreated device {number} -> Image in memory\n\n"
                f"Disk not attached yet, waiting... |\rDevice is \\\\?\\PhysicalDrive{drive}\n"
                "Creating partition...\nSuccessfully created partition.\nDone.\n"
            ),
            "",
        )

    def _aim_detach(self, number: str | None) -> tuple:
        devices = self._aim()["devices"]
        if number is None:
            for one in list(devices):
                self._aim_lose(one)
            return 0, "Done.\n", "Removing all devices...\t\t\n"
        if number not in devices:
            return (
                2,
                "",
                f"Removing device {number}...\t\t\nError removing virtual disk:\nThe system cannot find the file specified.\n",
            )
        self._aim_lose(number)
        return 0, "", f"Removing device {number}...\t\t\n"

    def _aim_setup(self, mode: str, given: list) -> tuple:
        aim, later = self._aim(), "System restart is required to complete setup.\n"
        if mode == "--uninstall":
            removed = len(aim["devices"])
            for number in list(aim["devices"]):
                self._aim_lose(number)
            aim["installed"] = "leaving" if aim.get("restart") else False
            return (
                int(bool(aim.get("restart"))),
                (
                    f"Removing devices...\n{removed} device(s) removed.\nRemoving driver...\n"
                    f"{later if aim.get('restart') else 'Finished successfully.' + chr(10)}"
                ),
                "",
            )
        if given != [aim.get("folder")]:
            return (
                3,
                "",
                (
                    f"Reading inf file...\t\t\nError reading file '{given[0]}\\Win10\\phdskmnt.inf': File not found. \t\t\n"
                    "Setup failed: File not found. \n"
                ),
            )
        aim["installed"] = "pending" if aim.get("restart") else True
        return (
            int(bool(aim.get("restart"))),
            later if aim.get("restart") else "Finished successfully.\n",
            "Installing driver...\t\t\n",
        )
