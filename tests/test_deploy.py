"""The files in ``deploy/``: the unit and the container file say what they should, the health check tells the truth."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from culm.cli.command import make_parser

DEPLOY = Path(__file__).parents[1] / "deploy"
UNIT = (DEPLOY / "culm.service").read_text()
CONTAINER = (DEPLOY / "Containerfile").read_text()


def settings() -> dict[str, list[str]]:
    """What the unit sets, all sections together."""
    found: dict[str, list[str]] = {}
    for line in UNIT.splitlines():
        if line and not line.startswith(("#", "[")):
            name, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_is_hardened() -> None:
    """It runs as a user of its own, may write its own folder only, and gets time to stop well."""
    found = settings()
    assert found["User"] == ["culm"]
    assert found["CapabilityBoundingSet"] == [""]
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert found[name] == ["yes"], name
    assert (found["ProtectSystem"], found["UMask"]) == (["strict"], ["0077"])
    assert found["Restart"] == ["on-failure"]
    assert (found["KillSignal"], int(found["TimeoutStopSec"][0]) >= 30) == (["SIGTERM"], True)
    assert [line for line in UNIT.splitlines() if line.startswith("[")] == ["[Unit]", "[Service]", "[Install]"]


@pytest.mark.parametrize("source", ["unit", "container"])
def test_the_command_lines_are_ours(source: str) -> None:
    """What they start is a command of the command line."""
    if source == "unit":
        words = settings()["ExecStart"][0].split()
        assert words[0].endswith("/culm")
    else:
        (command,) = re.findall(r"^CMD \[(.*)\]$", CONTAINER, re.MULTILINE)
        words = ["culm", *re.findall(r'"([^"]*)"', command)]
    arguments = make_parser().parse_args(words[1:])
    assert arguments.run.__name__ == "_serve"
    assert arguments.config == "/etc/culm/culm.toml"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """``systemd-analyze verify`` has nothing to say, once the program is one that is there."""
    unit = tmp_path / "culm.service"
    unit.write_text(UNIT.replace("/usr/local/bin/culm", sys.executable))
    result = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    if "Failed to" in result.stderr and "culm.service" not in result.stderr:
        pytest.skip("systemd-analyze cannot work here")
    about_us = [line for line in result.stderr.splitlines() if "culm.service" in line]
    assert about_us == []


def test_the_container_is_not_root() -> None:
    """The last stage runs as a numbered user, checks its health, stops on SIGTERM, and copies only what is there."""
    last = CONTAINER.split("\nFROM ")[-1]
    assert re.search(r"^USER [1-9][0-9]*:[1-9][0-9]*$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "STOPSIGNAL SIGTERM" in last
    for sources in re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER, re.MULTILINE):
        for source in sources.split():
            assert (DEPLOY.parent / source).exists(), source


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" and self.server.well else 503)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_the_health_check(tmp_path: Path) -> None:
    """0 where the page says well or there is none; 1 where it does not, where nobody answers, or the file is wrong."""
    config = tmp_path / "culm.toml"

    def check() -> int:
        return subprocess.run(
            [sys.executable, DEPLOY / "healthcheck.py", config], capture_output=True, check=False, timeout=30
        ).returncode

    assert check() == 0
    with HTTPServer(("127.0.0.1", 0), _Answer) as server:
        server.well = True  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config.write_text(f'http = "0.0.0.0:{server.server_port}"\n')
        assert check() == 0
        server.well = False  # type: ignore[attr-defined]
        assert check() == 1
        server.shutdown()
    assert check() == 1
    config.write_text("htp = 3\n")
    assert check() == 1


def steps(workflow: str) -> list[dict[str, str]]:
    """The steps of the only job of a workflow."""
    (job,) = yaml.safe_load((DEPLOY.parent / ".github" / "workflows" / workflow).read_text())["jobs"].values()
    found: list[dict[str, str]] = job["steps"]
    return found


def test_the_hosted_checks_are_the_local_ones() -> None:
    """What a host runs for each change is ``.ci/run``, and nothing that stands in the workflow alone."""
    assert ["bash .ci/run"] == [step["run"] for step in steps("ci.yml") if "run" in step]


def test_wheels_are_built_as_make_native_builds_them() -> None:
    """The workflow for wheels has the lock and the options of ``make native``, and checks verdicts."""
    commands = "\n".join(step["run"] for step in steps("wheels.yml") if "run" in step)
    for path in re.findall(r"(?:requirements|native)/[\w.]+", commands.replace("build/native", "")):
        assert (DEPLOY.parent / path).is_file(), path
    made = (DEPLOY.parent / "Makefile").read_text()
    for part in (
        "--require-hashes -r requirements/native.lock",
        "--release --locked --manifest-path native/Cargo.toml",
    ):
        assert part in commands
        assert part in made
    assert "wrong_verdicts()" in commands


def test_the_package_is_built_as_a_release_is() -> None:
    """The workflow for the package runs ``make release`` without a key, and needs the bundle in the wheel."""
    found = steps("package.yml")
    (command, look) = [step["run"] for step in found if "run" in step]
    assert re.fullmatch(r'make release RELEASE_ARGS="--unsigned [a-z -]+"', command)
    assert "-m tests.wheel --bundle dist/" in look
    (version,) = [step["with"]["node-version"] for step in found if "setup-node" in step.get("uses", "")]  # type: ignore[index]
    engines = json.loads((DEPLOY.parent / "web" / "package.json").read_text())["engines"]["node"]
    assert f">={version}" == engines
