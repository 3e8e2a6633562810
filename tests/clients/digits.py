"""The program that learns handwritten digits, of each language, and what docs/clients.md says of it.

Who copies it has a network that learns, so it is short, and the page has what to type.
"""

import re

import languages

PAGE = languages.ROOT / "docs" / "clients.md"
MOST_LINES, MOST_COLUMNS = 120, 120
EPOCHS = 15
ACCURACY = 0.93  # more of those that it has not seen are to be read


def command(row):
    """What the page has people type for a row of LANGUAGES; None where it does not name the program."""
    shown = r"^The digits: `%s`[^\n]*\n\n```sh\n(.*?)^```$" % re.escape(row.digits)
    found = re.search(shown, PAGE.read_text(), re.M | re.S)
    return found and found.group(1)
