"""Where settings come from, and which counts."""

from __future__ import annotations

import pytest

from coterie.errors import SettingError
from tests.cli.connect.world import World

JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    '\\\n  username="alice" password="hunter2";\n'
)


def test_each_source_is_named(world: World) -> None:
    file = world.write(
        "client.properties", "# ours\nsecurity.protocol=SASL_SSL\n\n" + JAAS
    )
    world.profiles('[prod]\n"client.id" = "p"\n')
    world.environ["COTERIE_SASL_MECHANISM"] = "PLAIN"
    sources = world.sources(
        *("--profile", "prod", "--command-config", str(file)),
        *("--bootstrap-server", "a:1", "--timeout", "5000", "-X", "retry.backoff.ms=7"),
    )
    assert sources == {
        "bootstrap.servers": "flag --bootstrap-server",
        "default.api.timeout.ms": "flag --timeout",
        "retry.backoff.ms": "flag -X",
        "sasl.mechanism": "env COTERIE_SASL_MECHANISM",
        "client.id": "profile prod in config/coterie/profiles.toml",
        "security.protocol": "client.properties line 2",
        "sasl.username": "client.properties line 4",
        "sasl.password": "client.properties line 4",
    }


def test_flags_count_more_than_the_environment_than_profiles_than_files(
    world: World,
) -> None:
    file = world.write("client.properties", "client.id=file")
    world.profiles('[prod]\nclient.id = "profile"\n')
    named = ["--command-config", str(file)]
    assert world.values(*named)["client.id"] == "file"
    named += ["--profile", "prod"]
    assert world.values(*named)["client.id"] == "profile"
    world.environ["COTERIE_CLIENT_ID"] = "env"
    assert world.values(*named)["client.id"] == "env"
    assert world.values(*named, "-X", "client.id=flag")["client.id"] == "flag"


def test_the_flag_of_a_thing_counts_more_than_x(world: World) -> None:
    found = world.values(
        *("--bootstrap-server", "a:1", "-X", "bootstrap.servers=b:1"),
        *("--timeout", "5", "-X", "default.api.timeout.ms=6"),
    )
    assert found["bootstrap.servers"] == "a:1"
    assert found["default.api.timeout.ms"] == "5"


def test_what_was_overridden_is_kept_to_be_explained(world: World) -> None:
    world.environ["COTERIE_CLIENT_ID"] = "env"
    found = world.findings("-X", "client.id=one", "-X", "client.id=two")
    assert [each.value for each in found.by_key["client.id"]] == ["env", "one", "two"]


# The environment.


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("COTERIE_BOOTSTRAP_SERVER", "bootstrap.servers"),
        ("COTERIE_BOOTSTRAP_SERVERS", "bootstrap.servers"),
        ("COTERIE_SASL_MECHANISMS", "sasl.mechanism"),
        ("COTERIE_SSL_CA_LOCATION", "ssl.truststore.location"),
        ("COTERIE_SASL_PASSWORD", "sasl.password"),
    ],
)
def test_a_setting_is_a_variable_in_capitals(
    variable: str, key: str, world: World
) -> None:
    world.environ[variable] = "x"
    assert world.values() == {key: "x"}


def test_files_and_profiles_are_named_by_variables_too(world: World) -> None:
    file = world.write("client.properties", "client.id=file")
    profiles = world.write("mine.toml", "[p]\nretry.backoff.ms = 7\n")
    world.environ |= {
        "COTERIE_COMMAND_CONFIG": str(file),
        "COTERIE_PROFILES": str(profiles),
        "COTERIE_PROFILE": "p",
    }
    assert world.values() == {"client.id": "file", "retry.backoff.ms": "7"}
    assert world.findings().notes == []


def test_a_variable_that_is_no_setting_is_a_note(world: World) -> None:
    world.environ |= {"COTERIE_SASL_PASWORD": "hunter2", "COTERIE_TEST_BOOTSTRAP": "x"}
    first, second = world.findings().notes
    assert first.endswith("is no setting; did you mean COTERIE_SASL_PASSWORD?")
    assert second == "env COTERIE_TEST_BOOTSTRAP is no setting"
    assert "hunter2" not in first


# Profiles.


def test_a_profile_is_read_in_each_way_toml_has(world: World) -> None:
    world.profiles(
        """
        [a]
        bootstrap.servers = ["one:1", "two:2"]
        "sasl.username" = "alice"
        retry.backoff.ms = 7
        enable.ssl.certificate.verification = false
        [a.ssl]
        ca.location = "ca.pem"
        """
    )
    assert world.values("--profile", "a") == {
        "bootstrap.servers": "one:1,two:2",
        "sasl.username": "alice",
        "retry.backoff.ms": "7",
        "enable.ssl.certificate.verification": "false",
        "ssl.truststore.location": str(world.folder / "config/coterie/ca.pem"),
    }


def test_the_default_profile_counts_when_nothing_is_named(world: World) -> None:
    world.profiles('[default]\nclient.id = "d"\n[other]\n')
    file = world.write("client.properties", "")
    assert world.values() == {"client.id": "d"}
    assert world.values("--profile", "other") == {}
    assert world.values("--command-config", str(file)) == {}


def test_without_profiles_nothing_is_wrong(world: World) -> None:
    assert world.values() == {}
    world.profiles("[other]\n")
    assert world.values() == {}


def test_a_profile_may_build_on_a_file_beside_it(world: World) -> None:
    world.profiles('[a]\ncommand.config = "a.properties"\nclient.id = "profile"\n')
    world.write("config/coterie/a.properties", "client.id=file\nretry.backoff.ms=7\n")
    assert world.values("--profile", "a") == {
        "client.id": "profile",
        "retry.backoff.ms": "7",
    }
    other = world.write("other.properties", "")
    named = ["--profile", "a", "--command-config", str(other)]
    assert world.values(*named) == {"client.id": "profile"}


def test_a_profile_that_is_not_there_is_told_with_those_that_are(world: World) -> None:
    world.profiles("[prod]\n[staging]\n")
    with pytest.raises(SettingError) as refused:
        world.values("--profile", "stagin")
    assert "did you mean staging? there are: prod, staging" in str(refused.value)
    world.environ["COTERIE_PROFILES"] = "/nowhere/profiles.toml"
    with pytest.raises(SettingError, match="cannot be read: No such file"):
        world.values("--profile", "staging")


def test_a_profile_that_is_no_toml_is_told(world: World) -> None:
    world.profiles("prod\n")
    with pytest.raises(SettingError, match="is not TOML"):
        world.values("--profile", "prod")


def test_a_value_of_a_profile_that_is_no_value_is_told(world: World) -> None:
    world.profiles("[a]\nclient.id = 1.5\n")
    with pytest.raises(SettingError, match=r"profile a in .*client\.id must be text"):
        world.values("--profile", "a")


# Names.


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("sasl.mechansim=PLAIN", "did you mean sasl.mechanism?"),
        ("bootstrap.server=a:1", "did you mean bootstrap.servers?"),
        ("wholly.unlike=1", "there is no setting wholly.unlike"),
    ],
)
def test_a_wrong_name_of_ones_own_is_refused(
    flag: str, hint: str, world: World
) -> None:
    with pytest.raises(SettingError) as refused:
        world.values("-X", flag)
    assert hint in str(refused.value)


def test_a_wrong_name_in_a_shared_file_is_told_and_left_out(world: World) -> None:
    file = world.write(
        "client.properties", "sasl.mechansim=PLAIN\nour.interceptor=x\ngroup.id=g\n"
    )
    findings = world.findings("--command-config", str(file))
    assert findings.warnings == [
        f"{file} line 1: there is no setting sasl.mechansim; "
        "did you mean sasl.mechanism?"
    ]
    assert findings.notes == [
        f"{file} line 2: there is no setting our.interceptor",
        f"{file} line 3: group.id means nothing to this client",
    ]


def test_a_file_that_leaves_its_values_to_java_is_told(world: World) -> None:
    file = world.write(
        "client.properties", "config.providers=env\nclient.id=${env:A}\n"
    )
    findings = world.findings("--command-config", str(file))
    [warning] = findings.warnings
    assert warning.endswith("is for Java; ${...} in values stays as it is")


@pytest.mark.parametrize("flag", ["x", "=x", ""])
def test_an_assignment_has_a_name_and_a_value(flag: str, world: World) -> None:
    with pytest.raises(SettingError, match="write -X KEY=VALUE"):
        world.values("-X", flag)


# Secrets.


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("sasl.password", "COTERIE_SASL_PASSWORD"),
        ("ssl.key.pem", "COTERIE_SSL_KEYSTORE_KEY"),
        ("sasl.jaas.config", "COTERIE_SASL_JAAS_CONFIG"),
        (
            "sasl.oauthbearer.client.secret",
            "COTERIE_SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET",
        ),
    ],
)
def test_a_secret_has_no_place_on_the_command_line(
    name: str, variable: str, world: World
) -> None:
    with pytest.raises(SettingError, match="put it into a profile") as refused:
        world.values("-X", f"{name}=hunter2")
    assert variable in str(refused.value)
    assert "hunter2" not in str(refused.value)
    world.environ[variable] = (
        JAAS.replace("\\\n", "").partition("=")[2] if "jaas" in name else "hunter2"
    )
    assert "hunter2" in world.values().values()


def test_a_file_with_secrets_that_others_may_read_is_told(world: World) -> None:
    file = world.write("client.properties", JAAS.replace("\\\n", ""), mode=0o640)
    warning = f"{file} holds secrets and others may read it; chmod 600 {file}"
    assert world.findings("--command-config", str(file)).warnings == [warning]
    file.chmod(0o600)
    assert world.findings("--command-config", str(file)).warnings == []
    file = world.profiles('[a]\n"sasl.password" = "hunter2"\n[b]\n', mode=0o644)
    [warning] = world.findings("--profile", "a").warnings
    assert warning.startswith(f"{file} holds secrets")
    assert world.findings("--profile", "b").warnings == []


def test_an_entry_of_jaas_that_is_wrong_is_told_with_its_place(world: World) -> None:
    file = world.write("client.properties", "\nsasl.jaas.config=x password=hunter2;")
    with pytest.raises(SettingError) as refused:
        world.findings("--command-config", str(file))
    assert str(refused.value).startswith(f"{file} line 2: sasl.jaas.config says no")
    assert "hunter2" not in str(refused.value)


def test_a_folder_may_be_called_anything(world: World) -> None:
    file = world.write("kept in here/p.toml", '[a]\n"sasl.password" = "x"\n', 0o644)
    world.environ["COTERIE_PROFILES"] = str(file)
    [warning] = world.findings("--profile", "a").warnings
    assert warning.startswith(f"{file} holds secrets")


def test_findings_show_no_secret(world: World) -> None:
    world.environ["COTERIE_SASL_PASSWORD"] = "hunter2"
    assert "hunter2" not in repr(world.findings())
