"""Settings that are carried to where a connection is opened: to Spark's workers.

    carried = Carried.of_texts({"bootstrap.servers": "broker:9092", ...})
    carried.target()     # there

Files of certificates and keys go along as their text where they are PEM: a worker on
another machine has none. PKCS12 stays a path, which every worker then needs to have.

Rules of this file: pickling keeps secrets, which workers need; printing shows none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.client.secret import MASK, Secret
from coterie.client.settings.found import Findings, Found, Source, effective
from coterie.client.settings.keys import KEYS, Kind
from coterie.client.settings.target import Target, make_target
from coterie.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

_KIND: Final = "option"
_PEM: Final = "-----BEGIN "
_TEXT_OF: Final = {
    "ssl.truststore.location": "ssl.truststore.certificates",
    "ssl.keystore.location": "ssl.keystore.certificate.chain",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
"""Which setting has as text what a file has."""


class Carried:
    """See the module's docstring. Only what was set is kept, no defaults."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> Carried:
        """From settings by Kafka's names or librdkafka's, as options have them.

        Raises SettingError for a name nobody knows, and for a value that cannot be.
        """
        findings = Findings()
        for name, text in texts.items():
            findings.add(name, text, Source(_KIND, name))
        return cls.of_found(effective(findings))

    @classmethod
    def of_found(cls, counts: Mapping[str, Found]) -> Carried:
        """From what a command found. Raises SettingError as `make_target` does."""
        make_target(counts)  # here, where somebody reads what is wrong
        return cls(dict(_carried(counts)))

    @property
    def bootstrap(self) -> str:
        """The addresses to start from."""
        return self._texts["bootstrap.servers"]

    def target(self) -> Target:
        """The cluster and the client's options. Raises SettingError where a file that
        is named is not on this machine."""
        findings = Findings()
        for name, text in self._texts.items():
            findings.add(name, text, Source(_KIND, name))
        return make_target(effective(findings))

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={text if _may_be_seen(name) else MASK}"
            for name, text in self._texts.items()
        )
        return f"Carried({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Carried):
            return NotImplemented
        return self._texts == other._texts

    def __hash__(self) -> int:
        return hash(frozenset(self._texts.items()))


def _carried(counts: Mapping[str, Found]) -> Iterator[tuple[str, str]]:
    for name, found in counts.items():
        if found.source.kind == "default":
            continue
        value = found.value
        text = value.reveal() if isinstance(value, Secret) else value
        if name in _TEXT_OF and (pem := _pem(Path(text).expanduser())) is not None:
            yield _TEXT_OF[name], pem
        else:
            yield name, text


def _pem(file: Path) -> str | None:
    """The text of a PEM file; None when it is something else."""
    try:
        data = file.read_bytes() if file.is_file() else b""
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    text = data.decode("ascii", "replace")
    return text if _PEM in text else None


def _may_be_seen(name: str) -> bool:
    return KEYS[name].kind is not Kind.SECRET and name not in _TEXT_OF.values()
