"""All scenes, by name."""

from __future__ import annotations

from crash.scenes.base import Broken, Scene
from crash.scenes.keeping import Backup, Begin, Export, Follow, Restore
from crash.scenes.publishing import Append, Forget, Program
from crash.scenes.syncing import Fetch, Serve, SyncBushbaby, SyncCulm, SyncIntervals, SyncProposals
from crash.scenes.taking import Import, Migrate, Reconcile
from crash.scenes.viewing import Counting

SCENES: dict[str, type[Scene]] = {
    scene.name: scene
    for scene in (
        Append,
        Program,
        Forget,
        Import,
        SyncCulm,
        SyncBushbaby,
        SyncIntervals,
        SyncProposals,
        Fetch,
        Serve,
        Migrate,
        Backup,
        Restore,
        Export,
        Reconcile,
        Follow,
        Begin,
        Counting,
    )
}

__all__ = ["SCENES", "Broken", "Scene"]
