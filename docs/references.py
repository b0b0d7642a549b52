"""docs/references.md from docs/references.bib: `python docs/references.py`. A test checks that they agree."""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
_ENTRY = re.compile(r"@\w+\{(\w+), (.*)\}$", re.MULTILINE)
_FIELD = re.compile(r"(\w+) = \{([^}]*)\}")


def entries(text: str) -> dict[str, dict[str, str]]:
    """Key -> fields; an entry is one line of the file."""
    return {key: dict(_FIELD.findall(fields)) for key, fields in _ENTRY.findall(text)}


def line(entry: dict[str, str]) -> str:
    names = [" ".join(reversed(name.split(", "))) for name in entry["author"].split(" and ")]
    authors = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    place = entry.get("booktitle") or entry.get("journal")
    return f"{authors} ({entry['year']}). [{entry['title']}]({entry['url']})." + (f" {place}." if place else "")


def page(text: str) -> str:
    found = entries(text)
    lines = [f"- {line(found[key])}" for key in sorted(found)]
    start = "# References\n\nAll papers that code and pages cite, as [BibTeX](references.bib).\n\n"
    return start + "\n".join(lines) + "\n"


if __name__ == "__main__":
    (HERE / "references.md").write_text(page((HERE / "references.bib").read_text()))
