"""Tables of names, written as plain text."""


def names(text: str) -> frozenset[str]:
    """The words of the text."""
    return frozenset(text.split())
