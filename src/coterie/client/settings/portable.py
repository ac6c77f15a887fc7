"""Settings that can be pickled and sent to the processes that open connections: Spark's
workers.

    portable = PortableSettings.of_texts({"bootstrap.servers": "broker:9092", ...})
    portable.target()     # in the worker

PEM files of certificates and keys are included as text, because a worker on another
machine lacks them. PKCS12 files are included as paths, which must exist on every
worker.

Rules of this file: pickling includes secrets, which workers need; printing masks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from coterie.client.secret import MASK, Secret
from coterie.client.settings.collected import (
    CollectedSettings,
    SettingValue,
    Source,
    effective_settings,
)
from coterie.client.settings.keys import KEYS, Kind
from coterie.client.settings.target import Target, make_target
from coterie.errors import SettingError
from coterie.files import expand_user

_KIND: Final = "option"
_PEM: Final = "-----BEGIN "
_TEXT_OF: Final = {
    "ssl.truststore.location": "ssl.truststore.certificates",
    "ssl.keystore.location": "ssl.keystore.certificate.chain",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
}
"""The setting with the text of each setting with a file."""


class PortableSettings:
    """Settings without their defaults, which can be pickled."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> PortableSettings:
        """Create portable settings from settings by Kafka's or librdkafka's names.

        Raises SettingError for an unknown name or an invalid value.
        """
        collected = CollectedSettings()
        for name, text in texts.items():
            collected.add(name, text, Source(_KIND, name))
        return cls.of_settings(effective_settings(collected))

    @classmethod
    def of_settings(cls, settings: Mapping[str, SettingValue]) -> PortableSettings:
        """Create portable settings from effective settings. Raises SettingError as
        `make_target` does."""
        make_target(settings)  # report errors here, not in a worker
        return cls(dict(_texts_of(settings)))

    @property
    def bootstrap(self) -> str:
        """The bootstrap addresses."""
        return self._texts["bootstrap.servers"]

    def target(self) -> Target:
        """Return the cluster and the client's options. Raises SettingError when a named
        file is not on this machine."""
        collected = CollectedSettings()
        for name, text in self._texts.items():
            collected.add(name, text, Source(_KIND, name))
        return make_target(effective_settings(collected))

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={text if _is_printable(name) else MASK}"
            for name, text in self._texts.items()
        )
        return f"PortableSettings({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PortableSettings):
            return NotImplemented
        return self._texts == other._texts

    def __hash__(self) -> int:
        return hash(frozenset(self._texts.items()))


def _texts_of(settings: Mapping[str, SettingValue]) -> Iterator[tuple[str, str]]:
    for name, setting in settings.items():
        if setting.source.kind == "default":
            continue
        value = setting.value
        text = value.reveal() if isinstance(value, Secret) else value
        if name in _TEXT_OF and (pem := _pem(expand_user(text))) is not None:
            yield _TEXT_OF[name], pem
        else:
            yield name, text


def _pem(file: Path) -> str | None:
    """Return the text of a PEM file; None for another file."""
    try:
        data = file.read_bytes() if file.is_file() else b""
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    text = data.decode("ascii", "replace")
    return text if _PEM in text else None


def _is_printable(name: str) -> bool:
    return KEYS[name].kind is not Kind.SECRET and name not in _TEXT_OF.values()
