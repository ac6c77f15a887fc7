"""Settings that are sent to workers, with masked secrets."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from coterie.client.sasl import Plain
from coterie.client.secret import Secret
from coterie.client.settings.portable import PortableSettings
from coterie.errors import SettingError
from tests.client.certificates import Certificates

PASSWORD = "xyzzy-secret"
TEXTS = {
    "bootstrap.servers": "broker:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": PASSWORD,
}


def pickled(carried: PortableSettings) -> PortableSettings:
    """Return the settings after pickling."""
    found: PortableSettings = pickle.loads(pickle.dumps(carried))
    assert found == carried
    assert hash(found) == hash(carried)
    return found


def test_a_worker_connects_with_the_drivers_credentials() -> None:
    bootstrap, options, _, _ = pickled(PortableSettings.of_texts(TEXTS)).target()
    assert bootstrap == "broker:9093"
    assert options.ssl is not None
    assert options.sasl == Plain("alice", Secret(PASSWORD))


def test_secrets_are_masked_when_settings_are_printed() -> None:
    carried = PortableSettings.of_texts(TEXTS)
    assert "alice" in repr(carried)
    assert PASSWORD not in f"{carried!r} {carried} {[carried]}"


def test_librdkafka_setting_names_and_a_jaas_entry_are_accepted() -> None:
    jaas = f'a.PlainLoginModule required username="alice" password="{PASSWORD}";'
    texts = {
        "metadata.broker.list": "broker:9093",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.jaas.config": jaas,
    }
    carried = PortableSettings.of_texts(texts)
    assert carried.bootstrap == "broker:9093"
    assert pickled(carried).target().options.sasl == Plain("alice", Secret(PASSWORD))


def test_certificates_are_included_as_text(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    chain = certificates.write("chain.pem", certificates.chain)
    key = certificates.write("key.pem", certificates.key)
    carried = PortableSettings.of_texts(
        {
            "bootstrap.servers": "broker:9093",
            "security.protocol": "SSL",
            "ssl.truststore.location": str(certificates.ca),
            "ssl.certificate.location": str(chain),
            "ssl.key.location": str(key),
        }
    )
    for file in (certificates.ca, chain, key):
        file.unlink()
    context = pickled(carried).target().options.ssl
    assert context is not None
    assert context.get_ca_certs()
    assert "BEGIN" not in repr(carried)


def test_a_pkcs12_store_is_sent_as_a_path(tmp_path: Path) -> None:
    store = Certificates(tmp_path).key_store()
    carried = PortableSettings.of_texts(
        {
            "bootstrap.servers": "broker:9093",
            "security.protocol": "SSL",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": "changeit",
        }
    )
    assert pickled(carried).target().options.ssl is not None
    store.unlink()
    with pytest.raises(SettingError, match="cannot be read"):
        carried.target()


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"bootstrap.server": "a:1"}, "did you mean bootstrap.servers"),
        ({"bootstrap.servers": "a:1", "security.protocol": "TLS"}, "option security"),
        ({"client.id": "me"}, "no cluster is named"),
    ],
)
def test_an_invalid_value_is_refused_immediately(
    texts: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        PortableSettings.of_texts(texts)
