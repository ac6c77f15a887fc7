"""Check that each lock names all that it needs; part of `make check`.

A lock is installed without resolving: what it lacks is not installed. So for each
Python and platform of ENVIRONMENTS everything that a lock's roots require, directly or
not, must be pinned there, at a version that the requirement allows. The requirements of
a package are those of its metadata, when the pinned version is installed here. Others
are not known: `pip check` at the end of an installation finds what they lack.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, cast

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parent.parent
ROOTS: Final[Mapping[str, Sequence[str]]] = {
    "dev": ("coterie[dev]", "setuptools"),
    "demo": ("coterie", "confluent-kafka", "rich", "setuptools"),
    "pipeline": ("coterie[pipeline]", "setuptools"),
    "lowest": ("coterie[pipeline,fast,pkcs12,ui]", "setuptools"),
    "spark-4.2": ("pyspark==4.2.*", "setuptools"),
}
"""Requirements of each requirements-NAME.txt; setuptools builds what has no wheel."""
PLATFORMS: Final = (
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
    {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
)
ENVIRONMENTS: Final[Sequence[Mapping[str, str]]] = tuple(
    {"python_version": version, "python_full_version": f"{version}.1", **platform}
    for version, platform in product(("3.11", "3.12", "3.13", "3.14"), PLATFORMS)
)
"""Markers of PEP 508 that differ between the machines that install a lock."""


class Pin(NamedTuple):
    """One package of a lock: its requirement, and its lines with the hashes."""

    requirement: Requirement
    text: str

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (only,) = self.requirement.specifier
        return only.version


Requires: TypeAlias = Callable[[Pin], Sequence[str]]
"""Returns the requirements of a package; raises PackageNotFoundError."""
OWN: Final = Pin(Requirement(f"coterie=={distribution('coterie').version}"), "")
"""Coterie itself, which no lock pins."""


def main() -> int:
    """Print what the locks lack; return the exit code."""
    found = [
        f"requirements-{name}.txt: {each}; run make lock"
        for name, roots in ROOTS.items()
        for each in missing(read_lock(lock_file(name)), roots)
    ]
    for each in found:
        print(each)
    return bool(found)


def lock_file(name: str) -> Path:
    return ROOT / f"requirements-{name}.txt"


def read_lock(file: Path) -> list[Pin]:
    """Return the packages of a lock that `make lock` wrote."""
    return [
        Pin(Requirement(text.partition(" \\\n")[0]), text)
        for text in re.split(r"(?m)^(?=[A-Za-z0-9])", file.read_text("utf-8"))
        if not text.startswith("#")
    ]


def requirements_of(pin: Pin) -> Sequence[str]:
    """Return the requirements in the metadata of an installed package."""
    found = distribution(pin.name)
    if found.version != pin.version:
        raise PackageNotFoundError(f"{pin.name} {pin.version}")
    return found.requires or ()


def missing(
    lock: Iterable[Pin],
    roots: Iterable[str],
    requires: Requires = requirements_of,
) -> list[str]:
    """Return a sentence for each requirement that the lock does not meet."""
    found = {}
    for environment in ENVIRONMENTS:
        pins = pins_for(lock, environment)
        for name, needed in closure(pins, roots, environment, requires):
            if name not in pins:
                found[name] = f"no {name}, which is required"
            elif not needed.specifier.contains(pins[name].version, prereleases=True):
                found[name] = f"{name} {pins[name].version}, but {needed} is required"
            else:
                continue
            machine = environment["sys_platform"], environment["python_version"]
            found[name] += " (on {}, Python {})".format(*machine)
    return sorted(found.values())


def subset(lock: Iterable[Pin], roots: Iterable[str]) -> str:
    """Return the part of a lock that its roots need on this machine, as a lock."""
    environment = cast("Mapping[str, str]", default_environment())
    pins = pins_for(lock, environment)
    needed = closure(pins, roots, environment, requirements_of)
    return "".join(pins[name].text for name in sorted({name for name, _ in needed}))


def pins_for(lock: Iterable[Pin], environment: Mapping[str, str]) -> dict[str, Pin]:
    """Return the pins that an environment installs, by name."""
    return {pin.name: pin for pin in lock if is_for(pin.requirement, environment)}


def closure(
    pins: Mapping[str, Pin],
    roots: Iterable[str],
    environment: Mapping[str, str],
    requires: Requires,
) -> Iterator[tuple[str, Requirement]]:
    """Yield each requirement met on the way from the roots, with its canonical name."""
    pins = {OWN.name: OWN, **pins}
    seen = set()
    waiting = [Requirement(each) for each in roots]
    while waiting:
        needed = waiting.pop()
        name = canonicalize_name(needed.name)
        if name != OWN.name:
            yield name, needed
        for extra in ("", *needed.extras):
            if name not in pins or (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                lines = requires(pins[name])
            except PackageNotFoundError:
                continue
            waiting += [
                each
                for each in map(Requirement, lines)
                if is_for(each, environment, extra)
            ]


def is_for(
    requirement: Requirement, environment: Mapping[str, str], extra: str = ""
) -> bool:
    """Return whether a requirement's marker holds in an environment."""
    if requirement.marker is None:
        return not extra
    return requirement.marker.evaluate({**environment, "extra": extra})


if __name__ == "__main__":
    sys.exit(main())
