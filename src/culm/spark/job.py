"""The whole verification, from paths to a folder of results: what ``culm spark verify`` runs.

::

    OUTPUT/verdicts/       Parquet: a row for each distinct entry (columns: ``culm.spark.verify.verify``)
    OUTPUT/rejects/        Parquet: source, offset, reason of what could not be read
    OUTPUT/summary.json    the counts

Between the stages stand two Parquet tables in a folder ``work``, which is removed at the end. The first holds what was
read: both verdicts and rejects come from it, and inputs that change meanwhile are read once. The second holds the
findings on the logs, which are needed twice (see ``culm.spark.verify``). They are written to the disk once and read
back; in exchange nothing is computed again if a worker dies, and no signature is ever checked twice.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from culm.spark import verify as _  # noqa: F401
from culm.spark.columns import Columns
from culm.spark.output import SUMMARY, check_output, whole_folder
from culm.spark.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
