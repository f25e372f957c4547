# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files from the machine where the task runs to an ESXi host: ISO images onto a datastore, and OVA archives as virtual machines.

Everything is streamed. Beside an ISO image that a testbed has uploaded lies a file that says whose it is and what it must be::

    <path>.storlab.json   {"storlab.testbed": <testbed id>, "sha256": …, "size_bytes": …}
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import re
import ssl
import tarfile
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.steps import Step
from .datastore_contents import datastore as find_datastore
from .machine_want import iso_of
from .params import VmParams
from .session import POLL_S, STAMP_KEY, Session, error_text
from .states import HostSystem, IsoWant, MachineWant
from .unattended import answers_of, image_of, summary

BLOCK_BYTES = 1 << 20
DESCRIPTOR_BYTES = 16 << 20
# A host gives up an import of which it hears nothing for some minutes.
LEASE_RENEWAL_S = 20


# ---------------------------------------------------------------- ISO images


def local_file(path: str) -> dict[str, Any]:
    """{sha256, size_bytes} of a file where the task runs."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
            return {"sha256": digest.hexdigest(), "size_bytes": stream.tell()}
    except OSError as error:
        raise bad_value(
            "iso src", path, f"Name a file that can be read where the task runs ({error.strerror})."
        ) from None


def iso_plan(
    iso: IsoWant,
    testbed_id: str,
    size_bytes: int | None,
    sidecar: dict[str, object] | None,
    local: dict[str, Any] | None,
) -> list[Step]:
    """Steps that bring an ISO image onto its datastore; none when it is there.

    size_bytes: of the file there, None without one. local: what is to be uploaded; None when the file must be there already.
    """
    if local is None:
        if size_bytes is None:
            raise Failure(
                "iso_missing", f"There is no file {iso['backing']}.", "Upload it, or give src.", path=iso["backing"]
            )
        return []
    owner = (sidecar or {}).get(STAMP_KEY)
    if size_bytes is not None and owner != testbed_id:
        raise Failure(
            "iso_foreign",
            f"The file {iso['backing']} is there already, and not by this testbed"
            + (f" but by {owner}." if owner else "."),
            "Give another path, or leave out src to use it as it is.",
            path=iso["backing"],
            owner=owner,
        )
    if size_bytes == local["size_bytes"] and sidecar and sidecar.get("sha256") == local["sha256"]:
        return []
    was = f"{size_bytes} bytes" if size_bytes is not None else None
    return [
        {
            "op": "upload_iso",
            "target": iso["backing"],
            "was": was,
            "will": f"{local['size_bytes']} bytes, SHA-256 {local['sha256'][:16]}",
            "local": local,
        }
    ]


class IsoStore:
    """One ISO image on its datastore."""

    def __init__(self, session: Session, host: HostSystem, iso: IsoWant, testbed_id: str) -> None:
        self.session, self.host, self.iso, self.testbed_id = session, host, iso, testbed_id
        self.store = find_datastore(session, host, iso["datastore"])
        if self.store is None:
            raise bad_value("iso datastore", iso["datastore"], "Name a datastore of the host.")

    @classmethod
    def of(cls, session: Session, host: HostSystem, params: VmParams) -> Any:
        """The image of a machine that goes; None when there is none, or nothing to find it on."""
        name = (params["iso"] or {}).get("datastore") or params["datastore"]
        store = find_datastore(session, host, name) if params["iso"] and name else None
        if store is None or not store.summary.accessible:
            return None
        return cls(session, host, iso_of(params["iso"], params["name"], name), params["testbed_id"])

    def plan(self) -> list[Step]:
        local = local_file(self.iso["src"]) if self.iso["src"] else None
        return iso_plan(self.iso, self.testbed_id, self.size(), self.sidecar() if local else None, local)

    def size(self) -> int | None:
        """None when there is no such file."""
        folder, _slash, name = self.iso["path"].rpartition("/")
        return next((file.fileSize for file in self._search(folder, name) or [] if file.path == name), None)

    def _search(self, folder: str, pattern: str = "*") -> list[Any] | None:
        """The files of a folder; None when there is no such folder."""
        details = self.session.vim.host.DatastoreBrowser.FileInfo.Details(
            fileSize=True, fileType=False, modification=False, fileOwner=False
        )
        spec = self.session.vim.host.DatastoreBrowser.SearchSpec(matchPattern=[pattern], details=details)
        what = f"look into the folder {folder or '/'} of the datastore {self.iso['datastore']}"
        with self.session.doing(what):
            task = self.store.browser.SearchDatastore_Task(
                datastorePath=f"[{self.iso['datastore']}] {folder}", searchSpec=spec
            )
        try:
            return self.session.wait(task, what).file or []
        except Failure as failure:
            if "FileNotFound" in str(failure.details.get("fault")):
                return None
            raise

    def sidecar(self) -> dict[str, Any] | None:
        content = self.session.file("GET", self.store, self.iso["sidecar"])
        try:
            sidecar = json.loads(content) if content is not None else None
        except ValueError:
            return None
        return sidecar if isinstance(sidecar, dict) else None

    def upload(self, step: Step) -> None:
        """The file as it is where the task runs."""
        with open(self.iso["src"], "rb") as stream:
            self.send(step, stream)

    def send(self, step: Step, content: Any) -> None:
        """The sidecar goes first: what is left of an upload that breaks off is then known to be the testbed's, and to be incomplete."""
        if step["was"] is not None:
            self._delete(self.iso["path"])
        made = self._make_folders() or (self.sidecar() or {}).get("folders", [])
        kept = {STAMP_KEY: self.testbed_id, **step["local"], **({"folders": made} if made else {})}
        self.session.file("PUT", self.store, self.iso["sidecar"], json.dumps(kept).encode())
        self.session.file("PUT", self.store, self.iso["path"], content)

    def removal(self, name: str) -> list[Step]:
        """Steps that take away an image that the testbed uploaded, when no other machine has it in its drive."""
        if not self.iso["src"] or (self.sidecar() or {}).get(STAMP_KEY) != self.testbed_id:
            return []
        with self.session.doing("look for machines that use the ISO image"):
            machines = self.session.all(self.session.vim.VirtualMachine, "name", "config.hardware.device")
        for _vm, values in machines:
            backings = [
                getattr(device.backing, "fileName", None) for device in values.get("config.hardware.device", [])
            ]
            if values["name"] != name and self.iso["backing"] in backings:
                return []
        return [{"op": "remove_iso", "target": self.iso["backing"], "was": "uploaded", "will": None}]

    def remove(self) -> None:
        folders = (self.sidecar() or {}).get("folders", [])
        if self.size() is not None:
            self._delete(self.iso["path"])
        self._delete(self.iso["sidecar"])
        for folder in folders:
            # Deleting a folder takes all that is in it.
            if self._search(folder) == []:
                self._delete(folder)

    def _make_folders(self) -> list[Any]:
        """Make the folders of the image that are not there, and return them, innermost first."""
        parts = self.iso["path"].split("/")[:-1]
        missing = [
            folder
            for folder in ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
            if self._search(folder) is None
        ]
        if missing:
            with self.session.doing(f"make the folder {missing[0]} on the datastore {self.iso['datastore']}"):
                self.session.content.fileManager.MakeDirectory(
                    name=f"[{self.iso['datastore']}] {missing[0]}",
                    datacenter=self.session.datacenter(self.store),
                    createParentDirectories=True,
                )
        return missing

    def _delete(self, path: str) -> None:
        name, what = (
            f"[{self.iso['datastore']}] {path}",
            f"remove the file {path} from the datastore {self.iso['datastore']}",
        )
        with self.session.doing(what):
            task = self.session.content.fileManager.DeleteDatastoreFile_Task(
                name=name, datacenter=self.session.datacenter(self.store)
            )
        self.session.wait(task, what)


class AnswerStore(IsoStore):
    """The image with the answer file of an unattended installation, on its datastore. It is made in memory, and no digest of it is kept.

    It holds a password, which a digest would let others try out.
    """

    @classmethod
    def of(cls, session: Session, host: HostSystem, params: VmParams) -> Any:
        """None when there is nothing to find it on."""
        store = find_datastore(session, host, params["datastore"]) if params["datastore"] else None
        if store is None or not store.summary.accessible:
            return None
        return cls(
            session, host, answers_of(params["testbed_id"], params["name"], params["datastore"]), params["testbed_id"]
        )

    def plan_answers(self, words: Mapping[str, Any]) -> list[Step]:
        """The step that brings the image there, over what a cut run has left."""
        size = self.size()
        if size is not None:
            # Refuses a file of others.
            iso_plan(self.iso, self.testbed_id, size, self.sidecar(), {"sha256": "", "size_bytes": 0})
        return answers_to_come(self.iso, words, f"{size} bytes" if size is not None else None)

    def upload_answers(self, step: Step, words: Mapping[str, Any]) -> None:
        content = image_of(words)
        self.send({**step, "local": {"size_bytes": len(content)}}, content)


def answers_to_come(iso: IsoWant, words: Mapping[str, Any], was: str | None = None) -> list[Step]:
    return [{"op": "upload_answers", "target": iso["backing"], "was": was, "will": summary(words)}]


# ---------------------------------------------------------------- OVA archives


def damaged(path: str, why: str) -> Failure:
    return Failure(
        "ova_damaged", f"The archive {path} cannot be used as an OVA: {why}.", "Give a whole OVA file.", path=path
    )


class Ova:
    """An OVA archive (DSP0243: a tar archive of an OVF descriptor first, then an optional manifest, then the files)."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.tar = tarfile.open(path, "r:")  # noqa: SIM115, closed by close()
            self.members = {member.name: member for member in self.tar.getmembers() if member.isfile()}
        except FileNotFoundError:
            raise bad_value("ova", path, "Name a file that can be read where the task runs.") from None
        except (OSError, tarfile.TarError) as error:
            raise damaged(path, str(error)) from None
        descriptors = [name for name in self.members if name.lower().endswith(".ovf")]
        if len(descriptors) != 1:
            raise damaged(path, "it has no descriptor" if not descriptors else "it has several descriptors")
        self.descriptor = self._text(descriptors[0])
        # 'SHA256(disk.vmdk)= 12ab…'; also SHA1, which is only there against accidents.
        manifest = next((name for name in self.members if name.lower().endswith(".mf")), None)
        entries = (
            re.findall(r"^(SHA1|SHA256|SHA512)\s*\((.+?)\)\s*=\s*([0-9a-fA-F]+)\s*$", self._text(manifest), re.M)
            if manifest
            else []
        )
        self.digests = {name: (kind.lower(), digest.lower()) for kind, name, digest in entries}
        if descriptors[0] in self.digests:
            kind, digest = self.digests[descriptors[0]]
            if hashlib.new(kind, self._bytes(descriptors[0])).hexdigest() != digest:
                raise damaged(path, f"{descriptors[0]} is not what the manifest says")

    def _bytes(self, name: str) -> bytes:
        if self.members[name].size > DESCRIPTOR_BYTES:
            raise damaged(self.path, f"{name} is too large")
        try:
            member = self.tar.extractfile(self.members[name])
            if member is None:
                raise tarfile.TarError(f"{name} is not a file")
            return member.read()
        except (OSError, tarfile.TarError) as error:
            raise damaged(self.path, str(error)) from None

    def _text(self, name: str) -> str:
        try:
            return self._bytes(name).decode("utf-8")
        except UnicodeDecodeError:
            raise damaged(self.path, f"{name} is not UTF-8") from None

    def close(self) -> None:
        self.tar.close()


class _Stream:
    """A member of the archive on its way: counted, hashed, and reported now and then."""

    def __init__(self, source: Any, kind: str, tell: Any) -> None:
        self.source, self.hash, self.tell, self.count, self.next = (
            source,
            hashlib.new(kind),
            tell,
            0,
            time.monotonic() + LEASE_RENEWAL_S,
        )

    def read(self, size: int = -1) -> bytes:
        block: bytes = self.source.read(size)
        self.hash.update(block)
        self.count += len(block)
        if time.monotonic() > self.next:
            self.next = time.monotonic() + LEASE_RENEWAL_S
            self.tell(self.count)
        return block


class Import:
    """The import of an OVA on a host."""

    def __init__(self, session: Session, host: HostSystem, ova: Ova, want: MachineWant, pool: Any) -> None:
        self.session, self.host, self.ova, self.want, self.pool = session, host, ova, want, pool
        params = session.vim.OvfManager.CreateImportSpecParams(
            entityName=want["name"], diskProvisioning="thin", locale="", deploymentOption="", hostSystem=host
        )
        with session.doing(f"read the descriptor in {ova.path}"):
            store = find_datastore(session, host, want["datastore"])
            answer = session.content.ovfManager.CreateImportSpec(ova.descriptor, pool, store, params)
        if answer.error or answer.importSpec is None:
            texts = "; ".join(
                error_text(getattr(error, "fault", None) or error)
                if not getattr(error, "localizedMessage", None)
                else error.localizedMessage
                for error in answer.error or []
            )
            raise Failure(
                "ova_refused",
                f"The host does not take {ova.path}: {texts or 'it makes nothing of it'}.",
                "Give an OVA that suits this host.",
            )
        self.vm = None
        self.spec, self.files = answer.importSpec, {item.deviceId: item for item in answer.fileItem or []}
        for item in self.files.values():
            if item.path not in ova.members:
                raise damaged(ova.path, f"{item.path} is missing in it")
            if item.compressionMethod or item.chunkSize:
                raise damaged(ova.path, f"{item.path} is compressed or in pieces, which is not supported")

    @property
    def config(self) -> Any:
        return self.spec.configSpec

    def devices(self) -> list[Any]:
        return [change.device for change in self.config.deviceChange or []]

    def run(self, stamps: Sequence[str], folder: Any) -> None:
        """Makes the virtual machine, which is in vm as soon as there is one."""
        # One that was exported from a testbed's machine has records of other disks.
        given = [option for option in self.config.extraConfig or [] if not option.key.startswith("storlab.")]
        self.config.extraConfig = [*given, *stamps]
        with self.session.doing(f"import {self.ova.path}"):
            lease = self.pool.ImportVApp(spec=self.spec, folder=folder, host=self.host)
            while str(lease.state) == "initializing":
                time.sleep(POLL_S)
            if str(lease.state) != "ready":
                raise Failure(
                    "ova_refused",
                    f"The host does not import {self.ova.path}: {error_text(lease.error)}.",
                    "Look at the host's events and run again.",
                )
            info = lease.info
        self.vm = info.entity
        try:
            for place in info.deviceUrl:
                item = self.files.get(place.importKey)
                if item is not None:
                    self._send(lease, place, item)
            with self.session.doing(f"complete the import of {self.ova.path}"):
                lease.HttpNfcLeaseComplete()
        except BaseException:
            with contextlib.suppress(Exception):
                lease.HttpNfcLeaseAbort()
            raise

    def _send(self, lease: Any, place: Any, item: Any) -> None:
        member, total = self.ova.members[item.path], sum(member.size for member in self.ova.members.values())
        kind, digest = self.ova.digests.get(item.path, ("sha256", None))

        def tell(count: int) -> None:
            with self.session.doing("report the progress of the import"):
                lease.HttpNfcLeaseProgress(min(99, 100 * count // max(1, total)))

        stream = _Stream(self.ova.tar.extractfile(member), kind, tell)
        url = urllib.parse.urlsplit(place.url)
        params = self.session.params
        # A host on its own says '*' for itself.
        address, port = (
            (params["hostname"], params["port"])
            if url.hostname == "*" or url.netloc == "*"
            else (url.hostname, url.port or 443)
        )
        line = _line(self.session, address, port, place.sslThumbprint)
        headers = {
            "Content-Length": str(member.size),
            "Content-Type": "application/x-vnd.vmware-streamVmdk",
            "Overwrite": "t",
            "Cookie": self.session.instance._stub.cookie.split(";", 1)[0],
        }
        try:
            line.request("PUT" if item.create else "POST", url.path, body=stream, headers=headers)
            status = line.getresponse().status
        except tarfile.TarError as error:
            raise damaged(self.ova.path, str(error)) from None
        except (OSError, http.client.HTTPException) as error:
            raise Failure(
                "connection_lost",
                f"The upload of {item.path} to {address} broke off: {error_text(error)}.",
                "Run again.",
            ) from None
        finally:
            line.close()
        if status >= 300:
            raise Failure(
                "file_refused",
                f"{address} refused {item.path} with HTTP status {status}.",
                "Check the user's rights and the free space.",
                status=status,
            )
        if digest and stream.hash.hexdigest() != digest:
            raise damaged(self.ova.path, f"{item.path} is not what the manifest says")


def _line(session: Session, address: str, port: int, thumbprint: str | None) -> http.client.HTTPSConnection:
    """A connection to the host that takes the files; a vCenter vouches for another host's certificate by its thumbprint."""
    params = session.params
    vouched_for = thumbprint if address != params["hostname"] and params["validate_certs"] else None
    context = session.context
    if vouched_for:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    line = http.client.HTTPSConnection(
        address, port, context=context, timeout=params["timeout_s"], blocksize=BLOCK_BYTES
    )
    if vouched_for:
        try:
            line.connect()
        except OSError as error:
            raise Failure(
                "host_unreachable",
                f"{address}:{port}, which takes the files, cannot be reached: {error_text(error)}.",
                "Check the network.",
            ) from None
        # Without a certificate, which TLS never is, this is the digest of nothing.
        seen = hashlib.sha1(line.sock.getpeercert(True) or b"", usedforsecurity=False).hexdigest()
        if seen != re.sub(r"[^0-9a-f]", "", vouched_for.lower()):
            line.close()
            raise Failure(
                "certificate_untrusted",
                f"The certificate of {address}:{port} is not the one that {params['hostname']} vouches for.",
                "Look who answers at this address.",
            )
    return line
