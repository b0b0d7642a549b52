"""What to say of a name that nobody knows: the one that was meant, and those that there are."""

import difflib
from collections.abc import Iterable


def meant(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that is nearest, whatever its case and hyphens; None if none is near.

    >>> meant("Beta-VEA", ["vae", "beta_vae"]), meant("gan", ["pca"])
    ('beta_vae', None)
    """
    plain = {_plain(word): word for word in reversed(list(known))}
    close = difflib.get_close_matches(_plain(str(name)), plain, n=1, cutoff=0.5)
    return plain[close[0]] if close else None


def hint(name: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name.

    >>> hint("migg", ["mig", "sap"]), hint("xy", ["mig", "sap"])
    ('did you mean mig? Known: mig, sap', 'known: mig, sap')
    """
    names = list(known)
    found = meant(name, names)
    return f"{f'did you mean {found}? Known' if found else 'known'}: {', '.join(names) or '(none)'}"


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
