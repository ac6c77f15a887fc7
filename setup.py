"""Build wheels: their files in share/, and on request a compiled core; pyproject.toml
has everything else.

`pip wheel .` and `pip install .` give pure Python for every platform, without a C
compiler. Manual pages and completion files are generated. Environment variables:

    COTERIE_COMPILED=1     compile the modules of COMPILED to C with mypyc
    COTERIE_OPT_LEVEL=0    optimization level of the C compiler; default 2
    COTERIE_BUILD=PATH     directory for generated source; default build/mypyc

docs/decisions/0015 has the reasons.
"""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, ExecError, PlatformError

ROOT = Path(__file__).resolve().parent
COMPILE = os.environ.get("COTERIE_COMPILED", "") not in ("", "0")
BUILD = Path(os.environ.get("COTERIE_BUILD", ROOT / "build" / "mypyc")).resolve()
MYPY = "mypy>=2.4.1,<2.5"

# Packages below src/coterie; a new module of them is compiled too.
COMPILED = (
    "wire",
    "broker/coordinator",
    "broker/log",
    "broker/protocol",
    "broker/runtime",
)
# Modules that stay interpreted, with the reason.
INTERPRETED = (
    "wire/schema.py",  # mypyc compiles no metaclass
    "wire/messages",  # declarations, which the metaclass reads
    "broker/coordinator/records.py",  # likewise
    "broker/coordinator/share_partition/records.py",  # likewise
    "broker/runtime/transactions.py",  # tests run it with a fake runtime
)
# Classes that the gateway, tests and simulations subclass; mypyc refuses subclasses of
# others.
SUBCLASSED = {
    "broker/coordinator/shard.py": ("Shard",),
    "broker/log/journal.py": ("JournalLog",),
    "broker/log/log.py": ("Log", "StagedWrite"),
    "broker/log/memory.py": ("MemoryLog",),
    "broker/runtime/durability.py": ("Durability",),
    "broker/runtime/loader.py": ("Loader",),
    "broker/runtime/snapshots.py": ("Snapshots",),
}
HINT = "without COTERIE_COMPILED=1 the wheel is pure Python"


def compiled_extensions() -> list[Extension]:
    """Copy the source to BUILD, and translate it to C."""
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        raise SystemExit(f"compiling needs {MYPY}: {error}; {HINT}") from None
    source, target = BUILD / "src", BUILD / "c"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "coterie", source / "coterie")
    allow_subclasses(source)
    back = Path.cwd()
    os.chdir(source)  # tracebacks name files relative to here
    try:
        extensions = mypycify(
            [
                f"--cache-dir={BUILD / 'cache'}",
                "--config-file=",
                "--ignore-missing-imports",
                *(str(file.relative_to(source)) for file in modules(source)),
            ],
            opt_level=os.environ.get("COTERIE_OPT_LEVEL", "2"),
            debug_level="0",
            multi_file=True,
            target_dir=str(target),
            group_name="coterie",
        )
    finally:
        os.chdir(back)
    for extension in extensions:
        # egg_info refuses absolute paths.
        extension.sources = [os.path.relpath(each, ROOT) for each in extension.sources]
        # Another version of the C compiler may have other warnings.
        extension.extra_compile_args = [
            each for each in extension.extra_compile_args if each != "-Werror"
        ]
    return extensions


def modules(source: Path) -> list[Path]:
    """Return the files of COMPILED without those of INTERPRETED."""
    core = source / "coterie"
    skipped = {core / name for name in INTERPRETED}
    return [
        file
        for name in COMPILED
        for file in sorted((core / name).rglob("*.py"))
        if file.stat().st_size and not {file, *file.parents} & skipped
    ]


def allow_subclasses(source: Path) -> None:
    """Mark the classes of SUBCLASSED in the copied source."""
    # mypyc reads the decorator and does not execute it, nor this import.
    future = "from __future__ import annotations\n"
    header = (
        f"{future}from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from mypy_extensions import mypyc_attr\n"
    )
    mark = "@mypyc_attr(allow_interpreted_subclasses=True)"
    for name, classes in SUBCLASSED.items():
        file = source / "coterie" / name
        text = file.read_text("utf-8").replace(future, header, 1)
        for each in classes:
            text, count = re.subn(rf"(?m)^class {each}\b", rf"{mark}\n\g<0>", text)
            assert count == 1, f"{name} has no class {each}"
        file.write_text(text, "utf-8")


class BuildExt(build_ext):
    """build_ext that compiles the files of an extension in parallel."""

    def build_extensions(self) -> None:
        compile_files = self.compiler.compile

        def compile_in_parallel(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                parts = pool.map(lambda file: compile_files([file], **options), sources)
                return [built for part in parts for built in part]

        self.compiler.compile = compile_in_parallel
        try:
            super().build_extensions()
        except (CompileError, ExecError, PlatformError) as error:
            raise SystemExit(f"the C compiler failed: {error}; {HINT}") from None


def share_files() -> list[tuple[str, list[str]]]:
    """Generate the files of share/; return them in setuptools' form, by directory."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    try:
        write_share = import_module("tools.man_pages").write_share
    finally:
        del sys.path[:2]
    source = ROOT / "build" / "share"
    shutil.rmtree(source, ignore_errors=True)
    by_directory = {}
    for file in write_share(source):
        target = f"share/{file.parent.relative_to(source).as_posix()}"
        by_directory.setdefault(target, []).append(os.path.relpath(file, ROOT))
    return list(by_directory.items())


# setuptools runs this file several times: only the build of a wheel has to generate.
is_wheel = "bdist_wheel" in sys.argv
setup(
    ext_modules=compiled_extensions() if COMPILE and is_wheel else [],
    data_files=share_files() if is_wheel else [],
    cmdclass={"build_ext": BuildExt},
    setup_requires=[MYPY] if COMPILE else [],
)
