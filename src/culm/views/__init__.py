"""Views: rows of an application's own SQLite tables, made of the entries of many logs.

Logs say what happened, one author after the other. A program wants to know what is the case: the open items of a list,
the messages of a thread. A *view* is a function from entries to rows, and the file that has these rows. The file is
kept up to date as entries come, and its rows always equal those that are made of all entries anew.

``culm.views.view`` has the declaration, ``culm.views.order`` the order of entries, ``culm.views.undo`` how rows are
taken back, ``culm.views.file`` the file, and ``culm.views.live`` a view beside a running node.
"""

from culm.views.file import ViewFile
from culm.views.live import LiveView
from culm.views.view import Changes, Rejected, View, decode_json, decode_text, decode_with, no_references

__all__ = [
    "Changes",
    "LiveView",
    "Rejected",
    "View",
    "ViewFile",
    "decode_json",
    "decode_text",
    "decode_with",
    "no_references",
]
