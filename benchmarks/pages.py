"""Parts of a page of docs/ that a script writes: what is between two comments that carry the script's name."""

from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"


def write_part(page: str, script: str, text: str) -> None:
    """Replace what stands between `<!-- script -->` and `<!-- end of script -->` in docs/`page`."""
    path = DOCS / page
    start, end = f"<!-- {script} -->\n", f"<!-- end of {script} -->"
    before, rest = path.read_text().split(start)
    path.write_text(f"{before}{start}{text.strip()}\n{end}{rest.split(end)[1]}")
    print(f"wrote the part of {script} in {path}")


def markdown(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])
