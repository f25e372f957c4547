# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One session with an ESXi host, directly or through its vCenter, and what every module needs of it.

pyVmomi is imported when a session is opened, so that pure functions and tests do without it.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from ..core.failure import Failure, bad_value
from . import trust
from .params import ConnectionParams

# The marks that prove that a VM, a datastore or an adapter belongs to a testbed.
STAMP_KEY = "storlab.testbed"
TASK_PATIENCE_S = 3600
# The option of the service by which the simulated ESXi of tests announces itself. No product has it.
STAND_IN = "storlab.standIn"
# The edition of the free vSphere Hypervisor, whose API reads and changes nothing.
READ_ONLY_EDITIONS = ("esxBasic",)
POLL_S = 0.2


def spec(env_fallback: object) -> dict[str, object]:
    """The connection's part of every module's argument_spec. env_fallback: Ansible's function of that name, which only modules import."""
    return {
        "hostname": {"type": "str", "required": True, "fallback": (env_fallback, ["VMWARE_HOST"])},
        "port": {"type": "int", "default": 443, "fallback": (env_fallback, ["VMWARE_PORT"])},
        "username": {"type": "str", "required": True, "fallback": (env_fallback, ["VMWARE_USER"])},
        "password": {"type": "str", "required": True, "no_log": True, "fallback": (env_fallback, ["VMWARE_PASSWORD"])},
        "validate_certs": {"type": "bool", "default": True},
        "ca_path": {"type": "path"},
        "thumbprint": {"type": "str"},
        "timeout_s": {"type": "int", "default": 60},
        "long_timeout_s": {"type": "int", "default": 900},
        "esxi_host": {"type": "str"},
    }


def stamp(testbed_id: str) -> str:
    return f"storlab-{testbed_id}"


class Session:
    """A logged-in connection; ends with the ``with`` block. Everything that the host refuses becomes a Failure."""

    def __init__(self, params: ConnectionParams) -> None:
        self.params = params
        try:
            from pyVim import connect
            from pyVmomi import vim, vmodl
        except ImportError:
            raise Failure(
                "pyvmomi_missing",
                "The Python library pyVmomi is not installed where this task runs.",
                "Install it there: pip install pyvmomi.",
            ) from None
        # Untyped: pyVmomi makes most of its classes when they are first asked for.
        self.vim: Any = vim
        self.vmodl: Any = vmodl
        self._connect: Any = connect

    def __enter__(self) -> Session:
        where = f"{self.params['hostname']}:{self.params['port']}"
        self.context = trust.context_for(self.params)
        # pyVmomi bounds the connecting only; an answer that never comes would be waited for without end.
        socket.setdefaulttimeout(self.params["timeout_s"])
        try:
            self.instance = self._connect.SmartConnect(
                host=self.params["hostname"],
                port=self.params["port"],
                user=self.params["username"],
                pwd=self.params["password"],
                sslContext=self.context,
                httpConnectionTimeout=self.params["timeout_s"],
            )
            self.content = self.instance.RetrieveContent()
            self.stand_in = self._stand_in()
        except self.vim.fault.InvalidLogin:
            raise Failure(
                "login_refused",
                f"{where} refuses the login of {self.params['username']}.",
                "Correct username and password.",
            ) from None
        except self.vim.fault.NoPermission:
            raise Failure(
                "no_access",
                f"{where} accepts the password of {self.params['username']} but grants no access: the host is in lockdown mode, or the user has no role.",
                "Go through the host's vCenter, or put the user on the list of exceptions of lockdown mode; or give the user a role on the host.",
                username=self.params["username"],
            ) from None
        except (ssl.SSLCertVerificationError, trust.OtherCertificate) as error:
            raise trust.untrusted(error, self.params) from None
        except (OSError, http.client.HTTPException, self.vmodl.MethodFault) as error:
            raise Failure(
                "host_unreachable",
                f"{where} cannot be reached: {error_text(error)}.",
                "Check hostname, port and the network.",
            ) from None
        return self

    def __exit__(self, *_exception: object) -> None:
        with contextlib.suppress(Exception):
            self._connect.Disconnect(self.instance)

    @contextlib.contextmanager
    def patient(self) -> Iterator[Any]:
        """Calls inside may take up to ``long_timeout_s``: a rescan, or making and removing a datastore."""
        stub = self.instance._stub
        line = stub.GetConnection()
        with self.doing("connect again"):
            if line.sock is None:
                line.connect()
        line.sock.settimeout(self.params["long_timeout_s"])
        # The next call takes the connection that was given back last.
        stub.ReturnConnection(line)
        try:
            yield
        finally:
            if line.sock is not None:
                line.sock.settimeout(self.params["timeout_s"])

    def until(self, look: Any, done: Any, timeout_s: float) -> Any:
        """The return of ``look()`` once ``done`` of it is true, or at the end of the time: a host updates its own description after a call has returned."""
        deadline = time.monotonic() + timeout_s
        while True:
            seen = look()
            if done(seen) or time.monotonic() > deadline:
                return seen
            time.sleep(POLL_S)

    def _stand_in(self) -> str | None:
        """The simulation that makes its figures up, as it announces itself; none for a host or a vCenter."""
        settings = self.content.setting
        with contextlib.suppress(self.vim.fault.InvalidName, self.vim.fault.NoPermission):
            # A name of a group answers with all of its options.
            for option in settings.QueryOptions(STAND_IN) if settings else ():
                if option.key == STAND_IN:
                    return str(option.value)
        return None

    @property
    def about(self) -> dict[str, object]:
        """{product, version, build, api, kind[, stand_in]}."""
        about = self.content.about
        return {
            **({"stand_in": self.stand_in} if self.stand_in else {}),
            "product": about.fullName,
            "version": about.version,
            "build": about.build,
            "api": about.apiVersion,
            "kind": about.apiType,
        }

    def licence(self) -> dict[str, object]:
        """{read_only_licence}: the name of the licence that lets a host on its own be read and not changed; nothing where there is none, or it may not be read.

        A vCenter cannot manage a host with one.
        """
        if self.content.about.apiType != "HostAgent" or self.content.licenseManager is None:
            return {}
        with contextlib.suppress(self.vmodl.MethodFault):
            licences = self.content.licenseManager.licenses or []
            names = [licence.name for licence in licences if licence.editionKey in READ_ONLY_EDITIONS]
            return {"read_only_licence": names[0]} if names else {}
        return {}

    def all(self, kind: Any, *names: Any) -> list[Any]:
        """[(object, {name: value})] of every managed object of this kind, in one request."""
        view = self.content.viewManager.CreateContainerView(self.content.rootFolder, [kind], True)
        query = self.vmodl.query.PropertyCollector
        step = query.TraversalSpec(name="view", path="view", skip=False, type=self.vim.view.ContainerView)
        contents = self.content.propertyCollector.RetrieveContents(
            [
                query.FilterSpec(
                    objectSet=[query.ObjectSpec(obj=view, skip=True, selectSet=[step])],
                    propSet=[query.PropertySpec(type=kind, pathSet=list(names) or ["name"])],
                )
            ]
        )
        view.Destroy()
        return [(item.obj, {value.name: value.val for value in item.propSet}) for item in contents]

    def properties(self, managed: object, *names: str) -> dict[str, Any]:
        """{name: value} of a managed object, all read at one moment; a name without a value is left out."""
        query = self.vmodl.query.PropertyCollector
        properties = self.content.propertyCollector.RetrieveContents(
            [
                query.FilterSpec(
                    objectSet=[query.ObjectSpec(obj=managed)],
                    propSet=[query.PropertySpec(type=type(managed), pathSet=list(names))],
                )
            ]
        )[0]
        return {value.name: value.val for value in properties.propSet}

    def host(self) -> Any:
        """The HostSystem that is meant: the one named, or the only one there is."""
        with self.doing("find the host"):
            hosts = self.all(self.vim.HostSystem, "name")
        names = sorted(values["name"] for _host, values in hosts)
        wanted = self.params["esxi_host"]
        if wanted is None and len(hosts) == 1:
            return hosts[0][0]
        for host, values in hosts:
            if values["name"] == wanted:
                return host
        raise bad_value(
            "esxi_host", wanted, f"{self.params['hostname']} knows {', '.join(names) or 'no host'}; name one of them."
        )

    def datacenter(self, entity: Any) -> Any:
        """The datacenter above a managed entity."""
        while entity is not None and not isinstance(entity, self.vim.Datacenter):
            entity = entity.parent
        return entity

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[Any]:
        """The host's refusal inside, reported as 'what' could not be done."""
        try:
            yield
        except Failure:
            raise
        except self.vim.fault.NotAuthenticated:
            raise Failure(
                "session_lost", f"{self.params['hostname']} ended the session while trying to {what}.", "Run again."
            ) from None
        except self.vim.fault.NoPermission as fault:
            raise _no_permission(what, fault, self.params) from None
        except self.vim.fault.RestrictedVersion:
            raise _read_only(self.params, what) from None
        except self.vim.fault.ResourceInUse as fault:
            raise Failure(
                "in_use",
                f"Cannot {what}: {fault.name or 'it'} is in use.",
                "End what uses it, and run again.",
                name=fault.name,
            ) from None
        except self.vmodl.MethodFault as fault:
            raise Failure(
                "refused",
                f"The host could not {what}: {error_text(fault)}.",
                "Look at the host's events and run again.",
                fault=type(fault).__name__,
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise Failure(
                "connection_lost",
                f"The connection to {self.params['hostname']} broke while trying to {what}: {error_text(error)}.",
                "Run again: existing parts are kept.",
            ) from None

    def task_properties(self, task: object) -> dict[str, Any]:
        """Only what is needed: the object of a task that has not begun can be of a kind that pyVmomi refuses to read."""
        return self.properties(task, "info.state", "info.progress", "info.result", "info.error")

    def wait(self, task: Any, what: str) -> Any:
        """The result of a task, or its fault."""
        # Writing a large disk takes hours; what counts is that it gets on.
        progress, deadline = None, time.monotonic() + TASK_PATIENCE_S
        with self.doing(what):
            while (now := self.task_properties(task))["info.state"] not in ("success", "error"):
                if now.get("info.progress") != progress:
                    progress, deadline = now.get("info.progress"), time.monotonic() + TASK_PATIENCE_S
                if time.monotonic() > deadline:
                    raise Failure(
                        "task_timeout",
                        f"The host has been trying to {what} for {TASK_PATIENCE_S} s without getting on.",
                        "Look at its tasks.",
                    )
                time.sleep(POLL_S)
            if now["info.state"] == "error":
                raise now["info.error"]
            return now.get("info.result")

    # -------------------------------------------------------- files on datastores, over HTTPS

    def file(self, method: str, datastore: Any, path: str, content: Any = None) -> bytes | None:
        """GET, PUT or DELETE of a file on a datastore; None when there is no such file."""
        query = {"dcPath": self._inventory_path(self.datacenter(datastore)), "dsName": datastore.name}
        url = f"https://{self.params['hostname']}:{self.params['port']}/folder/{urllib.parse.quote(path)}?{urllib.parse.urlencode(query)}"
        cookie = self.instance._stub.cookie.split(";", 1)[0]
        request = urllib.request.Request(
            url, data=content, method=method, headers={"Cookie": cookie, "Content-Type": "application/octet-stream"}
        )
        if content is not None and hasattr(content, "fileno"):
            request.add_header("Content-Length", str(os.fstat(content.fileno()).st_size))
        try:
            with self._opener().open(request, timeout=self.params["timeout_s"]) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            if error.code == 404 and method != "PUT":
                return None
            raise Failure(
                "file_refused",
                f"{method} of {path} on datastore {datastore.name} was refused with HTTP status {error.code}.",
                "Check that the datastore is accessible and that the user may browse it.",
                status=error.code,
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise Failure(
                "connection_lost",
                f"{method} of {path} on datastore {datastore.name} broke off: {error_text(error)}.",
                "Run again.",
            ) from None

    def _opener(self) -> urllib.request.OpenerDirector:
        """Goes straight to the host, like the calls of the API, which use no proxy of the environment either."""
        return urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context)
        )

    def _inventory_path(self, entity: Any) -> str:
        parts = []
        while entity is not None and entity != self.content.rootFolder:
            parts.append(entity.name)
            entity = entity.parent
        return "/".join(reversed(parts))


def _read_only(params: ConnectionParams, what: str) -> Failure:
    return Failure(
        "licence_read_only",
        f"Cannot {what}: the licence of {params['hostname']} makes its API read-only.",
        "Give the host a licence whose API may change it, or evaluate one; the free vSphere Hypervisor cannot carry a testbed.",
    )


def _no_permission(what: str, fault: object, params: ConnectionParams) -> Failure:
    privilege = getattr(fault, "privilegeId", None) or "unknown"
    return Failure(
        "no_permission",
        f"{params['username']} may not {what}: the privilege {privilege} is missing.",
        "Give the user this privilege on the host.",
        privilege=privilege,
    )


def error_text(error: Any) -> str:
    """The message of a fault or an error, in one line."""
    texts = [
        getattr(error, "msg", None),
        *(getattr(message, "message", None) for message in getattr(error, "faultMessage", None) or []),
    ]
    text = "; ".join(str(text) for text in texts if text)
    if isinstance(error, (socket.timeout, TimeoutError)):
        text = text or "it does not answer in time"
    return " ".join((text or str(error) or type(error).__name__).split()).rstrip(".")[:300]
