"""Which models to train next: successive halving over strengths. Pure functions of what is known so far."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

# The first look is wide and coarse; where it is worth it, the values between come in the second round.
STRENGTHS = (0.5, 2.0, 8.0, 32.0, 128.0)
_STEP = 4.0
SEEDS = (2, 3, 5, 8, 12, 16, 20)  # that a setting has after each round in which it is kept
MOST_SEEDS = SEEDS[-1]
# The parameter that is a method's strength, and what a strength of 1 is of it. Where the total correlation alone is
# weighted, not the whole KL, the useful values are about as large.
PARAMETERS = {
    "beta_vae": "beta",
    "beta_tcvae": "beta",
    "factor_vae": "gamma",
    "dip_vae_i": "lambda_od",
    "dip_vae_ii": "lambda_od",
}


@dataclass(frozen=True, order=True)
class Setting:
    """A method and its strength. more: what else tells it from others, where a search varies more than these."""

    method: str
    strength: float
    more: str = ""

    @property
    def parameter(self) -> str:
        return PARAMETERS[self.method]

    @property
    def value(self) -> float | int:
        """The strength as it is written."""
        return int(self.strength) if self.strength == int(self.strength) else self.strength

    def __str__(self) -> str:
        return f"{self.method} {self.parameter}={self.value} {self.more}".rstrip()

    def run_name(self, seed: int) -> str:
        """The directory of a model, as `karenina.train_many` names it."""
        return f"{self.method}_{self.parameter}={self.value}_seed={seed}"


@dataclass(frozen=True)
class Known:
    """What the models of a setting showed. seeds: trained. active: latents of each. score: how far
    they agree (Compared.agreement), or NaN."""

    seeds: int
    active: tuple[int, ...]
    score: float

    @property
    def middle(self) -> float:
        return median(self.active) if self.active else 0.0


Wanted = dict[Setting, range]  # seeds to train, counted from 0


def first_round(methods: Sequence[str], room: int) -> Wanted:
    """Few seeds of widely spaced strengths, as many as there is room for, the middle ones first.

    >>> {str(setting): len(seeds) for setting, seeds in first_round(["beta_vae"], 6).items()}
    {'beta_vae beta=2': 2, 'beta_vae beta=8': 2, 'beta_vae beta=32': 2}
    """
    order = sorted(STRENGTHS, key=lambda value: abs(math.log(value / STRENGTHS[len(STRENGTHS) // 2])))
    settings = [Setting(method, strength) for strength in order for method in methods]
    return {setting: range(SEEDS[0]) for setting in sorted(settings[: max(room // SEEDS[0], 1)])}


def some_but_not_all(known: Mapping[Setting, Known], method: str, latents: int) -> list[float]:
    """The strengths of a method at which some but not all latents are active, in their order."""
    mine = {setting.strength: found for setting, found in known.items() if setting.method == method}
    return sorted(strength for strength, found in mine.items() if 0 < found.middle < latents)


def second_round(known: Mapping[Setting, Known], latents: int) -> Wanted:
    """The range of strengths at which some but not all latents are active, at half the spacing and with more seeds.

    Where there is none, the values between the strongest with all latents and the weakest with none; or beyond the end
    of the first look, if all strengths had all latents, or none.
    """
    wanted: Wanted = {}
    for method in dict.fromkeys(setting.method for setting in known):
        mine = {setting.strength: found for setting, found in known.items() if setting.method == method}
        inside = some_but_not_all(known, method, latents)
        if inside:
            strengths = set(inside) | {s * math.sqrt(_STEP) for s in inside} | {inside[0] / math.sqrt(_STEP)}
        else:
            full = [strength for strength, found in mine.items() if found.middle >= latents]
            off = [strength for strength, found in mine.items() if found.middle < 1]
            low = max(full) if full else min(off) / _STEP
            high = min(off) if off else max(full) * _STEP
            strengths = {low * (high / low) ** share for share in (0.25, 0.5, 0.75)}
        for strength in sorted(strengths):
            setting = Setting(method, float(f"{strength:.3g}"))
            have = known[setting].seeds if setting in known else 0
            wanted[setting] = range(have, SEEDS[1] if have else SEEDS[0])
    return wanted


def next_round(known: Mapping[Setting, Known], latents: int, done: int) -> Wanted:
    """What to train after `done` rounds; empty when more models would change little.

    From the third round on the better half of the settings by agreement is kept, two at the least, and gets more seeds.
    Settings without an active latent are never kept, and those with all latents active only if there are no others.
    """
    if done == 1:
        return second_round(known, latents)
    alive = {setting: found for setting, found in known.items() if found.middle >= 1 and math.isfinite(found.score)}
    inside = {setting: found for setting, found in alive.items() if found.middle < latents}
    ranked = sorted(inside or alive, key=lambda setting: -known[setting].score)
    goal = SEEDS[min(done, len(SEEDS) - 1)]
    for share in range(max(done - 1, 1), 0, -1):
        keep = ranked[: max(len(ranked) >> share, 2)]
        wanted = {setting: range(known[setting].seeds, goal) for setting in keep if known[setting].seeds < goal}
        if wanted:
            return wanted
    return {}


def cut(wanted: Wanted, room: int) -> Wanted:
    """The round with no more models than there is room for: every setting loses its last seeds alike, and of new ones,
    which need two seeds, those farthest from the middle of the strengths go first.

    >>> kept = cut({Setting("beta_vae", 2): range(2), Setting("beta_vae", 8): range(2, 5)}, 3)
    >>> {str(setting): seeds for setting, seeds in kept.items()}
    {'beta_vae beta=2': range(0, 2), 'beta_vae beta=8': range(2, 3)}
    """
    kept = dict(wanted)
    middle = sum(math.log(setting.strength) for setting in wanted) / max(len(wanted), 1)

    def first_to_go(setting: Setting) -> tuple[float, ...]:
        return len(kept[setting]), kept[setting].stop, abs(math.log(setting.strength) - middle)

    while sum(map(len, kept.values())) > max(room, 0):
        longest = max(kept, key=first_to_go)
        left = kept[longest]
        # A setting that is new needs two seeds for UDR: one alone is of no use.
        fewer = range(left.start, left.start if left.start == 0 and len(left) <= SEEDS[0] else left.stop - 1)
        kept[longest] = fewer
    return {setting: seeds for setting, seeds in kept.items() if len(seeds)}
