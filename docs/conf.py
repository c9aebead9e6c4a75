"""The settings of the documentation site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docs.reference import page

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Culm"
copyright = "2026, the Culm authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Culm"
html_static_path = ["_static"]
html_css_files = ["culm.css"]
exclude_patterns = ["_build"]
# A name such as State, written in a signature, may stand in several modules: any of them will do.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# The signatures as they are written, not with the whole path of every type.
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100


def put_in_commands(_app: Sphinx, name: str, source: list[str]) -> None:
    """The reference of the command line is made from its parsers."""
    if name == "commands":
        source[0] = source[0].replace("<!-- commands -->", page())


def always_new(*_: object) -> list[str]:
    """What is made from the program is made anew each time: its file does not show that the program changed."""
    return ["commands"]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("env-get-outdated", always_new)
    app.connect("source-read", put_in_commands)
