"""A run as a document of plain data, and the page that shows it. The command line is in `cli/view.py`."""
