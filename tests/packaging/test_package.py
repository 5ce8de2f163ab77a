"""The wheel holds one top-level package with every sub-package, and starting it is cheap."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("agent", "webhook", "scheduler", "common")


def packages_in_tree() -> set[str]:
    folders = (path.parent for source in SOURCES for path in (ROOT / source).rglob("__init__.py"))
    return {"kubenexus." + ".".join(folder.relative_to(ROOT).parts) for folder in folders}


def packages_in_setup() -> set[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return set(setup["options"]["packages"].split())


def test_setup_cfg_lists_every_package_of_the_tree() -> None:
    assert packages_in_setup() == packages_in_tree()


def test_every_module_stands_in_a_package() -> None:
    modules = {path.parent for source in SOURCES for path in (ROOT / source).rglob("*.py")}
    assert all((folder / "__init__.py").exists() for folder in modules)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a copy: a build folder left in the tree would put modules into the wheel that are long gone.
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return next(out.glob("*.whl"))


def test_wheel_has_one_top_level_package_and_every_file(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"kubenexus"}
    files = (path for source in SOURCES for path in (ROOT / source).rglob("*.*") if path.suffix != ".pyc")
    assert {f"kubenexus/{path.relative_to(ROOT)}" for path in files} <= set(names)


@pytest.mark.parametrize("words", [["--help"], ["demo", "--help"]], ids=" ".join)
def test_help_loads_none_of_the_heavy_libraries(words: list[str]) -> None:
    script = (
        "import sys; from kubenexus.common.cli import main; code = main(sys.argv[1:]);"
        "heavy = {'numpy', 'flask', 'kubernetes', 'pynvml'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_domain_names_stand_only_in_the_vocabulary() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{number}"
        for source in (*SOURCES, "hack")
        for path in (ROOT / source).rglob("*.py")
        if path != ROOT / "common" / "vocabulary.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"kubenexus\.io", line)
    ]
    assert not offenders
