"""The setting ``verify`` and the variable ``CULM_VERIFY`` turn batches of signatures off (docs/configuration.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from culm import native
from culm.bamboo import verification
from culm.testing import build_log
from tests.nativecalls import accepted_in_batches

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.culm import Culm

pytestmark = pytest.mark.skipif(native.core is None, reason="the native core is not built (make native)")
_SETTING = 'verify = "one-by-one"\n'
_CALL = """
from culm import native
from culm.bamboo import are_authentic
from culm.testing import build_log

accepted, calls = native.core.accepted, []
native.core.accepted = lambda entries: calls.append(1) or accepted(entries)
assert all(are_authentic(build_log(20).entries))
print(len(calls))
"""


@pytest.mark.parametrize("setting", ["", _SETTING])
def test_the_setting_counts_for_commands(
    culm: Culm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """``culm import`` and ``culm verify`` ask the native core for nothing if the file says so, else for batches."""
    monkeypatch.setattr(verification, "_batches", True)  # as it was, at the end
    log, file = build_log(40), tmp_path / "log"
    file.write_bytes(b"".join(entry.encoded + log.payloads[entry.hash] for entry in log.entries))
    (culm.home / "culm.toml").write_text(setting)
    for call in (("import", file), ("verify",)):
        monkeypatch.setattr(verification, "_batches", True)
        with monkeypatch.context() as patch:
            sizes = accepted_in_batches(patch)
            result = culm(*call)
        assert 0 == result.code, result.err
        assert bool(setting) == (sizes == []), call


@pytest.mark.parametrize(("call", "wanted"), [("sync", f"{64 * '0'}/0"), ("fetch", f"{64 * '0'}/0/1")])
def test_the_setting_counts_for_exchanges(
    culm: Culm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, wanted: str
) -> None:
    """The setting is in force before ``culm sync`` and ``culm fetch`` call anybody: here, an address of no listener."""
    monkeypatch.setattr(verification, "_batches", True)
    (culm.home / "culm.toml").write_text(_SETTING)
    sizes = accepted_in_batches(monkeypatch)
    assert 3 == culm(call, f"intervals+unix:{tmp_path}/nothing", wanted).code

    assert [True] * 20 == verification.are_authentic(build_log(20).entries)
    assert [] == sizes


@pytest.mark.parametrize(("value", "calls"), [("one-by-one", "0"), ("batches", "1"), ("", "1")])
def test_the_variable_counts_for_every_process(value: str, calls: str) -> None:
    """``CULM_VERIFY=one-by-one`` turns batches off where no settings are read."""
    environment = os.environ | {"CULM_VERIFY": value}
    told = subprocess.run([sys.executable, "-c", _CALL], env=environment, capture_output=True, text=True, check=True)

    assert calls == told.stdout.strip()
