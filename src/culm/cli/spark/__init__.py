"""The commands of ``culm spark``. Nothing here loads Spark until a command runs."""
