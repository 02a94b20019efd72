"""Settings of Sphinx for the documentation site; `build.py` runs it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "spacy_elmo"))
import about  # noqa: E402  the version, without importing the package

project = "spacy-elmo"
copyright = "the spacy-elmo contributors, MIT licence"
release = about.__version__
extensions = ["myst_parser"]
# Anchors of headings as GitHub makes them.
myst_heading_anchors = 4
smartquotes = False
# Excerpts of configs and outputs of programs need not be complete.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "spacy-elmo"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "monokai"
