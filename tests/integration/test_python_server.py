# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python that stays loaded in the machines of the embedded lab, and its client, as processes on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from places import ROOT
from waiting import until

IMAGE = ROOT / "roles/embedded_lab/files/image"
LAUNCH = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("python_server", sys.argv[1])
server = importlib.util.module_from_spec(spec)
spec.loader.exec_module(server)
server.__file__, server.SOCKET, server.ARCHIVES = __file__, sys.argv[2], sys.argv[3]
server.sys.argv = [__file__, *sys.argv[1:]]
server.os.execv = lambda python, argv: os_execv(python, [python, __file__, *sys.argv[1:4], argv[-1]])
server.serve(server.socket.socket(fileno=int(sys.argv[4])) if len(sys.argv) > 4 else server.listen())
"""


class Server:
    """A server with folders of its own, and a client that is pointed at it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.socket = folder, folder / "socket"
        self.archives = folder / "archives"
        launch = folder / "launch.py"
        launch.write_text("from os import execv as os_execv\n" + LAUNCH)
        self.client = folder / "client"
        text = (IMAGE / "python_client").read_text()
        itself = "exec '/usr/bin/python3', @ARGV"
        assert text.count("/run/python-server'") == 1 and text.count(itself) == 1
        # A checkout's path may hold a blank, at which Perl would split a command that stands alone.
        text = text.replace(itself, f"exec {{'{sys.executable}'}} '{sys.executable}', @ARGV")
        self.client.write_text(text.replace("/run/python-server'", f"{self.socket}'"))
        self.client.chmod(0o755)
        self.argv = [sys.executable, str(launch), str(IMAGE / "python_server.py"), str(self.socket), str(self.archives)]
        self.start()

    def start(self) -> None:
        # Not to be taken for what the process before it left.
        self.socket.unlink(missing_ok=True)
        self.process = subprocess.Popen(self.argv)
        until(self.socket.exists)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def run(self, program: str, *arguments: str, **more) -> subprocess.CompletedProcess[str]:
        argv = [str(self.client), *arguments]
        return subprocess.run(argv, input=program, capture_output=True, text=True, timeout=120, check=False, **more)

    def archive(self, value: str, more: tuple[str, ...] = ()) -> str:
        """What a module of Ansible comes in, as far as it matters: importing ``basic`` is written down."""
        path = self.folder / f"module-{value}.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("ansible/__init__.py", "")
            archive.writestr("ansible/module_utils/__init__.py", "")
            log = self.folder / "imported.log"
            archive.writestr(
                "ansible/module_utils/basic.py",
                f"import os\nVALUE = {value!r}\nopen({str(log)!r}, 'a').write(f'{{os.getpid()}}\\n')\nSTATE = []\n",
            )
            for name in more:
                archive.writestr(
                    f"ansible/module_utils/{name}.py", f"from ansible.module_utils import basic\nHERE = {name!r}\n"
                )
        return str(path)

    def imported(self) -> int:
        """How often ``basic`` was imported anew."""
        log = self.folder / "imported.log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def loads(self, archive: str, wanted: str = "basic.VALUE") -> str:
        """Import what a module would, and say what came of it; the program changes what it imported, which must stay its own."""
        program = (
            f"import sys\nsys.path.insert(0, {archive!r})\nfrom ansible.module_utils import basic\n"
            f"assert basic.STATE == []\nbasic.STATE.append(1)\nprint({wanted}, basic.__file__)\n"
        )
        result = self.run(program)
        assert result.returncode == 0, result.stderr
        value, path = result.stdout.split()
        assert path == f"{archive}/ansible/module_utils/basic.py"
        return value

    def has_loaded(self) -> None:
        until(lambda: self.archives.is_dir() and not list(self.archives.iterdir()))


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.stop()


def test_a_program_has_the_files_folder_environment_and_mask_of_its_client(server, tmp_path):
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    program = (
        "import os, sys\nprint(os.getcwd(), os.environ['WORD'], os.environ.get('HOME'), sys.argv, __name__)\n"
        "open('made', 'w').close()\nprint('said', file=sys.stderr)\nsys.exit(3)\n"
    )
    result = server.run(program, cwd=elsewhere, env={"WORD": "two words", "PATH": os.environ["PATH"]}, umask=0o027)
    assert (result.returncode, result.stderr) == (3, "said\n")
    assert result.stdout == f"{elsewhere} two words None [''] __main__\n"
    assert (elsewhere / "made").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("program", "status", "error"),
    [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('why')", 1, "why\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("not a program", 1, "SyntaxError: invalid syntax\n"),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", 128 + 9, ""),
        ("import atexit, sys; atexit.register(sys.stderr.write, 'at the end\\n')", 0, "at the end\n"),
        ("import threading, sys, time; threading.Thread(target=lambda: (time.sleep(0.2), sys.exit(0))).start()", 0, ""),
    ],
)
def test_a_program_ends_as_it_would_by_itself(server, program, status, error):
    result = server.run(program)
    assert result.returncode == status and result.stderr.endswith(error) and bool(error) == bool(result.stderr)
    # The next one knows nothing of it.
    assert server.run("print('program' in globals())").stdout == "False\n"


def test_a_program_can_make_a_session_and_leave_a_process_behind(server, tmp_path):
    program = (
        "import os, sys\nif os.fork() == 0:\n    os.setsid()\n    os.close(0), os.close(1), os.close(2)\n"
        f"    open({str(tmp_path / 'left')!r}, 'w').write(f'{{os.getpid()}} {{os.getsid(0)}}')\n    os._exit(0)\nprint('begun')\n"
    )
    assert server.run(program).stdout == "begun\n"
    until(lambda: (tmp_path / "left").exists() and len((tmp_path / "left").read_text().split()) == 2)
    pid, session = (tmp_path / "left").read_text().split()
    assert pid == session
    assert server.process.poll() is None


def test_with_arguments_or_without_a_server_it_is_python_itself(server):
    assert server.run("", "-c", "print(6 * 7)").stdout == "42\n"
    server.stop()
    alone = server.run("import sys; print(6 * 8, sys.argv)")
    assert (alone.stdout, alone.stderr, alone.returncode) == ("48 ['']\n", "", 0)


def test_what_modules_import_is_loaded_once_and_each_program_has_its_own(server):
    archive = server.archive("first")
    assert server.loads(archive) == "first"
    server.has_loaded()
    # Once by the program, once by the server.
    assert server.imported() == 2
    for _ in range(3):
        assert server.loads(archive) == "first"
    assert server.imported() == 2


def test_a_module_with_other_files_never_gets_what_is_loaded(server):
    first, second = server.archive("first"), server.archive("other")
    server.loads(first)
    server.has_loaded()
    assert server.loads(second) == "other"
    server.has_loaded()
    before = server.imported()
    assert server.loads(second) == "other" and server.imported() == before, "the newest is loaded now"
    assert server.loads(first) == "first"


def test_more_files_are_loaded_beside_and_only_what_a_module_brings_is_there(server):
    small, large = server.archive("same"), None
    server.loads(small)
    server.has_loaded()
    (server.folder / "module-same.zip").rename(server.folder / "small.zip")
    small, large = str(server.folder / "small.zip"), server.archive("same", ("facts",))
    wanted = "__import__('importlib').import_module('ansible.module_utils.facts').HERE"
    assert server.loads(large, wanted) == "facts"
    server.has_loaded()
    before = server.imported()
    assert server.loads(large, wanted) == "facts" and server.imported() == before
    result = server.run(
        f"import sys; sys.path.insert(0, {small!r}); from ansible.module_utils import basic; import ansible.module_utils.facts"
    )
    assert result.returncode == 1 and "No module named 'ansible.module_utils.facts'" in result.stderr


def test_a_damaged_archive_that_was_kept_does_no_harm(server):
    server.has_loaded()
    server.stop()
    server.archives.mkdir(exist_ok=True)
    (server.archives / "1.zip").write_bytes(b"no archive")
    server.start()
    assert server.loads(server.archive("after")) == "after"
    server.has_loaded()


def test_a_module_of_ansible_runs_in_it(server):
    ansible = str(Path(sys.executable).with_name("ansible"))
    command = [
        ansible,
        "-i",
        "localhost,",
        "-c",
        "local",
        "-e",
        f"ansible_python_interpreter={server.client}",
        "localhost",
    ]
    environment = {**os.environ, "ANSIBLE_PIPELINING": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml"}
    for data in ("one", "two", "three"):
        result = subprocess.run(
            [*command, "-m", "ansible.builtin.ping", "-a", f"data={data}"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env=environment,
        )
        assert result.returncode == 0 and f"ping: {data}" in result.stdout, result.stdout + result.stderr
        server.has_loaded()
