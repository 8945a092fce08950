"""A certificate of our own for 127.0.0.1, as servers make it for themselves: nobody trusts it who is not told to."""

import datetime
import ipaddress
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


def self_signed() -> ssl.SSLContext:
    """A server's context with a certificate that no client knows."""
    with TemporaryDirectory() as folder:
        return _certificate(Path(folder))[0]


@contextmanager
def trusted() -> Iterator[ssl.SSLContext]:
    """A server's context whose certificate clients trust, through SSL_CERT_FILE, until the block is left."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        context, certificate = _certificate(Path(folder))
        patch.setenv("SSL_CERT_FILE", str(certificate))
        yield context


def _certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """The server's context, and the file that makes a client trust it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dsbif tests")])
    now = datetime.datetime.now(datetime.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    uses = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    usage = dict.fromkeys((*uses, "encipher_only", "decipher_only"), False)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    return context, pem
