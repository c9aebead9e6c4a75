"""The commands of ``culm spark``; ``register`` adds them all. Nothing here loads Spark until a command runs."""

from culm.cli.spark.verify import register

__all__ = ["register"]
