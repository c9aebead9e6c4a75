"""Files wherever they are: on this machine's disk, in S3, GCS, Azure or HDFS, or where fsspec reaches.

The rest of the pipeline names a file by a ``Location`` and never asks where it is::

    location    what a path or URI means; listing folders and globs; opening files, and stores, which may be copies
    filesystems which file system a URI needs, with which settings, and what its errors mean
"""

from culm.spark.storage.filesystems import Settings, settings_here
from culm.spark.storage.location import Location, local_copy, located, opened_store, target

__all__ = ["Location", "Settings", "local_copy", "located", "opened_store", "settings_here", "target"]
