"""Certificates that are generated for tests, in several file formats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

PASSWORD = b"changeit"


@dataclass
class Certificates:
    """A certificate authority, a broker's certificate and a client's, as files."""

    folder: Path

    @cached_property
    def authority(self) -> trustme.CA:
        return trustme.CA()

    @cached_property
    def ca_text(self) -> str:
        return self.authority.cert_pem.bytes().decode()

    @cached_property
    def ca(self) -> Path:
        return self.write("ca.pem", self.authority.cert_pem.bytes())

    @cached_property
    def client(self) -> trustme.LeafCert:
        return self.authority.issue_cert("alice@kafka.example", common_name="alice")

    @property
    def chain(self) -> bytes:
        return b"".join(each.bytes() for each in self.client.cert_chain_pems)

    @property
    def key(self) -> bytes:
        return self.client.private_key_pem.bytes()

    @property
    def encrypted_key(self) -> bytes:
        return load_pem_private_key(self.key, None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD)
        )

    def key_store(self, password: bytes = PASSWORD) -> Path:
        """Write the client's key and chain as PKCS12."""
        key = load_pem_private_key(self.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        data = pkcs12.serialize_key_and_certificates(
            b"alice",
            key,
            x509.load_pem_x509_certificates(self.chain)[0],
            [self._authority],
            BestAvailableEncryption(password),
        )
        return self.write("client.p12", data)

    def trust_store(self) -> Path:
        """Write the authority's certificate as PKCS12."""
        trusted = pkcs12.PKCS12Certificate(self._authority, b"ca")
        data = pkcs12.serialize_java_truststore(
            [trusted], BestAvailableEncryption(PASSWORD)
        )
        return self.write("trust.p12", data)

    def write(self, name: str, data: bytes) -> Path:
        file = self.folder / name
        file.write_bytes(data)
        return file

    @property
    def _authority(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.authority.cert_pem.bytes())
