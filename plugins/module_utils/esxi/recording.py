# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of an ESXi host or a vCenter as they came, so that the same readers can read them again without the host.

While ``Tape`` listens every request of the connection is kept with the host's answer, in SOAP (vSphere Web Services API). ``Replay`` is a session without a
connection: it gives the kept answer to the same request, in the order of the recording, and refuses every other one.

A recording is ``{version: of the API as pyVmomi names it, calls: [{request, answer, status}]}``, requests and answers as XML.
"""

from __future__ import annotations

import functools
import io
import re
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

from ..core.failure import Failure
from ..core.pseudonyms import Pseudonyms
from . import adapter, datastore, fingerprint, machine_state, network, settings
from .session import Session
from .states import StoresState

# No reader changes anything; should one try, it is not let through.
LOOKING = re.compile(
    r"^(Fetch|Retrieve|Query|Search|CreateContainerView$|CreateFilter$|DestroyView$|Destroy(View|PropertyFilter)$|CurrentTime$|FindBy)"
)
# Elements whose texts people write, or that hold secrets: never recorded.
FREE_TEXT = (
    "annotation",
    "notes",
    "password",
    "adminPassword",
    "certificate",
    "sslThumbprint",
    "licenseKey",
    "sessionId",
    "key64",
)
# Elements whose whole text is a serial number or a name of somebody's lab.
SERIALS = ("serialNumber", "identifierValue", "assetTag")
NAMES = (
    "hostName",
    "domainName",
    "searchDomain",
    "computerName",
    "chapName",
    "mutualChapName",
    "portgroup",
    "portgroupName",
    "remoteHost",
    "remotePath",
)
_NODE = re.compile(r"<(\w+)((?:\s[^<>]*)?)>([^<]+)(?=</\1>)")
_OF_THE_API = re.compile(r"^(pathSet|prop|type|patchLevel|build)$|[vV]ersion(Id)?$")
MOST_MACHINES = 20


class Tape:
    """Keeps what goes over the connection of a session from now on."""

    def __init__(self, session: Session) -> None:
        self.calls: list[dict[str, Any]] = []
        self.stub: Any = session.instance._stub
        self.version: str = self.stub.version
        # A compressed answer would be kept compressed.
        self.stub._acceptCompressedResponses = False
        self._invoke, self._connection = self.stub.InvokeMethod, self.stub.GetConnection
        self.stub.InvokeMethod = self.invoke
        self.stub.GetConnection = lambda: _Line(self._connection(), self)

    def invoke(self, mo: object, info: Any, args: Any, *more: Any) -> object:
        if not LOOKING.match(info.wsdlName):
            raise Failure(
                "not_read_only",
                f"A recording only looks, and {info.wsdlName} does more.",
                "Report this as a bug; nothing was changed.",
            )
        request = request_of(self.stub, mo, info, args)
        self.calls.append({"request": request, "answer": "", "status": 0})
        return self._invoke(mo, info, args, *more)

    def recording(self) -> dict[str, object]:
        return {"version": self.version, "calls": [call for call in self.calls if call["status"]]}


class _Line:
    """A connection that shows what is read from it."""

    def __init__(self, line: Any, tape: Tape) -> None:
        self.line, self.tape = line, tape

    def __getattr__(self, name: str) -> object:
        return getattr(self.line, name)

    def getresponse(self) -> Any:
        answer = self.line.getresponse()
        body = answer.read()
        self.tape.calls[-1].update(answer=body.decode(), status=answer.status)
        return _Answer(answer, body)


class _Answer:
    def __init__(self, answer: Any, body: bytes) -> None:
        self.status, self.reason, self.getheader = answer.status, answer.reason, answer.getheader
        self.read = io.BytesIO(body).read


def request_of(stub: Any, mo: Any, info: Any, args: Any) -> str:
    """The request as XML, without what differs between two connections."""
    text: str = stub.SerializeRequest(mo, info, args).decode()
    return re.sub(r"<soapenv:Header>.*?</soapenv:Header>|<operationID>.*?</operationID>", "", text, flags=re.DOTALL)


def _soap() -> Any:
    """Untyped, as the rest of pyVmomi."""
    from pyVmomi import SoapAdapter

    return SoapAdapter


class Replay(Session):
    """A session whose host is a recording."""

    def __init__(self, recording: dict[str, Any]) -> None:
        super().__init__(
            {
                "hostname": "recording",
                "port": 443,
                "username": "",
                "password": "",
                "validate_certs": True,
                "ca_path": None,
                "thumbprint": None,
                "esxi_host": None,
                "timeout_s": 60,
                "long_timeout_s": 60,
            }
        )
        soap = _soap()
        replay, kept = self, recording
        self.answers: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        for call in kept["calls"]:
            self.answers[call["request"]].append(call)
        self.given: set[str] = set()

        class Stub(soap.SoapStubAdapter):  # type: ignore[misc, name-defined]
            def InvokeMethod(self, mo: object, info: object, args: Any, outerStub: object = None) -> object:
                return replay.answer(self, mo, info, args)

        stub: Any = Stub(host="recording", version=recording["version"])
        self.instance = self.vim.ServiceInstance("ServiceInstance", stub)
        self.content = self.instance.RetrieveContent()
        self.stand_in = self._stand_in()

    def __enter__(self) -> Replay:
        return self

    def answer(self, stub: Any, mo: Any, info: Any, args: Any) -> Any:
        request = request_of(stub, mo, info, args)
        waiting = self.answers.get(request)
        if not waiting:
            raise Failure(
                "not_recorded",
                f"The recording has no answer to {info.wsdlName} of {mo._moId}.",
                "Record the lab again with this release.",
            )
        self.given.add(request)
        # Asked more often than recorded, a host that does not change says the same again.
        call = waiting.popleft() if len(waiting) > 1 else waiting[0]
        result = _soap().SoapResponseDeserializer(stub).Deserialize(io.BytesIO(call["answer"].encode()), info.result)
        if call["status"] != 200:
            raise result
        return result

    def unread(self) -> list[str]:
        """Methods of the recorded requests that no reader sent."""
        left = [request for request in self.answers if request not in self.given]
        return sorted(
            " ".join(re.findall(r"<soapenv:Body><(\w+)|<_this[^>]*>([^<]*)", request)[0][:1]) for request in left
        )


# ---------------------------------------------------------------- what is recorded, and read again


def looks(session: Session, host: Any) -> dict[str, Callable[[], Any]]:
    """By name what this collection reads of a host before it changes anything, and of its machines and counters."""
    machines = sorted(session.all(session.vim.VirtualMachine, "name"), key=lambda each: str(each[0]))[:MOST_MACHINES]

    def stores() -> StoresState:
        disks = datastore.read(session, host)["disks"]
        return datastore.read(session, host, naas=list(disks))

    return {
        "about": lambda: {**session.about, **session.licence()},
        "adapter": lambda: adapter.read(session, host, optional=adapter.HOST_OPTIONS),
        "host_limits": lambda: adapter.host_limits(session, host, adapter.HOST_OPTIONS),
        "datastores": stores,
        "network": lambda: network.read(session, host),
        "settings": lambda: settings.read(session, host),
        "fingerprint": lambda: fingerprint.read(session, host),
        "counters": lambda: _counters(session, host),
        **{
            f"machine {values['name']}": functools.partial(machine_state.read, session, host, vm)
            for vm, values in machines
        },
    }


def _counters(session: Session, host: object) -> dict[str, object]:
    """{counters: {name: number}, sample_s}; samples themselves are asked for by time, which no recording can repeat."""
    manager = session.content.perfManager
    with session.doing("read which counters it has"):
        return {
            "counters": {
                f"{info.groupInfo.key}.{info.nameInfo.key}.{info.rollupType}": info.key for info in manager.perfCounter
            },
            "sample_s": manager.QueryPerfProviderSummary(host).refreshRate,
        }


def seen(session: Session, host: object) -> dict[str, object]:
    """{name of a look: what it gave, or {failure: its words}}"""
    answers = {}
    for name, look in looks(session, host).items():
        try:
            answers[name] = look()
        except Failure as failure:
            answers[name] = {"failure": {"code": failure.code, "what": failure.what}}
        except Exception as error:
            answers[name] = {"failure": {"code": "unreadable", "what": f"{type(error).__name__}: {error}"}}
    return answers


def record(session: Session) -> dict[str, Any]:
    """All that ``seen`` asks of the host that is meant, and of the connection before it."""
    tape = Tape(session)
    session.content = session.instance.RetrieveContent()
    session.stand_in = session._stand_in()
    seen(session, session.host())
    return tape.recording()


# ---------------------------------------------------------------- without what identifies the lab


def names_in(recording: dict[str, Any]) -> set[str]:
    """Names of hosts, machines, datastores, networks and users in the answers, as the XML spells them.

    They are the texts of elements that hold names, the values of properties called name, asked for alone or with others, and names of port groups.
    """
    names: set[str] = set()
    for call in recording["calls"]:
        answer = re.sub(r">\s+<", "><", call["answer"])
        for element in NAMES:
            names.update(re.findall(rf"<{element}(?: [^>]*)?>([^<]+)</{element}>", answer))
        names.update(re.findall(r"<name>name</name><val[^>]*>([^<]+)</val>", answer))
        names.update(re.findall(r"<name>([^<]+)</name><vlanId>", answer))
        if re.search(r">name</prop>", call["request"]):
            names.update(re.findall(r"<returnval[^>]*>([^<]+)</returnval>", answer))
    return names


def scrubbed(recording: dict[str, Any], key: bytes, names: set[str]) -> dict[str, object]:
    """The recording with other names, addresses and identifiers, each the same everywhere, and without free texts."""
    pseudonyms = Pseudonyms(key, names_in(recording) | names | {escape(name) for name in names})
    free = re.compile(rf"<({'|'.join(FREE_TEXT)})(?: [^>]*)?>[^<]*</\1>|<(vAppConfig)(?: [^>]*)?>.*?</\2>", re.DOTALL)
    extra = re.compile(r"(<extraConfig[^>]*>\s*<key>(?!storlab\.)[^<]*</key>\s*<value[^>]*>)[^<]*(?=</value>)")
    whole = re.compile(rf"(<({'|'.join(SERIALS)})(?: [^>]*)?>)([^<]*)(?=</\2>)")

    def text(value: str) -> str:
        value = extra.sub(r"\1", free.sub("", value))
        value = whole.sub(lambda match: match.group(1) + pseudonyms.like(match.group(3)), value)
        return _NODE.sub(node, value)

    def node(match: re.Match[str]) -> str:
        # A machine may be called as the API calls something: its name is replaced in texts alone, and never in what names a property or a version.
        property_name = match[1] == "name" and match.string[
            max(0, match.start() - 60) : match.start()
        ].rstrip().endswith("<propSet>")
        if property_name or _OF_THE_API.search(match[1]):
            return match[0]
        return f"<{match[1]}{match[2]}>{pseudonyms.text(match[3])}"

    return {
        "version": recording["version"],
        "calls": [
            {**call, "request": text(call["request"]), "answer": text(call["answer"])} for call in recording["calls"]
        ],
    }
