# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user is told when an ESXi host refuses, goes silent, or is another one than was meant."""

from __future__ import annotations

import email.message
import http.client
import io
import socket
import ssl
import sys
import urllib.error
from types import SimpleNamespace

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import session as esxi_session
from ansible_collections.storlab.testbed.plugins.module_utils.esxi.session import Session, error_text
from pyVmomi import vim, vmodl
from unchanged import broken_off

PARAMS = {
    "hostname": "esx7.lab",
    "port": 4430,
    "username": "u7",
    "password": "secret-of-u7",
    "timeout_s": 11,
    "long_timeout_s": 700,
    "esxi_host": None,
}


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(esxi_session, "POLL_S", 0.001)
    made = Session(dict(PARAMS))
    made.stand_in = None
    return made


def code(session: Session, error: Exception) -> tuple:
    with pytest.raises(Failure) as caught, session.doing("make the tea"):
        raise error
    return caught.value.code, str(caught.value)


# ---------------------------------------------------------------- what the host refuses


@pytest.mark.parametrize(
    ("error", "name", "words"),
    [
        (vim.fault.NotAuthenticated(), "session_lost", "esx7.lab ended the session while trying to make the tea"),
        (
            vim.fault.RestrictedVersion(),
            "licence_read_only",
            "Cannot make the tea: the licence of esx7.lab makes its API read-only",
        ),
        (
            vim.fault.NoPermission(privilegeId="VirtualMachine.Inventory.Create"),
            "no_permission",
            "u7 may not make the tea: the privilege VirtualMachine.Inventory.Create is missing",
        ),
        (vim.fault.NoPermission(), "no_permission", "the privilege unknown is missing"),
        (vim.fault.ResourceInUse(name="ds9"), "in_use", "Cannot make the tea: ds9 is in use."),
        (vim.fault.ResourceInUse(), "in_use", "Cannot make the tea: it is in use."),
        (vmodl.fault.SystemError(msg="no\n  room."), "refused", "The host could not make the tea: no room."),
        (
            ConnectionResetError(104, "reset by peer"),
            "connection_lost",
            "The connection to esx7.lab broke while trying",
        ),
        (http.client.BadStatusLine("x"), "connection_lost", "broke while trying to make the tea"),
        (socket.timeout(), "connection_lost", "it does not answer in time"),
    ],
)
def test_a_refusal_says_what_was_being_done(session, error, name, words):
    told = code(session, error)
    assert told[0] == name and words in told[1] and PARAMS["password"] not in told[1]


def test_a_failure_inside_is_told_as_it_is_and_a_mistake_is_no_refusal(session):
    inner = Failure("vm_asks", "It asks.", "Answer.")
    assert code(session, inner)[0] == "vm_asks"
    with pytest.raises(ZeroDivisionError), session.doing("divide"):
        raise ZeroDivisionError
    with session.doing("nothing"):
        pass


@pytest.mark.parametrize(
    ("error", "name"),
    [(vim.fault.NotAuthenticated(), "session_lost"), (ConnectionResetError(104, "reset by peer"), "connection_lost")],
)
def test_a_session_that_ends_while_the_host_is_looked_for_is_told(session, error, name):
    """Each module asks for the host first. The view of the inventory may be there already, and is then not given back."""

    def ended(*_given):
        raise error

    session.all = ended
    with broken_off() as caught:
        session.host()
    assert caught.value.code == name and "esx7.lab" in str(caught.value) and "find the host" in str(caught.value)


def test_the_messages_of_a_fault_are_all_told():
    fault = vmodl.fault.SystemError(msg="first")
    fault.faultMessage = [vmodl.LocalizableMessage(key="k", message="second\nline"), vmodl.LocalizableMessage(key="l")]
    assert error_text(fault) == "first; second line"
    assert error_text(ValueError()) == "ValueError" and len(error_text(ValueError("x" * 900))) == 300


# ---------------------------------------------------------------- opening


class Connect:
    """pyVim.connect of a host that answers with an error, or lets in."""

    def __init__(self, error=None) -> None:
        self.error, self.given, self.gone = error, {}, 0

    def SmartConnect(self, **given):
        self.given = given
        if self.error:
            raise self.error
        content = SimpleNamespace(setting=None)
        return SimpleNamespace(RetrieveContent=lambda: content)

    def Disconnect(self, _instance) -> None:
        self.gone += 1
        raise OSError("the line is gone")


@pytest.fixture
def opened(session, monkeypatch):
    monkeypatch.setattr(esxi_session.trust, "context_for", lambda _params: "context")
    monkeypatch.setattr(esxi_session.trust, "untrusted", lambda _error, _params: Failure("untrusted", "No.", "Look."))
    before = socket.getdefaulttimeout()

    def run(error=None):
        session._connect = Connect(error)
        return session

    yield run
    socket.setdefaulttimeout(before)


@pytest.mark.parametrize(
    ("error", "name", "words"),
    [
        (vim.fault.InvalidLogin(), "login_refused", "esx7.lab:4430 refuses the login of u7"),
        (
            vim.fault.NoPermission(privilegeId="System.View"),
            "no_access",
            "esx7.lab:4430 accepts the password of u7 but grants no access: the host is in lockdown mode",
        ),
        (ssl.SSLCertVerificationError(), "untrusted", "No."),
        (esxi_session.trust.OtherCertificate(), "untrusted", "No."),
        (ConnectionRefusedError(111, "refused"), "host_unreachable", "esx7.lab:4430 cannot be reached"),
        (http.client.RemoteDisconnected("went"), "host_unreachable", "went"),
        (vmodl.fault.SystemError(msg="starting"), "host_unreachable", "starting"),
    ],
)
def test_a_host_that_lets_nobody_in_is_told_with_its_address(opened, error, name, words):
    with broken_off() as caught, opened(error):
        raise AssertionError("nobody was let in")
    assert caught.value.code == name and words in str(caught.value)
    assert PARAMS["password"] not in str(caught.value)


def test_a_session_ends_with_its_block_whatever_the_line_is_like(opened):
    with opened() as session:
        assert session._connect.given["httpConnectionTimeout"] == 11 == socket.getdefaulttimeout()
    assert session._connect.gone == 1


def test_without_its_library_the_task_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyVmomi", None)
    with pytest.raises(Failure) as caught:
        Session(dict(PARAMS))
    assert caught.value.code == "pyvmomi_missing" and "pip install pyvmomi" in str(caught.value)


# ---------------------------------------------------------------- which host


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [(["esx7"], None, "esx7"), (["esx7", "esx8"], "esx8", "esx8"), (["esx7"], "esx7", "esx7")],
)
def test_the_only_host_is_meant_or_the_one_that_is_named(session, names, wanted, chosen):
    session.params["esxi_host"] = wanted
    session.all = lambda _kind, _name: [(f"the host {name}", {"name": name}) for name in names]
    assert session.host() == f"the host {chosen}"


@pytest.mark.parametrize(
    ("names", "wanted", "words"),
    [
        (["esx8", "esx7"], None, "esx7.lab knows esx7, esx8"),
        (["esx7"], "esx", "esx7.lab knows esx7"),
        ([], None, "knows no host"),
    ],
)
def test_a_host_that_nobody_can_mean_is_refused_with_those_that_are_there(session, names, wanted, words):
    session.params["esxi_host"] = wanted
    session.all = lambda _kind, _name: [(name, {"name": name}) for name in names]
    with broken_off() as caught:
        session.host()
    assert caught.value.details["variable"] == "esxi_host" and words in str(caught.value)


# ---------------------------------------------------------------- waiting


def looks(session: Session, *answers: dict) -> None:
    """What the host says of a task, look after look; the last again and again."""
    left = list(answers)
    session.task_properties = lambda _task: left.pop(0) if len(left) > 1 else left[0]


def test_the_result_of_a_task_is_waited_for(session):
    looks(session, {"info.state": "queued"}, {"info.state": "running"}, {"info.state": "success", "info.result": 7})
    assert session.wait("task", "make the tea") == 7
    looks(session, {"info.state": "success"})
    assert session.wait("task", "make the tea") is None


def test_the_fault_of_a_task_is_its_failure(session):
    looks(
        session, {"info.state": "running"}, {"info.state": "error", "info.error": vim.fault.ResourceInUse(name="vm3")}
    )
    with broken_off() as caught:
        session.wait("task", "make the tea")
    assert (caught.value.code, caught.value.details["name"]) == ("in_use", "vm3")


def test_a_task_is_given_up_when_it_does_not_get_on_and_not_when_it_is_slow(session, monkeypatch):
    now = iter(range(0, 10**6, 1000))
    monkeypatch.setattr(esxi_session.time, "monotonic", lambda: next(now))
    slow = [{"info.state": "running", "info.progress": percent} for percent in (1, 2, 3, 4, 5, 6, 7, 8)]
    looks(session, *slow, {"info.state": "success", "info.result": "made"})
    assert session.wait("task", "make the tea") == "made"
    looks(session, {"info.state": "running", "info.progress": 3})
    with broken_off() as caught:
        session.wait("task", "make the tea")
    assert caught.value.code == "task_timeout" and "3600 s without getting on" in str(caught.value)


def test_what_a_host_shows_late_is_looked_at_until_the_end_of_the_time(session, monkeypatch):
    seen = iter([1, 2, 3, 4])
    assert session.until(lambda: next(seen), lambda value: value == 3, 60) == 3
    now = iter([0.0, 1.0, 9.0])
    monkeypatch.setattr(esxi_session.time, "monotonic", lambda: next(now))
    # What was seen last is told, and judged by the caller.
    assert session.until(lambda: "late", lambda _value: False, 5) == "late"


@pytest.mark.parametrize("connected", [True, False])
def test_long_calls_have_more_patience_and_others_have_not(session, connected):
    patience = []
    line = SimpleNamespace(sock=None)

    def connect() -> None:
        line.sock = SimpleNamespace(settimeout=patience.append)

    line.connect = connect
    if connected:
        connect()
    stub = SimpleNamespace(GetConnection=lambda: line, ReturnConnection=lambda back: patience.append(back is line))
    session.instance = SimpleNamespace(_stub=stub)
    with pytest.raises(ZeroDivisionError), session.patient():
        assert patience == [700, True]
        raise ZeroDivisionError
    assert patience == [700, True, 11]


def test_a_line_that_breaks_in_a_long_call_needs_no_patience_any_more(session):
    line = SimpleNamespace(sock=SimpleNamespace(settimeout=lambda _seconds: None))
    session.instance = SimpleNamespace(
        _stub=SimpleNamespace(GetConnection=lambda: line, ReturnConnection=lambda _line: None)
    )
    with pytest.raises(ConnectionResetError), session.patient():
        line.sock = None
        raise ConnectionResetError


# ---------------------------------------------------------------- files on datastores


class Opener:
    """Answers a request for a file, or refuses it."""

    def __init__(self, answer) -> None:
        self.answer, self.requests = answer, []

    def open(self, request, timeout):
        self.requests.append((request, timeout))
        if isinstance(self.answer, Exception):
            raise self.answer
        return io.BytesIO(self.answer)


@pytest.fixture
def store(session):
    root = type("Root", (vim.Folder,), {"name": "Datacenters", "parent": None})("group-1")
    center = type("Center", (vim.Datacenter,), {"name": "ha datacenter", "parent": root})("center-7")
    session.content = SimpleNamespace(rootFolder=root)
    session.instance = SimpleNamespace(_stub=SimpleNamespace(cookie="vmware_soap_session=7; Path=/"))
    return SimpleNamespace(name="ds 1", parent=SimpleNamespace(parent=center))


def refusal(status: int) -> urllib.error.HTTPError:
    return urllib.error.HTTPError("https://x", status, "no", email.message.Message(), io.BytesIO(b""))


def test_a_file_is_named_by_its_datacenter_and_datastore(session, store, tmp_path):
    opener = Opener(b"seven")
    session._opener = lambda: opener
    assert session.file("GET", store, "iso/a b.iso") == b"seven"
    request, timeout = opener.requests[0]
    assert request.full_url == "https://esx7.lab:4430/folder/iso/a%20b.iso?dcPath=ha+datacenter&dsName=ds+1"
    assert (request.get_header("Cookie"), timeout) == ("vmware_soap_session=7", 11)
    (tmp_path / "image").write_bytes(b"x" * 5000)
    with open(tmp_path / "image", "rb") as stream:
        session.file("PUT", store, "b.iso", stream)
    assert opener.requests[1][0].get_header("Content-length") == "5000"


@pytest.mark.parametrize(
    ("method", "error", "name"),
    [
        ("GET", refusal(404), None),
        ("DELETE", refusal(404), None),
        # A folder that is missing is no success.
        ("PUT", refusal(404), "file_refused"),
        ("GET", refusal(401), "file_refused"),
        ("PUT", refusal(507), "file_refused"),
        ("GET", urllib.error.URLError("unreachable"), "connection_lost"),
        ("PUT", http.client.RemoteDisconnected("went"), "connection_lost"),
        ("GET", socket.timeout(), "connection_lost"),
    ],
)
def test_a_file_that_is_refused_is_told_from_one_that_is_not_there(session, store, method, error, name):
    session._opener = lambda: Opener(error)
    if name is None:
        assert session.file(method, store, "a.iso") is None
        return
    with broken_off() as caught:
        session.file(method, store, "a.iso", b"x" if method == "PUT" else None)
    assert caught.value.code == name and "a.iso on datastore ds 1" in str(caught.value)
    assert caught.value.details.get("status") == getattr(error, "code", None)


# ---------------------------------------------------------------- licences


@pytest.mark.parametrize(
    ("kind", "editions", "read_only"),
    [
        ("HostAgent", ["esxBasic"], "name of esxBasic"),
        ("HostAgent", ["eval"], None),
        ("HostAgent", ["esxBasicPlus"], None),
        ("HostAgent", [], None),
        # Its licences are those of all its hosts, and none of them can be the free one.
        ("VirtualCenter", ["esxBasic"], None),
    ],
)
def test_a_licence_that_lets_nothing_be_changed_is_known_by_its_edition(session, kind, editions, read_only):
    licences = [SimpleNamespace(editionKey=edition, name=f"name of {edition}") for edition in editions]
    session.content = SimpleNamespace(
        about=SimpleNamespace(apiType=kind), licenseManager=SimpleNamespace(licenses=licences)
    )
    assert session.licence() == ({"read_only_licence": read_only} if read_only else {})


def test_licences_that_may_not_be_read_are_no_licence(session):
    class Locked:
        @property
        def licenses(self):
            raise vim.fault.NoPermission(privilegeId="Global.Licenses")

    session.content = SimpleNamespace(about=SimpleNamespace(apiType="HostAgent"), licenseManager=Locked())
    assert session.licence() == {}
