"""Selecting with Spark: what each of many ranges denotes among the verified entries of all logs.

The simple way is a join: every entry with every range of its log that has the entry's number. A range can have 2^64
numbers, though, thousands of requesters can want the same log, and paths and certificates are not spans of numbers at
all. So ranges are cut to the blocks of the verification (4,096 numbers, ``batches.pack``). A range becomes *pieces*:
for each block that exists, the span or the numbers that it wants there. Pieces and blocks meet by block, in memory. A
range of 2^64 numbers costs only the blocks that exist and the gaps between them.

For example, a log has the entries 1 to 10,000, so the blocks 0, 1 and 2. The range 5,000 to 20,000 becomes the pieces
5,000 to 8,191 (block 1) and 8,192 to 10,000 (block 2), and a gap from 10,001 on. Its certificates, some entries below
5,000, become spans of one number in the blocks 0 and 1.

::

    from culm.spark.select import select_entries

    found = select_entries(entries, requests)
    found.items.where("requester = 'alice'").show()

The steps (``culm.spark.select.job``), each a function from rows to rows, and the modules that have them::

    asked      who wants which range; rejects                         requests
    blocks     which numbers belong to which block of a log           job, pieces
    pieces     ranges cut to the blocks that exist; gaps              pieces
    together   entries and pieces, block by block                     job, and a shuffle
    items      entries that are denoted, once each; gaps              items
    missing    numbers that are denoted and not held                  pieces

No step needs all entries or all requests of a log in one place. A block that very many want goes to several tasks, each
with some of the requesters. Blocks that nobody wants are not moved.

Tables that two steps use are kept: on the executors' disks here, in Parquet tables by ``job``, which ``culm spark
select`` runs. ``bundles`` writes the selected entries as files.
"""

from culm.spark.select.job import Selection, select_entries

__all__ = ["Selection", "select_entries"]
