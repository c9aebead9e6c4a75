"""``culm`` without a command: where one is, and what one could do next.

It is the first thing that people type, so it answers the questions in the order in which they come: which home, who am
I here, what is in it, whom does it talk to, and now what? It counts logs and reads none, so that a large home takes no
longer than an empty one.
"""

import argparse
from dataclasses import asdict
from typing import Any

from culm.cli.arguments import home_option
from culm.cli.output import counted, print_result
from culm.node.home import Home
from culm.wire.places import author_text, clump_name


def run(arguments: argparse.Namespace) -> int:
    """Print it; the exit code."""
    home = Home.find(arguments.home)
    culm = home_option(arguments)
    if not home.store_path.exists() and not home.identity_names():
        nexts = [
            (f"{culm} init", "make a home here"),
            (f"{culm} join URL", "take an invitation, and receive what is shared"),
            ("culm demo", "see what Culm does, in a minute, without leaving anything behind"),
            ("culm --help", "all commands"),
        ]
        place = f"home    {home.path} (not made yet)"
        print_result(arguments, {"home": str(home.path), "exists": False}, place, *_next(nexts))
        return 0
    home.check()
    found = _found(home, arguments)
    print_result(arguments, found, *_lines(found), *_next(_steps(found, culm)))
    return 0


def _found(home: Home, arguments: argparse.Namespace) -> dict[str, Any]:
    own = {name: home.identity_public(name) for name in home.identity_names()}
    settings = home.settings(arguments.config)
    with home.store(read_only=True) as store:
        survey = store.survey()
        totals = survey.totals()
        mine = sum(survey.logs(authors=(key, key), limit=0)[0] for key in set(own.values()))
    followed = None if settings.clump is None else home.policy_file.load(settings.clump).interests
    return {
        "home": str(home.path),
        "exists": True,
        "identities": {name: author_text(key) for name, key in own.items()},
        "default": _default(home),
        "own_logs": mine,
        **asdict(totals),
        "clump": None if settings.clump is None else clump_name(settings.clump),
        "follows": None if followed is None else len(followed),
        "listen": [str(url) for url in settings["listen"]],
        "peers": [peer.name or str(peer.url) for peer in settings.peers],
    }


def _default(home: Home) -> str | None:
    name = home.identity_name(None)
    return name if name in home.identity_names() else None


def _lines(found: dict[str, Any]) -> list[str]:
    keys, default = found["identities"], found["default"]
    others = len(keys) - (default in keys)
    author = f"{keys[default]} ({default})" if default else "none is the default"
    if others:
        author += f", and {counted(others, 'more identity')}"
    held = f"{found['own_logs']:,} of yours, {found['logs'] - found['own_logs']:,} of others"
    lines = [
        f"home    {found['home']}",
        f"author  {author}",
        f"logs    {held}: {counted(found['entries'], 'entry')}, {counted(found['payloads'], 'payload')}",
    ]
    lines += [
        f"        {counted(found[what], noun)}: {advice}"
        for what, noun, advice in (
            ("forked", "forked log", "culm logs says which"),
            ("damaged", "damaged payload", "culm doctor says more"),
        )
        if found[what]
    ]
    count = found["follows"]
    follows = "everything" if count is None else "1 author or log" if count == 1 else f"{count} authors or logs"
    lines.append(f"clump   {found['clump']}, following {follows}" if found["clump"] else "clump   none is configured")
    lines.append("peers   " + (", ".join(found["peers"]) or "none is configured"))
    return lines


def _steps(found: dict[str, Any], culm: str) -> list[tuple[str, str]]:
    """What one could do next: first what nobody does twice."""
    clump = "" if found["clump"] else " --clump NAME"
    steps = []
    if not found["identities"]:
        steps.append((f"{culm} identity new default", "make an identity, to publish with"))
    elif not found["own_logs"]:
        steps.append((f'{culm} append 1 --text "first light"', "publish an entry"))
    if found["peers"]:
        steps.append((f"{culm} serve{clump}", "stay connected to your peers"))
    elif found["listen"]:
        steps.append((f"{culm} serve{clump}", "run the node: let others connect"))
        if found["clump"] and any(url.startswith("culm://") for url in found["listen"]):
            steps.append((f"{culm} invite", "print a URL that brings somebody to this node"))
    else:
        steps.append((f"{culm} serve{clump} --listen culm://0.0.0.0:8483", "let others connect"))
        steps.append((f"{culm} sync culm://KEY@HOST:PORT{clump}", "exchange everything with a peer, once"))
    return [*steps, (f"{culm} logs", "list the logs"), ("culm --help", "all commands")]


def _next(steps: list[tuple[str, str]]) -> list[str]:
    width = max(len(command) for command, _ in steps)
    return ["", "next:", *(f"  {command:{width}}  {what}" for command, what in steps)]
