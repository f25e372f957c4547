# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import json
import re
import sys
from pathlib import Path

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from world import Host, Refused, World

DOCUMENTATION = r"""
name: fake_windows
short_description: Connection to a stand-in for a Windows host, for tests only
description:
  - Reads the payload that Ansible sends to a Windows host, and answers modules from a simulated host that is kept in a JSON file.
  - No PowerShell runs. What passes here is proven as far as the controller and no farther.
author:
  - The storlab.testbed developers
options:
  host:
    description: Name of the host in the file. A host to which tasks are delegated has to name itself.
    type: str
    vars:
      - name: inventory_hostname
      - name: ansible_fake_windows_host
  world:
    description: The file.
    type: path
    required: true
    vars:
      - name: ansible_fake_windows_world
"""

MANIFEST_END = "\n\0\0\0\0\n"


def decode(payload: str) -> tuple:
    """(module name, arguments, check mode) of the payload of a module; ansible-core's executor/powershell/module_manifest.py makes it."""
    if MANIFEST_END not in payload:
        raise Refused("a module in Python cannot run on a host without Python")
    manifest = json.loads(payload.split(MANIFEST_END)[1])
    action = next(action for action in manifest["actions"] if action["name"] == "module_wrapper.ps1")
    arguments = next(
        variable["Value"] for variable in action["params"]["Variables"] if variable["Name"] == "complex_args"
    )
    name = arguments["_ansible_module_name"]
    source = base64.b64decode(manifest["scripts"][action["params"]["Script"]]["script"]).decode()
    if "#AnsibleRequires" not in source and "#Requires" not in source:
        raise Refused(f"{name} is no PowerShell module")
    given = {key: value for key, value in arguments.items() if not key.startswith("_ansible_")}
    return name, given, bool(arguments.get("_ansible_check_mode"))


class ShellGone(Exception):
    """What pypsrp raises of a shell that the host does not know any more. pypsrp itself need not be installed."""

    __module__ = "pypsrp.exceptions"


class Connection(ConnectionBase):
    transport = "fake_windows"
    module_implementation_preferences = (".ps1", ".exe", "")
    has_pipelining = True
    allow_executable = False
    always_pipeline_modules = True
    has_native_async = True

    def __init__(self, *args, **kwargs):
        self._shell_type = "powershell"
        super().__init__(*args, **kwargs)
        self._broken = None

    def _connect(self):
        """As the connection plugin psrp: what is not reached then is unreachable."""
        if not self._connected:
            with World(self.get_option("world")).open() as world:
                line = self._line(world)
                if line.get("how") == "installing" and line["after"]:
                    line["after"] -= 1
                    raise AnsibleConnectionFailure("Nothing listens yet on a stand-in for Windows")
                if self._line(world).get("how") == "down" and not self._line(world)["after"]:
                    self._line(world)["met"] = True
                    raise AnsibleConnectionFailure("Failed to connect to the host via a stand-in for PSRP")
            self._connected, self._broken = True, None
        return self

    def exec_command(self, cmd, in_data=None, sudoable=True):
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        # A shell that was lost never comes back; only a new connection has a new one.
        if self._broken:
            raise self._broken
        with World(self.get_option("world")).open() as world:
            lost = self._lost(self._line(world))
            if lost and not isinstance(lost, ShellGone):
                self._broken = lost
                raise lost
            try:
                host = Host(world, self.get_option("host"))
                if in_data:
                    answer = host.module(*decode(in_data.decode()))
                    return 0, json.dumps(answer).encode(), b""
                return 0, self._command(host, cmd).encode(), b""
            except Refused as refused:
                return (
                    0,
                    json.dumps({"failed": True, "msg": f"{refused} (said by a stand-in for Windows)"}).encode(),
                    b"",
                )
            finally:
                if lost:
                    self._broken = lost
                    raise lost

    def _line(self, world: World) -> dict:
        """What is going to become of the host's line: C(how), and C(after) how many calls more; C(installing) counts connections that come to nothing."""
        return world.data["hosts"].get(self.get_option("host"), {}).get("line", {})

    @staticmethod
    def _lost(line: dict) -> Exception | None:
        """How a call fails whose line breaks: C(cut) before it comes to the host, C(kill) once it has been carried out, both once, and C(down)."""
        if not line or line["how"] == "installing" or (line["how"] != "down" and line.get("met")):
            return None
        if line["after"]:
            line["after"] -= 1
            return None
        line["met"] = True
        if line["how"] == "kill":
            return ShellGone("The shell was not found on the server (a stand-in of the tests)")
        return ConnectionResetError(104, "Connection reset by peer (a stand-in of the tests)")

    @staticmethod
    def _command(host: Host, command: str) -> str:
        """What win_reboot runs beside modules: it asks for the time of the last start, restarts, and then asks for a word of its own."""
        encoded = re.search(r"-EncodedCommand (\S+)", command)
        text = base64.b64decode(encoded[1]).decode("utf-16-le") if encoded else command
        if "LastBootUpTime" in text:
            return f"boot {host.data['boot']}\r\n"
        if "shutdown" in text.lower():
            host.restart()
        asked = re.search(r"success-[0-9a-f-]{36}", text)
        return f"{asked[0] if asked else ''}\r\n"

    def put_file(self, in_path, out_path):
        raise AnsibleConnectionFailure("the fake Windows host takes no files")

    def fetch_file(self, in_path, out_path):
        raise AnsibleConnectionFailure("the fake Windows host gives no files")

    def close(self):
        self._connected = False

    def reset(self):
        self.close()
