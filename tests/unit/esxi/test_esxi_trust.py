# Copyright (c) 2026 The storlab.testbed developers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which certificates are accepted, and what is said of those that are not: real TLS on loopback, with certificates made here."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import ipaddress
import socket
import ssl
import threading

import pytest
from ansible_collections.storlab.testbed.plugins.module_utils.core.failure import Failure
from ansible_collections.storlab.testbed.plugins.module_utils.esxi import trust
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime(2026, 1, 1)
PEM = serialization.Encoding.PEM


def named(common: str, organization: str = "Test") -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def certificate(subject, key, issuer, issuer_key, names=(), authority=False, strict=True, until=3650):
    """Strict: with the key usage and key identifiers that RFC 5280 asks for."""
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + datetime.timedelta(days=until))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=strict)
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    if strict:
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        made = made.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        made = made.add_extension(
            x509.KeyUsage(True, False, False, False, False, authority, authority, False, False), critical=True
        )
    return made.sign(issuer_key, hashes.SHA256())


class Server:
    def __init__(self, folder, **how):
        self.key, authority_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        organization = how.pop("organization", "Lab")
        root = certificate(
            named("Lab Root", organization),
            authority_key,
            named("Lab Root", organization),
            authority_key,
            authority=True,
            strict=how.get("strict", True),
        )
        leaf = certificate(
            named("esxi01.lab.example", "Host"), self.key, named("Lab Root", organization), authority_key, **how
        )
        self.authority, chain, private = folder / "root.pem", folder / "leaf.pem", folder / "key.pem"
        self.authority.write_bytes(root.public_bytes(PEM))
        chain.write_bytes(leaf.public_bytes(PEM))
        private.write_bytes(
            self.key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        self.fingerprint = hashlib.sha256(leaf.public_bytes(serialization.Encoding.DER)).hexdigest()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(chain, private)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                line, _ = self.listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), self.context.wrap_socket(line, server_side=True) as tls:
                tls.recv(1)

    def params(self, **changes) -> dict:
        return {
            "hostname": "localhost",
            "port": self.port,
            "validate_certs": True,
            "ca_path": None,
            "thumbprint": None,
            "timeout_s": 10,
            **changes,
        }

    def connect(self, **changes) -> None:
        """As every connection is opened: raises what the module would say."""
        params = self.params(**changes)
        context = trust.context_for(params)
        try:
            trust._certificate(params, context, binary=True)
        except (ssl.SSLCertVerificationError, trust.OtherCertificate) as error:
            raise trust.untrusted(error, params) from None

    def refusal(self, **changes) -> Failure:
        with pytest.raises(Failure) as caught:
            self.connect(**changes)
        return caught.value


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(**how):
        servers.append(Server(tmp_path, **how))
        return servers[-1]

    yield start
    for server in servers:
        server.listener.close()


LOCALHOST = x509.DNSName("localhost")


def test_the_authoritys_file_or_the_fingerprint_is_enough(serve):
    server = serve(names=[LOCALHOST])
    server.connect(ca_path=str(server.authority))
    for text in (server.fingerprint, trust.written(server.fingerprint), server.fingerprint.upper()):
        server.connect(thumbprint=text)
    server.connect(validate_certs=False)


def test_another_certificate_is_refused_although_checks_are_off(serve):
    server = serve(names=[LOCALHOST])
    wrong = "0" * 64
    for validate in (True, False):
        failure = server.refusal(thumbprint=wrong, validate_certs=validate)
        assert failure.code == "certificate_untrusted"
        assert trust.written(server.fingerprint) in str(failure)
        assert "another machine answers there" in str(failure)


def test_an_address_that_the_certificate_does_not_carry_asks_for_its_name_or_the_fingerprint(serve):
    server = serve(names=[x509.DNSName("esxi01.lab.example"), x509.DNSName("localhost")])
    failure = server.refusal(hostname="127.0.0.1", ca_path=str(server.authority))
    assert "esxi01.lab.example, localhost" in str(failure)
    assert "Set hostname to a name in the certificate" in str(failure)
    assert f"thumbprint: {trust.written(server.fingerprint)}" in str(failure)
    server.connect(hostname="127.0.0.1", thumbprint=server.fingerprint)


def test_an_unknown_authority_asks_for_its_file(serve):
    failure = serve(names=[LOCALHOST]).refusal()
    assert "Lab Root has signed it: name the file of this authority in ca_path." in str(failure)
    assert "thumbprint" not in str(failure)


def test_a_certificate_that_the_host_has_made_itself_asks_for_the_fingerprint(serve):
    server = serve(names=[LOCALHOST], organization="VMware Installer")
    failure = server.refusal()
    assert "The host has made it itself" in str(failure)
    assert f"thumbprint: {trust.written(server.fingerprint)}" in str(failure)
    assert "ca_path" not in str(failure)


def test_what_the_strict_check_of_newer_python_refuses_asks_for_the_fingerprint(serve, monkeypatch):
    """Python 3.13 sets this flag by itself; here it is set on every version."""
    usual = ssl.create_default_context

    def strict(**arguments):
        context = usual(**arguments)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    server = serve(names=[LOCALHOST], strict=False)
    failure = server.refusal(ca_path=str(server.authority))
    assert "strict check of Python 3.13" in str(failure)
    assert f"Set thumbprint: {trust.written(server.fingerprint)} in place of ca_path" in str(failure)
    server.connect(thumbprint=server.fingerprint)


def test_an_expired_certificate_is_called_that(serve):
    server = serve(names=[LOCALHOST], until=1)
    assert "has expired" in str(server.refusal(ca_path=str(server.authority)))
    server.connect(thumbprint=server.fingerprint)


def test_an_address_in_the_certificate_serves_as_its_name(serve):
    server = serve(names=[x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server.connect(hostname="127.0.0.1", ca_path=str(server.authority))


@pytest.mark.parametrize("changes", [{"thumbprint": "ab" * 20}, {"thumbprint": "zz" * 32}, {"ca_path": "/nowhere.pem"}])
def test_settings_that_cannot_be_are_refused_before_a_connection(serve, changes):
    assert serve(names=[LOCALHOST]).refusal(**changes).code == "bad_value"


def test_only_one_of_the_two_may_be_set(serve):
    server = serve(names=[LOCALHOST])
    failure = server.refusal(thumbprint=server.fingerprint, ca_path=str(server.authority))
    assert "Set thumbprint or ca_path, not both." in str(failure)
