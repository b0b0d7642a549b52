"""How often a choice without labels trusts models that share nothing, and models that share everything.

    python benchmarks/choice_null.py [--trials 100] [--write]

Null: every model has the same latents in a random rotation of its own; "do not trust" is right. Truth: the same latents
up to order, sign and noise; with three seeds or more "fairly sure", or with three "with care", is right. --write puts
the tables into docs/choosing.md.
"""

import argparse

import numpy as np
from pages import markdown, write_part

from karenina.selection.choice import FAIR, NO_TRUST, choose_from_codes

LATENTS, SEEDS, SETTINGS = (2, 3, 5, 10), (2, 3, 4, 5), (1, 5, 8)
ROWS, NOISE = 500, 0.1


def rotation(size: int, rng: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(size, size)))
    return q * np.sign(np.diag(r))


def level(latents: int, seeds: int, settings: int, rng: np.random.Generator, *, shared: bool) -> str:
    """Return the verdict on one planted population."""
    white = np.linalg.qr(rng.normal(size=(ROWS, latents)))[0] * np.sqrt(ROWS)
    names = [setting for setting in range(settings) for _ in range(seeds)]
    codes = []
    for _ in names:
        turn = np.eye(latents)[rng.permutation(latents)] * rng.choice([-1, 1], latents)
        noise = NOISE * shared * rng.normal(size=(ROWS, latents))
        codes.append(white @ (turn if shared else rotation(latents, rng)) + noise)
    return choose_from_codes(codes, None, names, lambda i: 0.9).judge("", 10_000, 10_000).level


def table(trials: int, *, shared: bool) -> str:
    wanted = FAIR if shared else NO_TRUST
    rows = []
    for latents in LATENTS:
        for seeds in SEEDS:
            found = []
            for settings in SETTINGS:
                rng = np.random.default_rng([latents, seeds, settings])
                found.append(sum(level(latents, seeds, settings, rng, shared=shared) == wanted for _ in range(trials)))
            rows.append([str(latents), str(seeds), *(f"{100 * count / trials:.0f} %" for count in found)])
            print(wanted, *rows[-1], flush=True)
    return markdown(["latents", "seeds", *(f"{n} setting{'s' * (n > 1)}" for n in SETTINGS)], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for name, shared in (("null", False), ("truth", True)):
        found = table(given.trials, shared=shared)
        if given.write:
            write_part("choosing.md", f"benchmarks/choice_null.py {name}", found)


if __name__ == "__main__":
    main()
