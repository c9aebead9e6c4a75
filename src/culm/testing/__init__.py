"""Test tools for applications too: builders of logs here; a simulated network, disk and clock in ``simulation``."""

from culm.testing.builders import LogBuilder, build_log, tampered

__all__ = ["LogBuilder", "build_log", "tampered"]
