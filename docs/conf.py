# SPDX-License-Identifier: Apache-2.0
"""Sphinx's settings; docs/build.sh calls it with every warning as an error."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402
from autoapi import _parser  # noqa: E402
from docutils import nodes  # noqa: E402

project = "flashscan"
author = "The flashscan authors"
copyright = author
version = release = generate.version()

extensions = ["myst_parser", "autoapi.extension", "sphinx.ext.napoleon"]
exclude_patterns = ["requirements.txt"]

# Headings can be linked to as on code hosting sites.
myst_heading_anchors = 4

# The Python reference is read from the sources: neither the library nor a framework is needed to build the site.
autoapi_dirs = [str(HERE.parent / "bindings" / "python" / "src" / "flashscan")]
autoapi_generate_api_docs = False
autoapi_add_toctree_entry = False
autoapi_keep_files = False
autoapi_options = ["members", "imported-members", "show-module-summary"]
autoapi_python_class_content = "class"
napoleon_numpy_docstring = False
suppress_warnings = ["autoapi.python_import_resolution"]

python_use_unqualified_type_names = True

html_theme = "alabaster"
html_theme_options = {
    "description": "Recurrences over sequences, forward and backward, on CPUs and NVIDIA GPUs",
    "page_width": "1200px",
    "sidebar_width": "230px",
    "fixed_sidebar": True,
    "sidebar_collapse": True,
}
html_copy_source = False
smartquotes = False


_take_child = _parser._parse_child


def leave_overloads_out(child, overloads):
    """Functions are shown as they are defined, with every option. Overloads, which autoapi shows in the place of these,
    are for type checkers."""
    return not child.get("is_overload") and _take_child(child, overloads)


def offer_pages_outside(app, name, source):
    """Markdown of the repository that is no page of the site is offered as the file that it is."""
    folder = (HERE / name).parent

    def offered(match):
        outside = HERE not in (folder / match[1]).resolve().parents
        return f"](path:{match[1]})" if outside else match[0]

    source[0] = re.sub(r"\]\((\.\./[^)#:]*\.md)(?:#[^)]*)?\)", offered, source[0])


def show_equations(app, what, name, obj, options, lines):
    """In docstrings, an indented block behind a sentence that ends with a colon is shown as it stands."""
    for number in reversed(range(len(lines) - 1)):
        line = lines[number]
        if not line.endswith(":") or " " not in line.strip():
            continue
        inner = " " * (len(line) - len(line.lstrip()) + 4)
        if lines[number + 1].startswith(inner):
            lines.insert(number + 1, "")
        if not lines[number + 1] and lines[number + 2 :] and lines[number + 2].startswith(inner):
            lines[number] += ":"


def shorten_types(app, tree, page):
    """Names in signatures without the private modules that they come from."""
    for node in list(tree.findall(nodes.Text)):
        short = re.sub(r"\bflashscan\.(?:\w+\.)*_(?:types|operator|packages)\.", "", node)
        if short != node:
            node.parent.replace(node, nodes.Text(short))


def setup(app):
    _parser._parse_child = leave_overloads_out
    app.connect("autodoc-process-docstring", show_equations, priority=400)  # before napoleon
    app.connect("doctree-resolved", shorten_types)
    app.connect("builder-inited", lambda app: generate.write_all(HERE / "_generated"))
    app.connect("source-read", offer_pages_outside)
