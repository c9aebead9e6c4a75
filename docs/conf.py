"""The settings of the documentation site."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes

from docs import reference, tasks

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Culm"
copyright = "2026, the Culm authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Culm"
html_static_path = ["_static"]
html_favicon = "../src/culm/node/status/page/favicon.svg"  # the one of the status page
html_css_files = ["culm.css"]
html_js_files = ["culm.js"]
highlight_language = "none"  # A usage or a format that names no language is not Python.
html_copy_source = False  # The pages link to no Markdown: nobody reads it there.
exclude_patterns = ["_build"]
# A name such as State, written in a signature, may stand in several modules: any of them will do.
suppress_warnings = ["ref.python"]
autodoc_member_order = "bysource"
autodoc_typehints = "both"  # in lists only beside words: types alone stand in the signature already
autodoc_typehints_description_target = "documented"
# The signatures as they are written, not with the whole path of every type.
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100


def put_in_references(_app: Sphinx, name: str, source: list[str]) -> None:
    """The reference of the command line is made from its parsers, that of the API from its docstrings."""
    made = {"commands": ("<!-- commands -->", reference.page), "api": ("<!-- tasks -->", tasks.page)}
    if name in made:
        mark, page = made[name]
        source[0] = source[0].replace(mark, page())


def always_new(*_: object) -> list[str]:
    """What is made from the program is made anew each time: its file does not show that the program changed."""
    return ["api", "commands"]


def draw_inside(app: Sphinx, document: nodes.document) -> None:
    """Put drawings into the page itself, because a picture in a file of its own cannot follow the theme's switch."""
    for image in list(document.findall(nodes.image)):
        if image["uri"].endswith(".svg"):
            name, file = app.env.relfn2path(image["uri"], app.env.docname)
            app.env.note_dependency(name)
            label = f'<svg role="img" aria-label="{escape(image["alt"])}" '
            drawing = Path(file).read_text(encoding="utf-8").replace("<svg ", label, 1)
            image.replace_self(nodes.raw("", f'<span class="figure">{drawing}</span>', format="html"))


def mend_markup(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _document: object) -> None:
    """Correct what Sphinx and the theme write and a screen reader stumbles over (``axe`` finds it)."""
    # A caption of the sidebar says that it is a heading, and not of which level.
    if "furo_navigation_tree" in context:
        tree = context["furo_navigation_tree"]
        context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')
    if "body" in context:
        # An empty corner of a table is no heading of its column.
        body = context["body"].replace('<th class="head"><p></p></th>', "<td></td>")
        # A long signature is a list of definitions without anything that is defined.
        context["body"] = re.sub(r"<dl>\n(.*?)</dl>", parameters, body, flags=re.DOTALL)


def parameters(found: re.Match[str]) -> str:
    """The lines of a long signature."""
    lines = found[1].replace("<dd>", "<div>").replace("</dd>", "</div>")
    return f'<div class="parameters">\n{lines}</div>'


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    # Before Sphinx collects the pictures (priority 500), which would copy the files as well.
    app.connect("doctree-read", draw_inside, priority=400)
    app.connect("autodoc-process-docstring", tasks.lists)
    app.connect("env-get-outdated", always_new)
    app.connect("source-read", put_in_references)
    app.connect("html-page-context", mend_markup, priority=900)  # after the theme's
