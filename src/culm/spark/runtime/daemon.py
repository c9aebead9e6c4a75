"""The process that Spark's Python workers are forked from. It has imported everything they need.

Spark starts a worker for each core, and again whenever one has been idle for a minute. Each would spend a second or two
on importing Arrow, numpy and Culm. A forked process has its parent's modules, so workers forked from here start at
once. Spark runs this module because of the setting ``spark.python.daemon.module`` (``session``).
"""

import gc
import os
import socket
from importlib import import_module

from pyspark import daemon

for _needed in ("pandas", "pyspark.worker", "culm.spark.source.source", "culm.spark.verification.job"):
    import_module(_needed)  # these import Arrow, numpy, PySpark's serializers and the rest

_worker = daemon.worker


def quiet_worker(sock: socket.socket, authenticated: bool) -> int:
    """A worker that ends without a word when Spark has closed its socket.

    Spark does so when it has enough rows, as ``show(2)`` soon has. PySpark would print a traceback into the notebook.
    """
    try:
        return int(_worker(sock, authenticated))
    except (BrokenPipeError, ConnectionResetError):  # the second one if it was closed while it was written to
        os._exit(1)  # as PySpark ends a worker after printing the traceback


if __name__ == "__main__":
    # Workers collect garbage after each task. Frozen objects are left out of that; the modules never become garbage.
    gc.freeze()
    daemon.worker = quiet_worker
    daemon.manager()
