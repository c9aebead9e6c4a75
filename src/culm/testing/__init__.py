"""Public test tools: log builders; later a simulated network and clock."""

from culm.testing.builders import LogBuilder, build_log, tampered

__all__ = ["LogBuilder", "build_log", "tampered"]
