"""The report: one self-contained HTML file, made from a run folder and its analysis."""
