"""Where each module is tested: in a test module of its name, or where the table says.

The test module of ``src/culm/store/files.py`` is ``tests/store/test_files.py``, or several of that name with something
behind it, such as ``test_files_model.py``. Many modules are parts of one thing, as the sides of a protocol's connection
are, and are tested through it; ``TESTED_IN`` says where. An entry that is not needed any more fails.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"

_NAME = re.compile(r"[a-z_]+(\.[a-z_]+)*")

TESTED_IN = {
    "app/test_node": "app.names app.opening",
    "app/test_held": "node.held",
    "app/test_peerevents": "node.peerevents",
    "sealing/test_header": "sealing.mark",
    "bamboo/test_identity": "bamboo.keyfile",
    "bamboo/test_entry": "errors types",
    "test_native": "bamboo.known",
    "bushbaby/test_connection": "bushbaby.events bushbaby.greeting bushbaby.handshake bushbaby.messages"
    " bushbaby.options",
    "bushbaby/test_grouping": "bushbaby.outbox",
    "bushbaby/test_secretbox": "bushbaby.salsa_tail",
    "cli/test_local": "cli.command cli.exchange cli.identity cli.logs cli.output",
    "cli/test_network": "cli.node cli.nodeoptions cli.people.policy node.home node.sync",
    "views/test_file": "views.undo views.view",
    "cli/shell/test_manual": "cli.shell.described",
    "cli/test_startup": "cli.arguments cli.table",
    "conformance/test_intervals": "conformance.check conformance.intervals.talk conformance.intervals.violations"
    " conformance.intervals.with_log conformance.intervals.without_log",
    "conformance/test_proposals": "conformance.proposals.talk conformance.proposals.violations"
    " conformance.proposals.with_log conformance.proposals.without_log",
    "intervals/test_connection": "intervals.events intervals.limits intervals.proofs intervals.requester"
    " intervals.states intervals.turns intervals.agreement intervals.ours intervals.outbox"
    " intervals.theirs",
    "intervals/test_literal": "intervals.branch",
    "intervals/test_plan_model": "intervals.interval intervals.planner intervals.progress intervals.stream",
    "intervals/test_vectors": "intervals.codec intervals.items intervals.messages",
    "negentropy/test_properties": "negentropy.array negentropy.codec negentropy.harness negentropy.reconciler"
    " negentropy.storage",
    "node/bushbaby/test_session": "node.bushbaby.intake node.interests.policy node.sessions.session"
    " node.sessions.speaker",
    "node/culm/test_interests": "node.interests.choices",
    "node/network/test_websocket": "node.network.webaccess",
    "node/culm/test_session": "node.culm.claims node.culm.offers node.culm.streams node.network.tls"
    " node.network.transport node.network.urls node.schemes node.service node.surroundings",
    "node/intervals/test_follower_model": "node.intervals.followed node.intervals.spans",
    "node/intervals/test_session": "node.intervals.questions node.sessions.pointtopoint",
    "node/sessions/test_forks": "node.interests.doubts",
    "node/proposals/test_session": "node.proposals.options",
    "node/sharing/test_peering": "node.network.backoff node.sharing.penalties node.sharing.rates node.sharing.slots",
    "node/sharing/test_turns": "node.sharing.memory node.sharing.threads node.storage.worker",
    "node/status/test_overview": "node.roster",
    "node/status/test_server": "node.status.crowd node.status.events node.status.guard node.status.queries"
    " node.status.reader",
    "node/test_configuration": "node.config node.settings.kinds node.settings.lines node.settings.reading"
    " node.settings.schema",
    "proposals/test_consequences": "proposals.exchange proposals.register proposals.receiving proposals.scope"
    " proposals.states",
    "proposals/test_plan_model": "proposals.sequence proposals.wishes",
    "proposals/test_rules": "proposals.bodies proposals.checks proposals.connection proposals.control proposals.data"
    " proposals.endpoint proposals.events proposals.incoming proposals.limits proposals.sending",
    "proposals/test_vectors": "proposals.messages proposals.setup",
    "ranges/test_laws": "ranges.algebra ranges.exactness ranges.model ranges.onbytes ranges.paths",
    "ranges/test_vectors": "ranges.encoding",
    "session/test_connection": "session.events session.handshake session.interests session.limits session.states",
    "simulation/test_simulate": "simulation.chance simulation.costs simulation.engine simulation.plots"
    " simulation.results simulation.scenario simulation.sessions simulation.sweep cli.simulate",
    "simulation/test_network": "testing.simulation.disk testing.simulation.host testing.simulation.loop"
    " testing.simulation.network testing.simulation.pipe testing.simulation.transport",
    "spark/runtime/test_engine": "spark.runtime.onspark",
    "spark/runtime/test_provenance": "spark.runtime.output",
    "spark/storage/test_publishing": "spark.runtime.folders",
    "spark/verification/test_job": "spark.runtime.daemon spark.runtime.shell spark.verification.verdicts",
    "spark/test_plan": "spark.plan.balance spark.plan.given spark.plan.job spark.plan.rows"
    " spark.plan.split spark.plan.sweep",
    "spark/reconciliation/test_reconcile": "spark.reconciliation.fingerprint",
    "spark/test_report": "spark.report.job spark.report.source spark.report.steps",
    "spark/test_report_parts": "spark.report.numbers spark.report.page spark.report.stretches",
    "spark/test_select": "spark.select.bundles"
    " spark.select.items spark.select.job spark.select.pieces"
    " spark.select.requests",
    "spark/following/test_query": "spark.following.delivery",
    "spark/source/test_peers": "spark.source.feed spark.source.spool",
    "spark/source/test_source": "spark.source.rows",
    "spark/verification/test_steps": "spark.batches.arrays spark.runtime.columns"
    " spark.verification.gather spark.verification.merge spark.batches.pack spark.reading.entries"
    " spark.verification.authentic spark.verification.segment",
    "store/test_add": "store.ingest store.logview store.sqlite testing.builders",
    "store/test_damage": "store.values",
    "store/test_database": "store.opening store.schema",
    "store/test_exchange": "store.entries store.logs",
    "store/test_news": "store.copying",
    "store/payloads/test_large": "store.payloads.pieces",
    "store/payloads/test_payloads": "store.payloads.sink",
    "store/recordindex/test_recordindex": "store.recordindex.compare store.recordindex.manifest"
    " store.recordindex.storage store.recordindex.writer",
    "store/records/test_views": "store.records.index store.records.sums",
    "node/sessions/test_arrivals": "node.sessions.storing",
}
"""Test modules with the modules of ``culm`` they test beside the one they are named after."""


def modules() -> dict[str, Path]:
    """All modules of ``src`` that hold code of their own, by name without ``culm``."""
    return {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removeprefix("culm."): path
        for path in SOURCE.rglob("*.py")
        if not path.stem.startswith("__")
    }


def namesakes(name: str) -> list[Path]:
    """The test modules that are named after a module."""
    *folders, stem = name.split(".")
    found = TESTS.joinpath(*folders).glob(f"test_{stem}*.py")
    return [path for path in found if path.stem == f"test_{stem}" or path.stem.startswith(f"test_{stem}_")]


@cache
def imports(path: Path) -> frozenset[Path]:
    """The modules of ours that a file imports, in whatever place, with the packages they are in.

    Some are loaded by their name: the commands by ``culm.cli.command``, and what Spark starts.
    """
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            names = [node.value, ".".join((*path.relative_to(TESTS.parent).parts[1:-1], node.value))]
        else:
            continue
        for name in names:
            found |= files_of(name)
    return frozenset(found)


@cache  # most names stand in hundreds of files
def files_of(name: str) -> frozenset[Path]:
    """The files of a module of ours, its packages included; none if it is not ours."""
    found: set[Path] = set()
    parts = name.split(".")
    for root in (SOURCE, TESTS.parent):
        places = (root.joinpath(*parts[: end + 1]) for end in range(len(parts)))
        for place in takewhile(Path.exists, (p if p.is_dir() else p.with_suffix(".py") for p in places)):
            found.add(place / "__init__.py" if place.is_dir() else place)
    return frozenset(path for path in found if path.is_file())


def reaches(start: Path) -> set[Path]:
    """Every module of ours that comes with a file, over any number of imports."""
    seen, waiting = {start}, [start]
    while waiting:
        new = imports(waiting.pop()) - seen
        seen |= new
        waiting += new
    return seen


def test_each_module_is_tested_somewhere() -> None:
    """A module has a test module of its name or stands in the table, once, and not in both."""
    listed = [name for names in TESTED_IN.values() for name in names.split()]
    assert sorted(listed) == sorted(set(listed))
    with_namesake = {name for name in modules() if namesakes(name)}
    assert sorted(modules().keys() - with_namesake) == sorted(listed)


@pytest.mark.slow
def test_the_table_says_what_is_there() -> None:
    """A test module of the table is there, and what it imports leads to the modules that it is said to test."""
    known = modules()
    for test, names in TESTED_IN.items():
        path = TESTS / f"{test}.py"
        assert path.is_file()
        reached = reaches(path)
        assert [name for name in names.split() if known[name] not in reached] == [], test
