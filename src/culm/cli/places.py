"""Moved: the same as ``culm.wire.places``."""

from culm.wire.places import *  # noqa: F403
