"""TLS contexts of clients, from files or texts of certificates.

    ClientOptions(ssl=make_context(TlsOptions(trust=Path("ca.pem"))))

Certificates and keys are read as PEM or PKCS12, detected by content; Java's JKS is
refused with the command that converts it to PKCS12.

Rules of this file: OpenSSL reads keys from files only. A key that is not in a PEM file
of the user is written encrypted to a temporary file that only this user can read.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from coterie.client.secret import Secret
from coterie.errors import SettingError
from coterie.extras import describe_missing
from coterie.files import write_private_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import (
        PKCS12KeyAndCertificates,
    )

_PEM: Final = b"-----BEGIN "
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER_SEQUENCE: Final = b"\x30"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """Options of TLS. Without `trust`, the system's certificates are trusted."""

    trust: Path | str | None = None
    """The trusted certificates: a file, a directory in OpenSSL's format, or PEM
    text."""
    trust_password: Secret | None = None
    certificate: Path | str | None = None
    """The client certificate and its chain: a file, or PEM text."""
    certificate_password: Secret | None = None
    """The password of that file, for PKCS12."""
    key: Path | Secret | None = None
    """Its private key, when it is not in the same file."""
    key_password: Secret | None = None
    """The password of an encrypted PEM key."""
    checks_certificate: bool = True
    """False trusts every broker: for tests only."""
    checks_name: bool = True
    """Whether the certificate must contain the broker's name or address."""
    version_min: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: str | None = None
    """OpenSSL's list, for TLS 1.2."""


def make_context(options: TlsOptions) -> ssl.SSLContext:
    """Return the context for options. Raises SettingError with the file name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = options.version_min
    context.check_hostname = options.checks_certificate and options.checks_name
    context.verify_mode = (
        ssl.CERT_REQUIRED if options.checks_certificate else ssl.CERT_NONE
    )
    if options.ciphers is not None:
        try:
            context.set_ciphers(options.ciphers)
        except ssl.SSLError as error:
            raise SettingError(
                f"no cipher of {options.ciphers!r} is known; use OpenSSL's names, such "
                "as ECDHE-RSA-AES256-GCM-SHA384"
            ) from error
    if options.trust is not None:
        _trust(context, options.trust, options.trust_password)
    elif options.checks_certificate:
        context.load_default_certs()
    if options.certificate is not None:
        with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
            _load(context, _key_pair(options, Path(folder)), options)
    elif options.key is not None:
        raise SettingError("a private key needs its certificate; name both")
    return context


def _trust(context: ssl.SSLContext, trust: Path | str, password: Secret | None) -> None:
    if isinstance(trust, Path) and trust.is_dir():
        context.load_verify_locations(capath=trust)
        return
    where = str(trust) if isinstance(trust, Path) else "the trusted certificates"
    data = _read(trust) if isinstance(trust, Path) else trust.encode()
    if not _is_pem(data, where):
        data = _trusted_of_pkcs12(_open_pkcs12(data, where, password))
        if not data:
            raise SettingError(f"{where} holds no trusted certificate")
    try:
        context.load_verify_locations(cadata=data.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise SettingError(f"{where} holds no PEM certificate: {error}") from error


def _trusted_of_pkcs12(store: PKCS12KeyAndCertificates) -> bytes:
    return b"".join(_pem_of(each.certificate) for each in store.additional_certs)


class _KeyPair(NamedTuple):
    """The files of a certificate chain and its key."""

    certificate: Path
    key: Path | None
    password: Secret | None


def _key_pair(options: TlsOptions, folder: Path) -> _KeyPair:
    certificate, key = options.certificate, options.key
    if isinstance(certificate, Path):
        data = _read(certificate)
        if not _is_pem(data, str(certificate)):
            return _of_pkcs12(data, options, folder)
    elif certificate is not None:
        certificate = _private(folder / "chain.pem", certificate.encode())
    if isinstance(key, Secret):
        key = _private(folder / "key.pem", key.reveal().encode())
    elif key is not None:
        _is_pem(_read(key), str(key))
    assert certificate is not None
    return _KeyPair(certificate, key, options.key_password)


def _of_pkcs12(data: bytes, options: TlsOptions, folder: Path) -> _KeyPair:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    where = str(options.certificate)
    store = _open_pkcs12(data, where, options.certificate_password)
    if store.key is None or store.cert is None:
        raise SettingError(f"{where} holds no private key with its certificate")
    password = Secret(secrets.token_urlsafe())
    chain = [_pem_of(store.cert.certificate), _trusted_of_pkcs12(store)]
    key = store.key.private_bytes(
        Encoding.PEM,
        PrivateFormat.PKCS8,
        BestAvailableEncryption(password.reveal().encode()),
    )
    return _KeyPair(
        _private(folder / "chain.pem", b"".join(chain)),
        _private(folder / "key.pem", key),
        password,
    )


def _load(context: ssl.SSLContext, pair: _KeyPair, options: TlsOptions) -> None:
    where = options.certificate if isinstance(options.certificate, Path) else "PEM text"

    def password() -> str:  # without a callback, OpenSSL prompts at the terminal
        if pair.password is None:
            raise SettingError(
                f"the private key of {where} is encrypted; its password is needed "
                "(ssl.key.password)"
            )
        return pair.password.reveal()

    try:
        context.load_cert_chain(pair.certificate, pair.key, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "the private key does not match the certificate"
        elif pair.password is not None:
            why = "no private key and chain in PEM, or a wrong password"
        else:
            why = "no private key and chain of certificates in PEM"
        raise SettingError(f"{where}: {why}") from error


def _private(file: Path, data: bytes) -> Path:
    write_private_file(file, data, must_be_new=True)
    return file


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error


def _is_pem(data: bytes, where: str) -> bool:
    """Return True for PEM and False for PKCS12. Raises SettingError for other data."""
    if _PEM in data:
        return True
    if data.startswith(_JKS):
        raise SettingError(
            f"{where} is a Java keystore (JKS), which only Java can read; convert it: "
            f"keytool -importkeystore -srckeystore {where} "
            f"-destkeystore {Path(where).stem}.p12 -deststoretype pkcs12"
        )
    if not data.startswith(_DER_SEQUENCE):
        raise SettingError(f"{where} is neither PEM nor PKCS12")
    return False


def _open_pkcs12(
    data: bytes, where: str, password: Secret | None
) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise SettingError(
            f"{where} is PKCS12, and {describe_missing('cryptography')}; or convert "
            f"the file to PEM: openssl pkcs12 -in {where} -out {Path(where).stem}.pem"
        ) from None
    with suppress(ValueError):
        return load_pkcs12(
            data, None if password is None else password.reveal().encode()
        )
    with_it = "with this password" if password else "without a password"
    raise SettingError(
        f"{where} cannot be opened {with_it}: wrong password, or not PKCS12"
    )


def _pem_of(certificate: object) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import Certificate

    assert isinstance(certificate, Certificate)
    return certificate.public_bytes(Encoding.PEM)
