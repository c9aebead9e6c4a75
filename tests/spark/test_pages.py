"""The pages on Spark do what they say: their blocks run, and the SQL that cannot run here is SQL to Spark."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import pytest

from bench.sparkcluster import spark_environment, spark_home
from tests.docs.pages import Reader, blocks
from tests.docs.warm import started

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SET = {"JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON"}
DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(DOCS.glob("spark*.md"))


def is_run(page: Path) -> bool:
    """Whether a page has blocks to run."""
    return any(
        block.kind in {"sh", "python"} and not block.what.startswith("not here") and block.mark != "file"
        for block in blocks(page)
    )


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the ``culm`` command, warm, and with programs of Spark that find this interpreter and Java."""
    needed = "\n".join(
        f"export {name}={shlex.quote(value)}" for name, value in spark_environment().items() if name in SET
    )
    with started(tmp_path_factory.mktemp("programs")) as folder:
        for name in ("spark-submit", "spark-pipelines"):
            program = folder / name
            program.write_text(f'#!/bin/sh\n{needed}\nexec {shlex.quote(str(spark_home()))}/bin/{name} "$@"\n')
            program.chmod(0o755)
        yield folder


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.usefixtures("sparing_programs")
@pytest.mark.timeout(600)  # each page starts a session of its own, on a machine that may have other work
@pytest.mark.parametrize("page", [page for page in PAGES if is_run(page)], ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command ends as the page says, and every piece of Python runs, as parts of one program."""
    monkeypatch.setenv("EXAMPLES", str(DOCS.parent / "examples"))
    home = tmp_path / "home"
    home.mkdir()
    assert Reader(page, home, programs, one_program=True, seconds=500).read()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sql_is_sql(page: Path, spark: SparkSession) -> None:
    """Spark can parse each SQL block, those for dbt with names in place of its references."""
    names = {"source": lambda *parts: ".".join(parts), "ref": str, "config": lambda **_: "", "this": "this"}
    for block in blocks(page):
        if block.kind == "sql+jinja":
            text = jinja2.Template(block.text).render(is_incremental=lambda: True, **names)
            spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
