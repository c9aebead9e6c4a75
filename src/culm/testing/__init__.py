"""Public test tools: log builders here; a simulated network, disk and clock in ``culm.testing.simulation``."""

from culm.testing.builders import LogBuilder, build_log, tampered

__all__ = ["LogBuilder", "build_log", "tampered"]
