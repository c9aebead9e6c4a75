"""The notebook in ``examples/`` runs from its first cell to its last, and nothing in it complains."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "trust.ipynb"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)  # a kernel and a Spark session, on a machine that may have other work
def test_the_notebook_runs_quietly(tmp_path: Path) -> None:
    """``nbconvert`` runs the notebook without a line on stderr, its own or a cell's; the fork and the damage show.

    Its logs are long, so that Spark ends a worker that has not yet written all when ``show(2)`` has its rows.
    """
    # Sockets in the file system: on TCP the kernel warns that others on the machine could listen.
    patience = ["--ExecutePreprocessor.startup_timeout=300", "--ExecutePreprocessor.timeout=500"]
    options = ["--KernelManager.transport=ipc", *patience, "--log-level=WARN"]
    # Their names are relative, so nbconvert and the kernel must have the same folder: that of the notebook.
    shutil.copy(NOTEBOOK, tmp_path)
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", NOTEBOOK.name, *options]
    done = subprocess.run([*command, "--output", "done"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (0, "") == (done.returncode, done.stderr)

    book = json.loads((tmp_path / "done.ipynb").read_text())
    outputs = [output for cell in book["cells"] for output in cell.get("outputs", [])]
    assert set() == {output["name"] for output in outputs if output["output_type"] == "stream"} - {"stdout"}
    shown = "\n".join("".join(output.get("text", output.get("data", {}).get("text/plain", ""))) for output in outputs)
    for told in ("only showing top 2 rows", "fork at 20", "|mismatch|      1|"):
        assert told in shown


def test_the_notebook_is_kept_without_results() -> None:
    """Results would be those of another day and version, and every run would change the file."""
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert [([], None)] * len(cells) == [(cell["outputs"], cell["execution_count"]) for cell in cells]
