"""Servers over TLS, and the certificates that they sign themselves."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from http.server import ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path, host: str = "127.0.0.1") -> Path:
    """One that signs itself, as BMCs have it; with its key in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmc")])
    now = datetime.datetime.now(datetime.UTC)
    command = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{host}.pem"
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(command.public_bytes(pem) + key.private_bytes(pem, *plain))
    return file


class Server(ThreadingHTTPServer):
    """Answers each in a thread."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that hangs up or does not trust us is what tests want."""


def over_tls(listener: socket.socket, certificate: Path) -> ssl.SSLSocket:
    """A socket that listens, with a file of certificate and key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)
