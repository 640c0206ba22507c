"""The docs as pages: `make site` builds them, strictly, from the Markdown as it lies here."""

project = "ullage"
author = "the authors of ullage"
project_copyright = author
extensions = ["myst_parser"]
# The source is the whole repository, so that links between pages are those that GitHub follows.
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "mpi/README.md",
    "docs/**",
    "ullage/experiments/studies/*/README.md",
]
exclude_patterns = [".*", "build", "target", "runs", "tests", "rust", "benchmarks"]
root_doc = "docs/site/index"
myst_heading_anchors = 4
html_theme = "furo"
html_title = "ullage"
html_extra_path = ["../../build/site-extra"]
html_show_sourcelink = False
html_copy_source = False
# Code blocks show what commands print, too.
suppress_warnings = ["misc.highlighting_failure"]
