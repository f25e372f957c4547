# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the certificate that an ESXi host shows is the right one: by its fingerprint, or by an authority and a name.

A certificate that a host has made itself is known by its fingerprint (``thumbprint``), one that an authority has signed by
that authority's file (``ca_path``). A refusal says which of the two to use, with the value to set.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import ssl
from typing import Any

from ..core.failure import Failure, bad_value
from ..core.files import write_whole
from .params import ConnectionParams

PARTIAL_CHAIN = 0x80000  # ssl.VERIFY_X509_PARTIAL_CHAIN, which Python 3.9 has no name for
OTHER_NAME = (62, 64)  # OpenSSL's codes for a certificate of another host name and of another address
EXPIRED = 10
# Who signs the certificate that an ESXi host makes when it is installed.
INSTALLER = "VMware Installer"


class OtherCertificate(ssl.SSLError):
    """The host shows a certificate with another fingerprint than the one that is set."""


class PinnedContext(ssl.SSLContext):
    """Lets a connection pass only when the other side shows the certificate with this SHA-256 fingerprint."""

    fingerprint = ""

    def wrap_socket(self, *args: Any, **kwargs: Any) -> Any:
        line = super().wrap_socket(*args, **kwargs)
        certificate = line.getpeercert(True)
        if certificate is None or fingerprint_of(certificate) != self.fingerprint:
            line.close()
            raise OtherCertificate("another certificate")
        return line


def fingerprint_of(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


def written(fingerprint: str) -> str:
    """A fingerprint as certificates' tools print it: AB:CD:…"""
    return ":".join(re.findall("..", fingerprint.upper()))


def context_for(params: ConnectionParams) -> ssl.SSLContext:
    """How the host's certificate is checked. Takes ``thumbprint``, ``ca_path`` and ``validate_certs`` of the module; raises bad_value."""
    thumbprint, ca_path = params["thumbprint"], params["ca_path"]
    if thumbprint:
        if ca_path:
            raise bad_value("ca_path", ca_path, "Set thumbprint or ca_path, not both.")
        fingerprint = re.sub(r"[:\s]", "", thumbprint).lower()
        if not re.fullmatch("[0-9a-f]{64}", fingerprint):
            raise bad_value(
                "thumbprint",
                thumbprint,
                "Give the SHA-256 fingerprint of the host's certificate, 64 hexadecimal digits with or without colons.",
            )
        pinned = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
        pinned.check_hostname, pinned.verify_mode = False, ssl.CERT_NONE
        pinned.fingerprint = fingerprint
        return pinned
    try:
        context = ssl.create_default_context(cafile=ca_path)
    except OSError as error:
        raise bad_value("ca_path", ca_path, f"Name a file with certificates in PEM format ({error}).") from None
    if not params["validate_certs"]:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


# ---------------------------------------------------------------- what is refused


def untrusted(error: ssl.SSLCertVerificationError | OtherCertificate, params: ConnectionParams) -> Failure:
    """Why the certificate is refused, and whether ``thumbprint`` or ``ca_path`` or another ``hostname`` helps."""
    where = f"{params['hostname']}:{params['port']}"
    shown = _shown(params)
    pin = f"thumbprint: {written(shown['fingerprint'])}" if shown else "thumbprint"
    compare = "after comparing it with the fingerprint that the host's own console or shell shows"
    if isinstance(error, OtherCertificate):
        what = f"{where} does not show the certificate that thumbprint names" + (
            f", but one with the SHA-256 fingerprint {written(shown['fingerprint'])}." if shown else "."
        )
        remedy = f"If the host has got a new certificate, set {pin}, {compare}; if not, another machine answers there."
    elif error.verify_code in OTHER_NAME:
        names = f" It is made out to {', '.join(shown['names'])}." if shown and shown["names"] else ""
        what = f"The certificate of {where} is not made out to {params['hostname']}.{names}"
        remedy = f"Set hostname to a name in the certificate; if the controller cannot resolve it, set {pin} in place of ca_path, {compare}."
    elif params["ca_path"] and _passes_without_strict_check(params):
        what = f"The certificate of {where} does not pass the strict check of Python 3.13 and later: {error.verify_message}."
        remedy = f"Set {pin} in place of ca_path, {compare}."
    elif error.verify_code == EXPIRED:
        what, remedy = (
            f"The certificate of {where} has expired.",
            f"Renew it on the host, or set {pin} in place of ca_path, {compare}.",
        )
    else:
        what = f"The certificate of {where} is not trusted: {error.verify_message}."
        remedy = (
            f"{shown['issuer']} has signed it: name the file of this authority in ca_path."
            if shown and not shown["own"]
            else f"The host has made it itself: set {pin}, {compare}."
        )
    return Failure("certificate_untrusted", what, remedy, fingerprint=shown["fingerprint"] if shown else None)


def _shown(params: ConnectionParams) -> dict[str, Any] | None:
    """{fingerprint, names, issuer, own} of the certificate that the host shows; None when it cannot be read."""
    try:
        blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
        certificate = _certificate(params, blind, binary=True)
        facts = {"fingerprint": fingerprint_of(certificate), "names": [], "issuer": "", "own": True}
    except OSError:
        return None
    try:
        # Only a certificate that was verified is decoded; so it is verified with itself.
        itself = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        itself.check_hostname = False
        itself.load_verify_locations(cadata=certificate)
        itself.verify_flags |= PARTIAL_CHAIN
        decoded = _certificate(params, itself, binary=False)
    except OSError:
        return facts
    issuer = {key: value for part in decoded.get("issuer", ()) for key, value in part}
    return {
        **facts,
        "names": [value for _kind, value in decoded.get("subjectAltName", ())],
        "issuer": issuer.get("commonName") or issuer.get("organizationName") or "An authority",
        "own": decoded.get("issuer") == decoded.get("subject") or issuer.get("organizationName") == INSTALLER,
    }


def _passes_without_strict_check(params: ConnectionParams) -> bool:
    context = ssl.create_default_context(cafile=params["ca_path"])
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        _certificate(params, context, binary=True)
    except OSError:
        return False
    return True


def _certificate(params: ConnectionParams, context: ssl.SSLContext, binary: bool) -> Any:
    line = socket.create_connection((params["hostname"], params["port"]), timeout=params["timeout_s"])
    with line, context.wrap_socket(line, server_hostname=params["hostname"]) as tls:
        return tls.getpeercert(binary)


# ---------------------------------------------------------------- for modules of others, which know no fingerprint


def handed_on(params: ConnectionParams, file: str) -> dict[str, object]:
    """{validate_certs, ca_file}: how a module that knows no ``thumbprint`` checks the certificate that is checked here already.

    ca_file is for the environment's SSL_CERT_FILE; None for what the controller trusts. A certificate that is known by its fingerprint is
    written to ``file``, and trusted by itself from there on; its name must be right then, because such modules look at it.
    """
    if not params["thumbprint"]:
        return {"validate_certs": bool(params["validate_certs"]), "ca_file": params["ca_path"]}
    text = ssl.DER_cert_to_PEM_cert(_certificate(params, context_for(params), binary=True))
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    write_whole(file, text.encode())
    try:
        checking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        checking.load_verify_locations(cafile=file)
        _certificate(params, checking, binary=True)
    except ssl.SSLCertVerificationError as error:
        shown = _shown(params)
        names = f" It is made out to {', '.join(shown['names'])}." if shown and shown["names"] else ""
        raise Failure(
            "certificate_untrusted",
            f"The modules of community.vmware, which make the network, know no thumbprint, and do not take the certificate of "
            f"{params['hostname']}: {error.verify_message}.{names}",
            "Set hostname to a name in the certificate; where an authority has signed it, name that one's file in ca_path in place of thumbprint.",
            fingerprint=shown["fingerprint"] if shown else None,
        ) from None
    return {"validate_certs": True, "ca_file": file}
