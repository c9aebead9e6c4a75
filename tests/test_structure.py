"""Who may import whom (the architecture), and what a protocol must never touch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "culm"
ALLOWED = {
    "errors": {"bamboo"},
    "staging": set(),
    "bamboo": {"errors", "staging"},
    "wire": {"errors", "bamboo"},
    "bushbaby": {"errors", "bamboo", "ranges", "wire"},
    "transfer": {"bamboo"},
    "intervals": {"errors", "bamboo", "ranges", "transfer", "wire"},
    "proposals": {"errors", "bamboo", "ranges", "transfer", "wire"},
    "ranges": {"errors", "bamboo"},
    "negentropy": {"errors", "bamboo"},
    "session": {"errors", "bamboo", "ranges", "wire"},
    "store": {"errors", "bamboo", "ranges", "negentropy", "staging"},
    "testing": {"errors", "app", "ranges", "bamboo", "bushbaby", "intervals", "node", "spark", "store", "transfer"},
    "spark": {
        "errors",
        "bamboo",
        "ranges",
        "negentropy",
        "wire",
        "bushbaby",
        "intervals",
        "proposals",
        "store",
        "transfer",
    },
    "node": {
        "errors",
        "bamboo",
        "wire",
        "bushbaby",
        "intervals",
        "proposals",
        "session",
        "negentropy",
        "ranges",
        "staging",
        "store",
        "transfer",
    },
    "app": {"errors", "bamboo", "wire", "ranges", "store", "node"},
}
WITHOUT_IO = ("bamboo", "wire", "bushbaby", "intervals", "proposals", "session", "negentropy", "ranges")
FORBIDDEN = {"socket", "asyncio", "time", "random", "secrets", "sqlite3", "threading", "select", "ssl"}


def imported_modules(path: Path) -> set[str]:
    """All modules a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def parts_imported(path: Path) -> set[str]:
    """The parts of Culm that a file imports."""
    dotted = (name.split(".") for name in imported_modules(path) if name.startswith("culm."))
    parts = {names[1] for names in dotted}
    return {part for part in parts if (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").is_file()}


@pytest.mark.parametrize("part", ALLOWED)
def test_imports_point_one_way(part: str) -> None:
    """A part imports only what the architecture lets it import."""
    files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").is_file() else list((SOURCE / part).rglob("*.py"))
    assert files
    for file in files:
        assert parts_imported(file) - {part} <= ALLOWED[part], file


@pytest.mark.parametrize("part", WITHOUT_IO)
def test_protocols_do_no_io(part: str) -> None:
    """The log and the protocols import nothing that reads clocks, sockets, randomness or stores."""
    for file in (SOURCE / part).rglob("*.py"):
        roots = {name.split(".")[0] for name in imported_modules(file)}
        assert not roots & FORBIDDEN, file


def test_importing_culm_needs_no_extras() -> None:
    """``import culm`` and the command line load neither Spark, Arrow nor numpy, and no HTTP server."""
    code = (
        "import sys, culm, culm.cli.command as command; command.make_parser();"
        " extras = ('pyspark', 'pyarrow', 'numpy', 'aiohttp', 'prometheus_client');"
        " print([name for name in extras if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_importing_culm_is_light() -> None:
    """``import culm`` loads no node: neither asyncio nor TLS nor a protocol, until ``culm.Node`` is asked for."""
    code = (
        "import sys, culm; parts = ('asyncio', 'ssl', 'cryptography', 'culm.node', 'culm.app', 'culm.bushbaby');"
        " print([name for name in parts if name in sys.modules]);"
        " print(culm.Node.__name__, 'culm.node' in sys.modules, 'Node' in dir(culm))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:2] == ["[]", "Node True True"]


def test_importing_the_pipeline_loads_no_spark() -> None:
    """``culm.spark`` and its parts load neither Spark nor Arrow until there is something to do."""
    code = (
        "import sys, culm.spark, culm.spark.plan, culm.spark.report, culm.spark.select, culm.spark.simulate;"
        " print([name for name in ('pyspark', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
