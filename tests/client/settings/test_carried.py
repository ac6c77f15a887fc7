"""Settings travel to workers, and nobody on the way sees a secret."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from coterie.client.sasl import Plain
from coterie.client.secret import Secret
from coterie.client.settings.carried import Carried
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


def there(carried: Carried) -> Carried:
    """As a worker gets it."""
    found: Carried = pickle.loads(pickle.dumps(carried))
    assert found == carried
    assert hash(found) == hash(carried)
    return found


def test_a_worker_connects_as_who_the_driver_is() -> None:
    bootstrap, options, _, _ = there(Carried.of_texts(TEXTS)).target()
    assert bootstrap == "broker:9093"
    assert options.ssl is not None
    assert options.sasl == Plain("alice", Secret(PASSWORD))


def test_printing_shows_no_secret() -> None:
    carried = Carried.of_texts(TEXTS)
    assert "alice" in repr(carried)
    assert PASSWORD not in f"{carried!r} {carried} {[carried]}"


def test_names_of_librdkafka_and_a_jaas_entry_will_do() -> None:
    jaas = f'a.PlainLoginModule required username="alice" password="{PASSWORD}";'
    texts = {
        "metadata.broker.list": "broker:9093",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.jaas.config": jaas,
    }
    carried = Carried.of_texts(texts)
    assert carried.bootstrap == "broker:9093"
    assert there(carried).target().options.sasl == Plain("alice", Secret(PASSWORD))


def test_certificates_go_along_as_text(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    chain = certificates.write("chain.pem", certificates.chain)
    key = certificates.write("key.pem", certificates.key)
    carried = Carried.of_texts(
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
    context = there(carried).target().options.ssl
    assert context is not None
    assert context.get_ca_certs()
    assert "BEGIN" not in repr(carried)


def test_pkcs12_stays_a_file_that_workers_need(tmp_path: Path) -> None:
    store = Certificates(tmp_path).key_store()
    carried = Carried.of_texts(
        {
            "bootstrap.servers": "broker:9093",
            "security.protocol": "SSL",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": "changeit",
        }
    )
    assert there(carried).target().options.ssl is not None
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
def test_what_cannot_be_is_refused_at_once(texts: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Carried.of_texts(texts)
