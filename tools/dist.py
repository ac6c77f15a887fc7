"""Build everything of a release into dist/, from the last commit.

    make dist              sdist, pure wheel, SBOM, and a compiled wheel if cc is found
    make dist ARGS=--pure  without the compiled wheel, which takes minutes

The source distribution and the pure wheel are built twice, in two directories, and must
have the same bytes. Their dates are the commit's (SOURCE_DATE_EPOCH), and the sdist is
packed again, because setuptools writes owners and the time of the build into it.

The SBOM (CycloneDX, JSON) is made by cyclonedx-bom from an environment with the wheel
and its dependencies as requirements-dev.txt names them, because pip's own report has
neither licences nor package URLs.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.locks import lock_file, read_lock, subset

ROOT: Final = Path(__file__).parent.parent
DIST: Final = ROOT / "dist"
TOOLS: Final = Path(sys.executable).parent
HOOK: Final = (
    "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])({}))"
)


def main(words: Sequence[str]) -> int:
    """Build and check the distributions; return the exit code."""
    epoch = git("log", "-1", "--format=%ct")
    if git("status", "--porcelain", "--untracked-files=no"):
        sys.stderr.write("dist: changes without a commit are left out\n")
    os.umask(0o022)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory(prefix="coterie-dist-") as directory:
        first, second = (
            build_pure(Path(directory, each), int(epoch))
            for each in ("first", "second")
        )
        if not is_same(first, second):
            return 1
        for file in first:
            shutil.copy(file, DIST)
        if "--pure" in words:
            sys.stdout.write("no compiled wheel, because of --pure\n")
        elif shutil.which("cc") is None:
            sys.stdout.write("no compiled wheel, because there is no C compiler\n")
        else:
            source = unpack(first[0], Path(directory, "compiled"))
            build("wheel", source, DIST, epoch, COTERIE_COMPILED="1")
        run(TOOLS / "twine", "check", "--strict", *sorted(DIST.iterdir()))
        write_sbom(first, Path(directory, "environment"))
    for file in sorted(DIST.iterdir()):
        size = file.stat().st_size
        sys.stdout.write(f"{digest(file)}  {size:>9,}  dist/{file.name}\n")
    return 0


def build_pure(directory: Path, epoch: int) -> tuple[Path, Path]:
    """Build the sdist from the last commit, and the wheel from the sdist."""
    tree = directory / "tree"
    tree.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    sdist = build("sdist", tree, directory, str(epoch))
    sdist.write_bytes(repacked(sdist.read_bytes(), epoch))
    source = unpack(sdist, directory / "source")
    return sdist, build("wheel", source, directory, str(epoch))


def repacked(sdist: bytes, epoch: int) -> bytes:
    """Return a .tar.gz with the same files: in order, owned by root, dated `epoch`."""
    tar = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist)) as old,
        tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            member.mtime = epoch
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(tar.getvalue(), mtime=epoch)


def unpack(sdist: Path, directory: Path) -> Path:
    """Unpack an sdist into a directory; return the project's folder in it."""
    with tarfile.open(sdist) as archive:
        archive.extractall(directory, filter="data")
    (source,) = directory.iterdir()
    return source


def build(kind: str, source: Path, target: Path, epoch: str, **settings: str) -> Path:
    """Build an sdist or a wheel with the setuptools of this environment (PEP 517)."""
    hook = HOOK.format(repr(str(target)))
    environment = {key: os.environ[key] for key in os.environ if key != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", hook, f"build_{kind}"],
        cwd=source,
        env={**environment, "SOURCE_DATE_EPOCH": epoch, **settings},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"dist: the {kind} could not be built:\n{done.stderr}")
    return target / done.stdout.splitlines()[-1]


def is_same(first: Sequence[Path], second: Sequence[Path]) -> bool:
    """Return whether two builds have the same bytes; print the file that differs."""
    for one, other in zip(first, second, strict=True):
        if digest(one) != digest(other):
            sys.stderr.write(f"dist: two builds of {one.name} differ\n")
            return False
    return True


def digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def write_sbom(built: Sequence[Path], environment: Path) -> None:
    """Write the SBOM of the wheel and its dependencies beside the sdist."""
    sdist, wheel = built
    lock = environment.with_name("requirements.txt")
    lock.write_text(subset(read_lock(lock_file("dev")), ["coterie"]), "utf-8")
    venv.create(environment, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--python", environment, "install", "--quiet")
    run(*pip, "--no-deps", "--require-hashes", "--requirement", lock)
    run(*pip, "--no-deps", "--no-index", wheel)
    run(sys.executable, "-m", "pip", "--python", environment, "check")
    target = DIST / sdist.name.replace(".tar.gz", ".cdx.json")
    run(
        *(TOOLS / "cyclonedx-py", "environment", "--output-reproducible"),
        *("--pyproject", ROOT / "pyproject.toml", "--mc-type", "application"),
        *("--output-format", "JSON", "--output-file", target),
        environment / "bin/python",
    )


def git(*words: str) -> str:
    """Return the output of git in this repository."""
    done = subprocess.run(
        ["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.strip()


def run(*command: str | Path) -> None:
    """Run a program; raise SystemExit with its exit code when it fails."""
    words = [str(each) for each in command]
    if code := subprocess.run(words, check=False).returncode:
        raise SystemExit(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
