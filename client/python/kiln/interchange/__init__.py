"""Arrays of other packages, of files and of pickles: how they come in, and how ours go out.

dlpack.py is for memory of other packages, files.py for files of named arrays, pickled.py for pickles, shown.py for
notebooks, progress.py for whoever watches a long transfer. docs/python_interchange.md shows it by example.
"""
