"""The settings of the documentation site."""

project = "Culm"
copyright = "2026, the Culm authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
html_theme = "furo"
html_title = "Culm"
exclude_patterns = ["_build"]
