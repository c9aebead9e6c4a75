"""The status page of a node: its logs and peers, live, in a browser; and the same as JSON for programs.

Everything is read-only, so that a hole in the page can reveal something but never change it. ``holdings`` and
``overview`` turn the store and the node into plain values, without HTTP; ``server`` answers requests with them. The
HTTP server is an optional package. Only ``server`` and the modules behind it import it, and ``status_server`` says what
to install.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from culm.errors import ConfigError
from culm.node.status.settings import StatusSettings
from culm.node.status.sources import NamesWatch, Sources

if TYPE_CHECKING:
    from culm.node.service import NodeService
    from culm.node.status.server import StatusServer

__all__ = ["NamesWatch", "Sources", "StatusSettings", "status_server"]

_PARTS = ("aiohttp", "prometheus_client")


def status_server(node: NodeService, settings: StatusSettings, sources: Sources | None = None) -> StatusServer:
    """A node's status page, to be entered as a context; ``ConfigError`` if its packages are not installed.

    The policy in ``sources`` is replaced by the node's own, and what is told of damage by its healing.
    """
    try:
        from culm.node.status.server import StatusServer  # noqa: PLC0415 - optional
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _PARTS:
            raise
        raise ConfigError(f"the status page needs {error.name}: pip install 'culm[status]'") from None
    of_node = replace(sources or Sources(), policy=lambda: node.policy, drop=node.healing.drop)
    return StatusServer(node.roster, settings, of_node)
