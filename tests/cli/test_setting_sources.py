"""Sources of settings and their precedence."""

from __future__ import annotations

import os

import pytest

from coterie.errors import SettingError
from tests.cli.settings_home import SettingsHome

JAAS = (
    "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    '\\\n  username="alice" password="hunter2";\n'
)


def test_each_setting_has_the_name_of_its_source(home: SettingsHome) -> None:
    file = home.write(
        "client.properties", "# ours\nsecurity.protocol=SASL_SSL\n\n" + JAAS
    )
    home.profiles('[prod]\n"client.id" = "p"\n')
    home.environ["COTERIE_SASL_MECHANISM"] = "PLAIN"
    sources = home.sources(
        *("--profile", "prod", "--command-config", str(file)),
        *("--bootstrap-server", "a:1", "--timeout", "5000", "-X", "retry.backoff.ms=7"),
    )
    assert sources == {
        "bootstrap.servers": "flag --bootstrap-server",
        "default.api.timeout.ms": "flag --timeout",
        "retry.backoff.ms": "flag -X",
        "sasl.mechanism": "env COTERIE_SASL_MECHANISM",
        "client.id": "profile prod in config/coterie/profiles.toml line 2",
        "security.protocol": "client.properties line 2",
        "sasl.username": "client.properties line 4",
        "sasl.password": "client.properties line 4",
    }


def test_options_override_the_environment_and_profiles_and_files(
    home: SettingsHome,
) -> None:
    file = home.write("client.properties", "client.id=file")
    home.profiles('[prod]\nclient.id = "profile"\n')
    named = ["--command-config", str(file)]
    assert home.values(*named)["client.id"] == "file"
    named += ["--profile", "prod"]
    assert home.values(*named)["client.id"] == "profile"
    home.environ["COTERIE_CLIENT_ID"] = "env"
    assert home.values(*named)["client.id"] == "env"
    assert home.values(*named, "-X", "client.id=flag")["client.id"] == "flag"


def test_a_dedicated_option_overrides_the_x_option(home: SettingsHome) -> None:
    values = home.values(
        *("--bootstrap-server", "a:1", "-X", "bootstrap.servers=b:1"),
        *("--timeout", "5", "-X", "default.api.timeout.ms=6"),
    )
    assert values["bootstrap.servers"] == "a:1"
    assert values["default.api.timeout.ms"] == "5"


def test_overridden_values_are_kept(home: SettingsHome) -> None:
    home.environ["COTERIE_CLIENT_ID"] = "env"
    values = home.collected("-X", "client.id=one", "-X", "client.id=two")
    assert [each.value for each in values.by_key["client.id"]] == ["env", "one", "two"]


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
def test_an_environment_variable_is_the_setting_in_capitals(
    variable: str, key: str, home: SettingsHome
) -> None:
    home.environ[variable] = "x"
    assert home.values() == {key: "x"}


def test_environment_variables_name_files_and_profiles(home: SettingsHome) -> None:
    file = home.write("client.properties", "client.id=file")
    profiles = home.write("mine.toml", "[p]\nretry.backoff.ms = 7\n")
    home.environ |= {
        "COTERIE_COMMAND_CONFIG": str(file),
        "COTERIE_PROFILES": str(profiles),
        "COTERIE_PROFILE": "p",
    }
    assert home.values() == {"client.id": "file", "retry.backoff.ms": "7"}
    assert home.collected().notes == []


def test_an_unknown_environment_variable_is_a_note(home: SettingsHome) -> None:
    home.environ |= {"COTERIE_SASL_PASWORD": "hunter2", "COTERIE_TEST_BOOTSTRAP": "x"}
    first, second = home.collected().notes
    assert first.endswith("is not a setting; did you mean COTERIE_SASL_PASSWORD?")
    assert second == "environment variable COTERIE_TEST_BOOTSTRAP is not a setting"
    assert "hunter2" not in first


# Profiles.


def test_a_profile_may_use_every_form_of_toml(home: SettingsHome) -> None:
    home.profiles(
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
    assert home.values("--profile", "a") == {
        "bootstrap.servers": "one:1,two:2",
        "sasl.username": "alice",
        "retry.backoff.ms": "7",
        "enable.ssl.certificate.verification": "false",
        "ssl.truststore.location": str(home.folder / "config/coterie/ca.pem"),
    }


def test_the_default_profile_is_read_when_no_profile_is_named(
    home: SettingsHome,
) -> None:
    home.profiles('[default]\nclient.id = "d"\n[other]\n')
    file = home.write("client.properties", "")
    assert home.values() == {"client.id": "d"}
    assert home.values("--profile", "other") == {}
    assert home.values("--command-config", str(file)) == {}


def test_the_profiles_file_is_optional(home: SettingsHome) -> None:
    assert home.values() == {}
    home.profiles("[other]\n")
    assert home.values() == {}


def test_a_user_without_a_home_directory_has_no_profiles(
    home: SettingsHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    del home.environ["XDG_CONFIG_HOME"]
    assert home.values() == {}
    with pytest.raises(SettingError, match="set HOME or XDG_CONFIG_HOME"):
        home.values("--profile", "prod")
    with pytest.raises(SettingError, match=r"~/client\.properties: No such file"):
        home.values("--command-config", "~/client.properties")


def test_a_profile_may_name_a_file_with_further_settings(home: SettingsHome) -> None:
    home.profiles('[a]\ncommand.config = "a.properties"\nclient.id = "profile"\n')
    home.write("config/coterie/a.properties", "client.id=file\nretry.backoff.ms=7\n")
    assert home.values("--profile", "a") == {
        "client.id": "profile",
        "retry.backoff.ms": "7",
    }
    other = home.write("other.properties", "")
    named = ["--profile", "a", "--command-config", str(other)]
    assert home.values(*named) == {"client.id": "profile"}


def test_the_error_of_an_unknown_profile_lists_the_known_profiles(
    home: SettingsHome,
) -> None:
    home.profiles("[prod]\n[staging]\n")
    with pytest.raises(SettingError) as refused:
        home.values("--profile", "stagin")
    assert "did you mean staging? profiles: prod, staging" in str(refused.value)
    home.environ["COTERIE_PROFILES"] = "/nowhere/profiles.toml"
    with pytest.raises(SettingError, match=r"cannot read .*: No such file"):
        home.values("--profile", "staging")


def test_an_invalid_profiles_file_is_refused(home: SettingsHome) -> None:
    home.profiles("prod\n")
    with pytest.raises(SettingError, match="is not TOML"):
        home.values("--profile", "prod")


def test_an_invalid_value_of_a_profile_is_refused(home: SettingsHome) -> None:
    home.profiles("[a]\nclient.id = 1.5\n")
    with pytest.raises(SettingError, match=r"profile a in .*client\.id must be text"):
        home.values("--profile", "a")


# Names.


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("sasl.mechansim=PLAIN", "did you mean sasl.mechanism?"),
        ("bootstrap.server=a:1", "did you mean bootstrap.servers?"),
        ("wholly.unlike=1", "there is no setting wholly.unlike"),
    ],
)
def test_an_unknown_setting_is_refused_in_options_and_profiles(
    flag: str, hint: str, home: SettingsHome
) -> None:
    with pytest.raises(SettingError) as refused:
        home.values("-X", flag)
    assert hint in str(refused.value)


def test_an_unknown_setting_in_a_file_is_ignored_with_a_warning_or_note(
    home: SettingsHome,
) -> None:
    file = home.write(
        "client.properties", "sasl.mechansim=PLAIN\nour.interceptor=x\ngroup.id=g\n"
    )
    collected = home.collected("--command-config", str(file))
    assert collected.warnings == [
        f"{file} line 1: there is no setting sasl.mechansim; "
        "did you mean sasl.mechanism?"
    ]
    assert collected.notes == [
        f"{file} line 2: there is no setting our.interceptor",
        f"{file} line 3: group.id has no effect on this client",
    ]


def test_config_providers_are_a_warning(home: SettingsHome) -> None:
    file = home.write("client.properties", "config.providers=env\nclient.id=${env:A}\n")
    collected = home.collected("--command-config", str(file))
    [warning] = collected.warnings
    assert warning.endswith("is for Java; ${...} in values is not replaced")


@pytest.mark.parametrize("flag", ["x", "=x", ""])
def test_the_x_option_requires_a_name_and_a_value(
    flag: str, home: SettingsHome
) -> None:
    with pytest.raises(SettingError, match="is not KEY=VALUE"):
        home.values("-X", flag)


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
def test_a_secret_on_the_command_line_is_refused(
    name: str, variable: str, home: SettingsHome
) -> None:
    with pytest.raises(SettingError, match="put it into a profile") as refused:
        home.values("-X", f"{name}=hunter2")
    assert variable in str(refused.value)
    assert "hunter2" not in str(refused.value)
    home.environ[variable] = (
        JAAS.replace("\\\n", "").partition("=")[2] if "jaas" in name else "hunter2"
    )
    assert "hunter2" in home.values().values()


@pytest.mark.posix
def test_a_file_with_secrets_that_others_can_read_is_a_warning(
    home: SettingsHome,
) -> None:
    file = home.write("client.properties", JAAS.replace("\\\n", ""), mode=0o640)
    warning = f"{file} contains secrets and other users can read it; chmod 600 {file}"
    assert home.collected("--command-config", str(file)).warnings == [warning]
    file.chmod(0o600)
    assert home.collected("--command-config", str(file)).warnings == []
    file = home.profiles('[a]\n"sasl.password" = "hunter2"\n[b]\n', mode=0o644)
    [warning] = home.collected("--profile", "a").warnings
    assert warning.startswith(f"{file} contains secrets")
    assert home.collected("--profile", "b").warnings == []


def test_the_error_of_an_invalid_jaas_entry_contains_file_and_line(
    home: SettingsHome,
) -> None:
    file = home.write("client.properties", "\nsasl.jaas.config=x password=hunter2;")
    with pytest.raises(SettingError) as refused:
        home.collected("--command-config", str(file))
    assert str(refused.value).startswith(f"{file} line 2: sasl.jaas.config lacks")
    assert "hunter2" not in str(refused.value)


@pytest.mark.posix
def test_a_directory_name_may_contain_spaces(home: SettingsHome) -> None:
    file = home.write("kept in here/p.toml", '[a]\n"sasl.password" = "x"\n', 0o644)
    home.environ["COTERIE_PROFILES"] = str(file)
    [warning] = home.collected("--profile", "a").warnings
    assert warning.startswith(f"{file} contains secrets")


def test_collected_settings_print_no_secret(home: SettingsHome) -> None:
    home.environ["COTERIE_SASL_PASSWORD"] = "hunter2"
    assert "hunter2" not in repr(home.collected())
