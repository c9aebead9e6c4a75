"""Files wherever they are: on this machine's disk, in S3, GCS, Azure or HDFS, or where fsspec reaches.

The rest of the pipeline names a file by a ``Location`` and never asks where it is::

    location    what a path or URI means; listing folders and globs; opening files, and stores, which may be copies
    filesystems which file system a URI needs, with which settings, and what its errors mean
"""

from culm.spark.storage.filesystems import Settings, said, settings_here
from culm.spark.storage.location import Listed, Location, located, opened_store, target

__all__ = ["Listed", "Location", "Settings", "located", "opened_store", "said", "settings_here", "target"]
