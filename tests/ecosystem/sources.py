"""The files of a suite: fetched from a registry, copied for a run, and edited."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trustme

from tests.ecosystem.suites import Apache, Checkout, GoModule, Sdist, Suite

FETCH_S: Final = 900.0
_POM: Final = Path(__file__).with_name("apache") / "pom.xml"


class Unavailable(Exception):
    """An error with the reason why a suite cannot be run on this machine."""


def copy_source(
    suite: Suite, folder: Path, checkout: Path | None, values: Mapping[str, str]
) -> Path:
    """Copy a suite's files into a new folder `source`, edited; return it.

    `checkout` is the user's clone of a suite that no registry has. `values` replace the
    names in the texts of the edits.

    Raises:
        Unavailable: the registry or a program is missing, or there is no checkout.
    """
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    match suite.source:
        case GoModule(path, version):
            _copy_writable(_go_module(f"{path}@{version}"), source)
        case Sdist(package, version):
            _unpack_sdist(package, version, folder, source)
        case Checkout(url, tag):
            if checkout is None:
                raise Unavailable(
                    f"no registry has its tests: git clone --branch {tag} {url}, "
                    "and name the folder by --checkout NAME=FOLDER"
                )
            _copy_writable(checkout, source)
        case Apache():
            raise AssertionError("its tests are of this repository")
    for name in suite.without:
        shutil.rmtree(source / name)
    for edit in suite.edits:
        files = list(source.glob(edit.files))
        changed = [_edit(file, edit.pattern, edit.text, values) for file in files]
        if not any(changed):
            raise Unavailable(f"no file {edit.files} has {edit.pattern!r} to replace")
    if suite.certificates:
        write_certificates(source / suite.certificates)
    return source


def write_certificates(folder: Path) -> None:
    """Write a certificate of this machine, its key and its authority as mkcert does."""
    authority = trustme.CA()
    made = authority.issue_cert("localhost", "127.0.0.1", "0.0.0.0", "::1")
    (folder / "ca").mkdir(parents=True)
    authority.cert_pem.write_to_path(str(folder / "ca" / "rootCA.pem"))
    made.private_key_pem.write_to_path(str(folder / "key.pem"))
    for each in made.cert_chain_pems:
        each.write_to_path(str(folder / "cert.pem"), append=True)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def install(
    suite: Suite, folder: Path, source: Path, environment: Mapping[str, str]
) -> Path:
    """Install a Python suite's packages into an environment; return its python.

    The environment of an earlier run with the same packages is used again.

    Raises:
        Unavailable: Python or a package could not be installed.
    """
    installed, stamp = folder / "venv", folder / "venv" / "requirements"
    python = installed / "bin" / "python"
    wanted = "\n".join(suite.requirements)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    base = find_python(suite.python) if suite.python else sys.executable
    run_step([base, "-m", "venv", "--clear", str(installed)], source)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    packages = [fill(each, {"source": str(source)}) for each in suite.requirements]
    command = [*pip, "--disable-pip-version-check", *packages]
    run_step(command, source, environment)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def fetch_programs(folder: Path) -> Path:
    """Fetch the jars of Kafka's programs, unless an earlier run has; return them.

    Raises:
        Unavailable: Java or Maven is missing, or Maven could not fetch them.
    """
    if shutil.which("java") is None:
        raise Unavailable("java is not installed")
    jars = folder / "jars"
    if not any(jars.glob("connect-mirror-*.jar")):
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        run_step(["mvn", "-q", "-B", "-f", str(_POM), *goal], folder)
    return jars


def find_python(version: str) -> str:
    """Return the command of a version of Python, on PATH or of pyenv.

    Raises:
        Unavailable: this version is not installed.
    """
    home = os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"
    installed = Path(home, "versions").glob(f"{version}.*/bin/python")
    for candidate in (f"python{version}", *map(str, installed)):
        # pyenv has commands on PATH for versions that are not active, which fail.
        if shutil.which(candidate) and not subprocess.call(
            [candidate, "--version"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ):
            return candidate
    raise Unavailable(f"Python {version} is not installed")


def run_step(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> str:
    """Run a command of the preparation in a folder; return its stdout.

    Raises:
        Unavailable: the program is missing, fails or takes too long.
    """
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            cwd=folder,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"not within {FETCH_S:.0f} s: {' '.join(command)}") from None
    if done.returncode:
        tail = (done.stderr or done.stdout).strip()[-2000:]
        raise Unavailable(f"{' '.join(command)} failed:\n{tail}")
    return done.stdout


def _go_module(name: str) -> Path:
    output = run_step(["go", "mod", "download", "-json", name], Path.cwd())
    return Path(json.loads(output)["Dir"])


def _unpack_sdist(package: str, version: str, folder: Path, source: Path) -> None:
    """Fetch a source distribution, unless an earlier run has, and unpack it."""
    archives = folder / "archives"
    pattern = f"*-{version}.tar.gz"
    if not any(archives.glob(pattern)):
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        options = ["--no-binary", package, "--dest", str(archives)]
        run_step([*pip, *options, f"{package}=={version}"], folder)
    (archive,) = archives.glob(pattern)
    unpacked = folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(archive) as files:
        files.extractall(unpacked, filter="data")
    (inner,) = unpacked.iterdir()
    inner.rename(source)


def _copy_writable(original: Path, source: Path) -> None:
    """Copy a folder without its git directory; modules of Go are read-only."""
    shutil.copytree(
        original,
        source,
        symlinks=True,
        ignore=shutil.ignore_patterns(".git"),
    )
    for path in (source, *source.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o200)


def _edit(file: Path, pattern: str, text: str, values: Mapping[str, str]) -> bool:
    before = file.read_text(encoding="utf-8")
    filled = fill(text, values)
    after = re.sub(pattern, lambda _: filled, before)
    file.write_text(after, encoding="utf-8")
    return after != before
