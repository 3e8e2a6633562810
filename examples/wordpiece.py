"""BERT's tokenizer: words in lower case without accents, cut into the longest pieces a vocabulary has."""

import re
import unicodedata


def read_vocabulary(path):
    """The number of each piece: its line in the file."""
    return {piece: number for number, piece in enumerate(path.read_text(encoding="utf-8").splitlines())}


def pieces(word, vocabulary):
    """The numbers of a word's pieces; all but the first are in the vocabulary with "##" before them."""
    found, mark = [], ""
    while word:
        size = next((n for n in range(len(word), 0, -1) if mark + word[:n] in vocabulary), 0)
        if size == 0:
            return [vocabulary["[UNK]"]]
        found.append(vocabulary[mark + word[:size]])
        word, mark = word[size:], "##"
    return found


def tokens(text, vocabulary):
    decomposed = unicodedata.normalize("NFD", text.lower())
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    words = re.findall(r"[^\W_]+|[^\w\s]|_", plain)  # every punctuation mark is a word
    middle = [number for word in words for number in pieces(word, vocabulary)]
    return [vocabulary["[CLS]"], *middle, vocabulary["[SEP]"]]
