"""Distinguished names and mapping rules, with expected values of Java 17's
X500Principal and kafka-clients 4.4.0's SslPrincipalMapper."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from coterie.auth.certificate import PrincipalRules, distinguished_name
from coterie.errors import SettingError

Part = tuple[tuple[x509.ObjectIdentifier, str], ...]
CN, O = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME  # noqa: E741
KEY = ec.generate_private_key(ec.SECP256R1())
DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def certificate(parts: Sequence[Part]) -> bytes:
    subject = [
        x509.RelativeDistinguishedName(x509.NameAttribute(*each) for each in part)
        for part in parts
    ]
    issuer = x509.Name([x509.NameAttribute(CN, "ca")])
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(DAY)
        .not_valid_after(DAY + dt.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([], ""),
        (
            [
                ((NameOID.COUNTRY_NAME, "DE"),),
                ((O, "Org"),),
                ((NameOID.ORGANIZATIONAL_UNIT_NAME, "Unit"),),
                ((CN, "alice"),),
            ],
            "CN=alice,OU=Unit,O=Org,C=DE",
        ),
        (
            [((O, 'a, b; "c" <d> e+f=g \\ #h'),), ((CN, "#x"),)],
            r"CN=\#x,O=a\, b\; \"c\" \<d\> e\+f\=g \\ \#h",
        ),
        ([((CN, "  two  ends "),)], "CN=\\ \\ two  ends\\ "),
        ([((CN, "a\nb\tc\0d"),)], "CN=a\nb\tc\\00d"),
        (
            [((CN, "Jürgen 消"),), ((NameOID.LOCALITY_NAME, "Köln"),)],
            "L=Köln,CN=Jürgen 消",
        ),
        ([((O, "O"),), ((CN, "cn"), (NameOID.USER_ID, "uid1"))], "CN=cn+UID=uid1,O=O"),
        (
            [
                ((NameOID.EMAIL_ADDRESS, "a@b.c"),),
                ((NameOID.SERIAL_NUMBER, "42"),),
                ((NameOID.DOMAIN_COMPONENT, "com"),),
                ((NameOID.STREET_ADDRESS, "Main 1"),),
                ((NameOID.STATE_OR_PROVINCE_NAME, "BY"),),
            ],
            "ST=BY,STREET=Main 1,DC=com,2.5.4.5=#13023432,"
            "1.2.840.113549.1.9.1=#16056140622e63",
        ),
    ],
)
def test_a_distinguished_name_is_formatted_as_in_java(
    parts: Sequence[Part], name: str
) -> None:
    assert distinguished_name(certificate(parts)) == name


def test_invalid_certificate_bytes_have_no_distinguished_name() -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (asn1crypto raises no other)
        distinguished_name(b"nothing")


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("RULE:^CN=(.*?),.*$/$1/", "CN=Duke,OU=x,O=y", "Duke"),
        ("RULE:^CN=(.*?),.*$/$1/L", "CN=Duke,OU=x", "duke"),
        (
            "RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U,DEFAULT",
            "CN=duke,OU=ops,O=y",
            "DUKE@OPS",
        ),
        ("RULE:^cn=(.*)$/$1/ , DEFAULT", "CN=a", "CN=a"),
        ("RULE:.*/x/", "CN=a", "xx"),
        ("RULE:^CN=(.*?),.*$/$1@$4/", "CN=a,O=b", "a@$4"),
        ("RULE:^CN=(.*?),.*$/$12/", "CN=a,O=b", "a2"),
        (r"RULE:^CN=(.*?),.*$/\$1/", "CN=a,O=b", "$1"),
        (r"RULE:^CN=(.*?),.*$/a\/$1/", "CN=a,O=b", "a/a"),
        ("RULE:^CN=(.*?),.*$/$0/", "CN=a,O=b", "CN=a,O=b"),
    ],
)
def test_the_first_matching_rule_maps_the_principal(
    rules: str, name: str, principal: str
) -> None:
    assert PrincipalRules(rules).apply(name) == principal


@pytest.mark.parametrize("rules", ["", "RULE:^cn=(.*)$/$1/"])
def test_a_name_that_no_rule_matches_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="no rule of ssl"):
        PrincipalRules(rules).apply("CN=a")


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("RULE:CN/x", "'RULE:CN/x' is not a rule"),
        ("DEFAULT,RULE:CN/x/LU", "'RULE:CN/x/LU' is not a rule"),
        ("RULE:CN=(/x/", "invalid regular expression"),
    ],
)
def test_an_invalid_rule_is_refused_at_start(rules: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        PrincipalRules(rules)
