"""Settings of the documentation. `nox -s docs` builds it; a warning is an error."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "energon_nodes"
author = "The energon_nodes authors"
copyright = "The energon_nodes authors"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "myst_parser",
    "reference",  # docs/reference.py: the pages of the public names, made from the package itself
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "energon_nodes"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False

# Docstrings are written as Markdown-like text; single backquotes mean code.
default_role = "code"
nitpicky = False
