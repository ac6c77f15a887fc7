"""`coterie config explain`: every setting, masked, with its source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie.cli.main import main
from tests.cli.settings_home import SettingsHome

pytestmark = pytest.mark.usefixtures("home_in_environment")


def explained(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Return the exit code, the envelope, and its items by setting."""
    code = main(["config", "explain", "-o", "json", *arguments])
    envelope = json.loads(capsys.readouterr().out)
    return code, envelope, {each["setting"]: each for each in envelope["items"]}


def test_each_setting_has_its_value_and_its_source(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    home.profiles('[default]\nbootstrap.servers = "a:1"\n')
    assert main(["config", "explain", "--timeout", "5000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    file = home.folder / "config/coterie/profiles.toml"
    assert rows["SETTING"] == "VALUE SOURCE"
    assert rows["bootstrap.servers"] == f"a:1 profile default in {file} line 2"
    assert rows["default.api.timeout.ms"] == "5000 flag --timeout"
    assert rows["client.id"] == "coterie default"


def test_secrets_are_masked_in_every_form(
    home: SettingsHome,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COTERIE_SASL_PASSWORD", "hunter2")
    monkeypatch.setenv("COTERIE_SSL_KEY_PEM", "hunter2")
    for form in ("table", "wide", "json", "jsonl", "csv", "md"):
        main(["config", "explain", "-o", form, "--bootstrap-server", "a:1"])
        captured = capsys.readouterr()
        assert "hunter2" not in captured.out + captured.err
        assert "********" in captured.out
    _, _, items = explained(capsys, "--bootstrap-server", "a:1")
    assert items["sasl.password"]["is_secret"] is True
    assert items["sasl.password"]["value"] == "********"
    assert items["ssl.keystore.key"]["written_as"] == "ssl.key.pem"


def test_a_private_key_and_a_password_in_a_url_are_masked(
    home: SettingsHome,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----"
    monkeypatch.setenv("COTERIE_SSL_CERTIFICATE_PEM", key)
    url = "sasl.oauthbearer.token.endpoint.url"
    rest = ("--bootstrap-server", "a:1", "-X", f"{url}=https://me:hunter2@idp/token")
    for form in ("table", "wide", "json", "csv"):
        main(["config", "explain", "-o", form, *rest])
        captured = capsys.readouterr()
        assert "hunter2" not in captured.out + captured.err
    _, _, items = explained(capsys, *rest)
    assert items["ssl.keystore.certificate.chain"]["is_secret"] is True
    assert items[url]["value"] == "https://********@idp/token"


def test_overridden_sources_are_shown(
    home: SettingsHome,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COTERIE_SOCKET_TIMEOUT_MS", "7")
    file = home.write("client.properties", "request.timeout.ms=8")
    code, _, items = explained(
        capsys, "--bootstrap-server", "a:1", "--command-config", str(file)
    )
    assert code == 0
    setting = items["request.timeout.ms"]
    assert (setting["value"], setting["source_kind"]) == ("7", "env")
    assert setting["source"] == "env COTERIE_SOCKET_TIMEOUT_MS"
    assert setting["written_as"] == "socket.timeout.ms"
    assert setting["overrides"] == [f"{file} line 1"]


def test_the_file_and_line_of_a_setting_are_named(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles = home.profiles(
        """\
# first
[default]
client.id = "other"

[prod]  # a comment
bootstrap.servers = [
    "a:1",
    "b = 2:2",
]
command.config = "base.properties"
"security.protocol" = "SASL_PLAINTEXT"
ssl.ca.pem = '''
client.id = not a key
'''
socket = { timeout.ms = 7 }

[prod.sasl]
mechanism = "PLAIN"
username = "alice"
"""
    )
    base = home.write("config/coterie/base.properties", "# a comment\nclient.id=me\n")
    _, _, items = explained(capsys, "--profile", "prod")

    def place(setting: str) -> tuple[str, int]:
        return items[setting]["file"], items[setting]["line"]

    assert place("bootstrap.servers") == (str(profiles), 6)
    assert place("security.protocol") == (str(profiles), 11)
    assert place("request.timeout.ms") == (str(profiles), 15)
    assert place("sasl.mechanism") == (str(profiles), 18)
    assert place("sasl.username") == (str(profiles), 19)
    assert place("client.id") == (str(base), 2)
    assert place("retry.backoff.ms") == (None, None)
    assert items["sasl.username"]["source"] == f"profile prod in {profiles} line 19"


def test_an_unknown_setting_of_a_profile_names_its_line(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home.profiles('[default]\n\nclient.idd = "x"\n')
    assert main(["config", "explain"]) == 2
    error = f"coterie: profile default in {file} line 3: there is no setting client.idd"
    assert capsys.readouterr().err.startswith(error)


def test_an_invalid_setting_is_a_failure_and_the_others_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, envelope, items = explained(capsys)
    assert code == 1
    assert items["client.id"]["value"] == "coterie"
    [error] = envelope["errors"]
    assert "use --bootstrap-server HOST:PORT" in error["message"]


def test_a_source_that_cannot_be_read_returns_exit_code_2(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = home.folder / "none.properties"
    assert main(["config", "explain", "--command-config", str(missing)]) == 2
    error = f"coterie: cannot read {missing}: No such file or directory\n"
    assert capsys.readouterr().err == error


def test_warnings_are_always_shown_and_notes_only_with_verbose(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home.write("client.properties", "client.idd=x\ngroup.id=g\n")
    words = ["config", "explain", "--bootstrap-server", "a:1"]
    words += ["--command-config", str(file), "-X", "sasl.mechanism=PLAIN"]
    main(words)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: ")
    assert "did you mean client.id?" in first
    assert "has no effect while security.protocol is PLAINTEXT" in second
    main([*words, "--verbose"])
    assert "group.id has no effect" in capsys.readouterr().err


def test_a_pem_text_is_shown_by_its_first_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_SSL_CA_PEM", "-----BEGIN\nabc\n")
    main(["config", "explain", "--bootstrap-server", "a:1"])
    out = capsys.readouterr().out
    assert "-----BEGIN ..." in out
    assert "abc" not in out
