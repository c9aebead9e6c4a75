"""Who may import whom (the architecture), and what a protocol must never touch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.structure import circles, classes, comparisons, fields, imports, modules, parameters, statements

SOURCE = Path(__file__).parents[1] / "src" / "culm"
ALLOWED = {
    "errors": set(),
    "types": set(),
    "charts": set(),
    "staging": set(),
    "native": set(),
    "bamboo": {"errors", "native", "staging"},
    "results": {"errors", "staging"},
    "wire": {"types", "errors", "bamboo", "native"},
    "bushbaby": {"types", "errors", "bamboo", "ranges", "wire"},
    "transfer": {"types", "bamboo"},
    "intervals": {"types", "errors", "bamboo", "ranges", "transfer", "wire"},
    "proposals": {"types", "errors", "bamboo", "ranges", "transfer", "wire"},
    "ranges": {"types", "errors", "bamboo"},
    "negentropy": {"errors", "bamboo", "native"},
    "session": {"types", "errors", "bamboo", "ranges", "wire"},
    "store": {"native", "types", "errors", "bamboo", "ranges", "transfer", "negentropy", "staging"},
    "sealing": {"bamboo", "errors", "store", "types", "wire"},
    "testing": {"app", "bamboo", "errors", "node", "store", "types"},
    "spark": {
        "node",
        "native",
        "charts",
        "types",
        "errors",
        "bamboo",
        "ranges",
        "negentropy",
        "wire",
        "results",
        "staging",
        "store",
    },
    "conformance": {"types", "errors", "bamboo", "wire", "bushbaby", "intervals", "proposals"},
    "node": {
        "types",
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
    "app": {"types", "errors", "bamboo", "wire", "ranges", "store", "node", "sealing"},
    "views": {"types", "errors", "bamboo", "store", "node", "app"},
    "simulation": {
        "charts",
        "types",
        "errors",
        "bamboo",
        "ranges",
        "negentropy",
        "store",
        "node",
        "results",
        "testing",
    },
}
MOST_MODULES, MOST_FIELDS, MOST_PARAMETERS = 25, 15, 8
"""The most modules in a folder, fields of a class in a protocol's package, and parameters of an ``__init__``."""

MOST_LINES = 300  # of a module of the pipeline

SCHEMES = {"bushbaby", "intervals", "proposals", "culm"}
MOST_SCHEME_COMPARISONS = 5  # outside the one table of schemes (``culm.node.schemes``)

PROTOCOLS = ("bushbaby", "intervals", "proposals", "session", "negentropy", "ranges", "wire")
WITHOUT_IO = ("bamboo", "conformance", *PROTOCOLS)
FORBIDDEN = {"socket", "asyncio", "time", "random", "secrets", "sqlite3", "threading", "select", "ssl"}
HASHES_ASIDE = SOURCE / "bamboo" / "hashing.py"  # Its thread computes and does nothing else, and nobody can tell.


@cache  # several tests ask for the same modules
def imported_modules(path: Path) -> frozenset[str]:
    """All modules a file imports, wherever in it."""
    found: set[str] = set()
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def parts_imported(path: Path) -> set[str]:
    """The parts of Culm that a file imports."""
    dotted = (name.split(".") for name in imported_modules(path) if name.startswith("culm."))
    parts = {names[1] for names in dotted}
    return {part for part in parts if (SOURCE / part).is_dir() or (SOURCE / f"{part}.py").is_file()}


def test_imports_point_one_way() -> None:
    """A part imports only what the architecture lets it import."""
    for part, allowed in ALLOWED.items():
        files = [SOURCE / f"{part}.py"] if (SOURCE / f"{part}.py").is_file() else list((SOURCE / part).rglob("*.py"))
        assert files, part
        for file in files:
            assert parts_imported(file) - {part} <= allowed, file


def test_one_module_of_the_pipeline_has_sessions() -> None:
    """Of ``culm.spark`` only the feed of streams imports the node's sessions; the streams themselves read addresses."""
    found = {
        path.stem: {name.removeprefix("culm.node.") for name in imported_modules(path) if name.startswith("culm.node.")}
        for path in (SOURCE / "spark").rglob("*.py")
    }
    assert {"feed", "peers"} == {name for name, imported in found.items() if imported}
    assert {"network.urls", "network.urls.PeerUrl"} == found["peers"]


def test_rows_of_the_pipeline_have_names() -> None:
    """No row of ``culm.spark`` is a tuple of anything, and no cell of one is found by its number."""
    positional = re.compile(r"tuple\[(Any|object), \.\.\.\]|\b(row|item|pair|record)\[\d\]")
    texts = {path: path.read_text() for path in (SOURCE / "spark").rglob("*.py")}

    assert {} == {path: found for path, text in texts.items() if (found := positional.findall(text))}


@pytest.mark.slow
def test_the_package_needs_no_sibling() -> None:
    """What is installed imports nothing of the folders beside ``src``, which a wheel does not have."""
    siblings = {"bench", "crash", "docs", "examples", "fuzz", "release", "soak", "storm", "tests"}
    found = {module: {name.split(".")[0] for name in imported_modules(path)} for module, path in modules().items()}

    assert {} == {module: roots & siblings for module, roots in found.items() if roots & siblings}


def test_protocols_do_no_io() -> None:
    """The log and the protocols import nothing that reads clocks, sockets, randomness or stores."""
    for part in WITHOUT_IO:
        files = list((SOURCE / part).rglob("*.py"))
        assert files, part
        for file in files:
            roots = {name.split(".")[0] for name in imported_modules(file)}
            assert not roots & (FORBIDDEN - {"threading"} if file == HASHES_ASIDE else FORBIDDEN), file


STORE = SOURCE / "store"
OPENS_STORES = {  # where ``SQLiteStore`` is named, because a store is opened there; everywhere else the interface is
    "__init__",
    "app.node",
    "app.reading",
    "app.syncing",
    "cli.backup",
    "cli.reconcile",
    "simulation.sessions",
    "node.home",
    "node.storage.healing",
    "node.storage.source",
    "spark.source.feed",
    "node.status.reader",
    "testing.memory",
    "views.live",
}


def store_layers() -> dict[str, int]:
    """The height of each module of the store, as the package's docstring states the layers; 0 is the lowest."""
    docstring = ast.get_docstring(ast.parse((STORE / "__init__.py").read_text())) or ""
    lines = docstring.split("::\n")[1].strip().splitlines()
    rows = [line.split(":")[0].replace(" ", "").split(",") for line in lines]
    return {module: height for height, row in enumerate(reversed(rows)) for module in row}


def test_the_layers_of_the_store_name_each_module_once() -> None:
    """The docstring of ``culm.store`` names every module, and none twice or that is not there."""
    modules = {".".join(path.relative_to(STORE).with_suffix("").parts) for path in STORE.rglob("*.py")}
    assert {module for module in modules if not module.endswith("__init__")} == set(store_layers())
    docstring = ast.get_docstring(ast.parse((STORE / "__init__.py").read_text())) or ""
    named = [name for line in docstring.split("::\n")[1].strip().splitlines() for name in line.split(":")[0].split(",")]
    assert len(named) == len(store_layers())


def test_the_store_imports_downwards_only() -> None:
    """A module of the store imports only modules of lower layers, those for type annotations included."""
    layers = store_layers()
    for module, height in layers.items():
        for name in imported_modules(STORE / (module.replace(".", "/") + ".py")):
            parent, _, last = name.rpartition(".")
            is_facade = parent == "culm.store" and last not in layers and not (STORE / last).is_dir()
            assert not is_facade, f"{module} imports the facade"
            imported = name.removeprefix("culm.store.")
            if imported in layers:
                assert layers[imported] < height, f"{module} imports {imported}"


def test_stores_are_named_by_their_interface() -> None:
    """Outside the store, ``SQLiteStore`` is named only where a store is opened."""
    found = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in SOURCE.rglob("*.py")
        if STORE not in path.parents and "SQLiteStore" in path.read_text()
    }
    assert found == OPENS_STORES


def test_sql_names_the_states() -> None:
    """SQL in the store takes the states from their names; only the scripts of the schema have their numbers."""
    for path in set(STORE.rglob("*.py")) - {STORE / "schema.py"}:
        assert not re.search(r"state\s*(=|<>|IN)\s*\(?\d", path.read_text()), path


def test_importing_culm_needs_no_extras() -> None:
    """``import culm`` and the command line load neither Spark, Arrow nor numpy, and no HTTP server."""
    code = (
        "import sys, culm, culm.cli.command as command; command.Commands().loaded();"
        " extras = ('pyspark', 'pyarrow', 'numpy', 'aiohttp', 'prometheus_client', 'pyrage', 'zeroconf');"
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


def test_importing_the_simulation_loads_no_spark() -> None:
    """``culm.simulation`` loads neither Spark nor Arrow until there are tables to write."""
    code = (
        "import sys, culm.simulation; print([name for name in ('pyspark', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def too_many(found: dict[str, int], most: int) -> dict[str, int]:
    """What exceeds a limit."""
    return {name: count for name, count in found.items() if count > most}


@pytest.mark.slow
def test_no_import_circles() -> None:
    """No modules import one another in a circle, not even for type checking."""
    assert set() == circles(imports())


def test_circles_are_found(tmp_path: Path) -> None:
    """A circle is found through ``TYPE_CHECKING`` blocks, functions, and packages that pass names on."""
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("from p.one import One\nfrom p.alone import Alone\n")
    (package / "one.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.two import Two\n")
    (package / "two.py").write_text("def f():\n    from p import One, Alone\n")
    (package / "alone.py").write_text("import os\nimport p.leaf\nfrom p import leaf\n")
    (package / "leaf.py").touch()

    assert {frozenset({"p.one", "p.two"})} == circles(imports(tmp_path))
    assert {"p.leaf"} == imports(tmp_path)["p.alone"]


def test_modules_of_the_pipeline_are_short() -> None:
    """No module of ``culm.spark`` is longer than one reads at a sitting."""
    found = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in SOURCE.glob("spark/**/*.py")}

    assert 40 < len(found)
    assert {} == too_many(found, MOST_LINES)


def test_folders_can_be_overlooked() -> None:
    """No folder has more modules than one reads as a list."""
    folders = {path.parent for path in modules().values()}
    found = {
        str(folder.relative_to(SOURCE.parent)): sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in folders
    }

    assert {} == too_many(found, MOST_MODULES)


def test_classes_of_protocols_have_few_fields() -> None:
    """No class of a protocol has more fields than one keeps in mind."""
    found = {
        f"{module}.{one.name}": len(fields(one))
        for module, path in modules().items()
        if module.startswith(tuple(f"culm.{part}." for part in PROTOCOLS))
        for one in classes(path)
    }

    assert 100 < len(found)
    assert {} == too_many(found, MOST_FIELDS)


@pytest.mark.slow
def test_constructors_have_few_parameters() -> None:
    """No hand-written ``__init__`` has more parameters than one can read in a call; records have one that is made."""
    found = {f"{module}.{one.name}": parameters(one) for module, path in modules().items() for one in classes(path)}

    assert {} == too_many(found, MOST_PARAMETERS)


def test_what_is_counted() -> None:
    """Fields and parameters are counted in every form that they have."""
    text = """
class Some:
    kind: ClassVar[str]
    declared: int
    def __init__(self, one, /, two, *more, three, **rest):
        self.one, self.two = one, two
        self.three: int = three
        other.four = 4
    def later(self):
        self.five = 5
"""
    (some,) = (node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))

    assert {"declared", "one", "two", "three"} == fields(some)
    assert 5 == parameters(some)


def test_comparisons_are_counted(tmp_path: Path) -> None:
    """Equality, membership and ``case`` are comparisons; a literal elsewhere is none."""
    file = tmp_path / "some.py"
    file.write_text(
        'if a == "culm" or a not in ("x", "bushbaby") or a == "x":\n    match a:\n'
        '        case "intervals" | "proposals":\n            print("culm")\n'
    )

    assert 4 == comparisons(file, SCHEMES)


@pytest.mark.slow
def test_few_comparisons_with_schemes() -> None:
    """What differs between schemes stands in their table, not in branches everywhere."""
    found = sum(comparisons(path, SCHEMES) for path in modules().values())

    assert found <= MOST_SCHEME_COMPARISONS
