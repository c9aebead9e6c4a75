"""Selecting with Spark: what each of many ranges denotes among the verified entries of all logs.

::

    from culm.spark.select import select_entries

    found = select_entries(entries, requests)
    found.items.where("requester = 'alice'").show()

The steps (``culm.spark.select.steps``), each a function from rows to rows, and the modules that have them::

    asked      who wants which range; what cannot be read             requests
    blocks     which verified entries a block has: a bit for each     held
    pages      which blocks a log has, and its newest entry                     pages
    pieces     ranges cut to the blocks that are there; gaps          pieces, places
    together   entries and pieces, block by block                     held, and a shuffle
    items      what is denoted, once for each requester               items
    missing    what is denoted and not there                          gaps

No step needs all entries or all requests of a log in one place: a block that very many ask for goes to several tasks,
each with some of the requesters. Blocks nobody asks for are not moved.

What is used twice is kept: on the executors' disks here, in Parquet tables by ``job``, which is the whole: what
``culm spark select`` runs. ``bundles`` writes what was selected as files.
"""

from culm.spark.select.steps import Selection, missing, rejects, select, select_entries, selection

__all__ = ["Selection", "missing", "rejects", "select", "select_entries", "selection"]
