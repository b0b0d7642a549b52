"""Successive halving over strengths: pure, so every case can be planted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina.fitting.search import (
    MOST_SEEDS,
    STRENGTHS,
    Candidate,
    Known,
    cut,
    first_round,
    next_round,
    second_round,
)


def known(**found):
    """beta8=(3, 4) -> the active latents of the seeds of beta 8."""
    return {
        Candidate("beta_vae", float(name[4:].replace("_", "."))): Known(len(active), active, math.nan)
        for name, active in found.items()
    }


WIDE = known(beta0_5=(10, 10), beta2=(10, 9), beta8=(5, 6), beta32=(2, 3), beta128=(0, 0))


def test_the_first_round_is_wide_and_has_two_seeds():
    wanted = first_round(["beta_vae"], 100)
    assert [setting.strength for setting in wanted] == list(STRENGTHS)
    assert all(seeds == range(2) for seeds in wanted.values())
    assert len(first_round(["beta_vae", "beta_tcvae"], 100)) == 2 * len(STRENGTHS)


def test_with_little_room_the_middle_strengths_come_first():
    assert [setting.strength for setting in first_round(["beta_vae"], 3)] == [8.0]


def test_the_second_round_fills_the_range_where_some_but_not_all_latents_are_active():
    wanted = {setting.strength: seeds for setting, seeds in second_round(WIDE, 10).items()}
    assert sorted(wanted) == [1, 2, 4, 8, 16, 32, 64]
    assert wanted[8.0] == range(2, 3)  # one more
    assert wanted[16.0] == range(2)  # new: UDR needs two


@pytest.mark.parametrize(
    ("found", "inside"),
    [
        (known(beta2=(10, 10), beta8=(0, 0)), (2, 8)),
        (known(beta2=(10, 10), beta8=(10, 10)), (8, 32)),
        (known(beta2=(0, 0), beta8=(0, 0)), (0.5, 2)),
    ],
)
def test_where_there_is_no_such_strength_it_looks_between_or_beyond(found, inside):
    strengths = [setting.strength for setting in second_round(found, 10)]
    assert len(strengths) == 3
    assert all(inside[0] < strength < inside[1] for strength in strengths)


def test_later_rounds_keep_the_better_half_and_never_the_collapsed():
    scores = {1: 0.1, 2: 0.2, 4: 0.9, 8: 0.8, 16: 0.7, 128: 1.0}
    active = {1: 10, 2: 6, 4: 5, 8: 4, 16: 3, 128: 0}
    found = {Candidate("beta_vae", float(s)): Known(3, (active[s],) * 3, scores[s]) for s in scores}
    kept = [setting.strength for setting in next_round(found, 10, 2)]
    assert kept == [4.0, 8.0]
    assert all(seeds == range(3, 5) for seeds in next_round(found, 10, 2).values())


def test_it_ends_when_the_last_settings_have_all_their_seeds():
    found = {Candidate("beta_vae", float(s)): Known(MOST_SEEDS, (3,) * MOST_SEEDS, 0.5) for s in (4, 8)}
    assert next_round(found, 10, 9) == {}


def test_where_a_round_is_cut_the_middle_stays():
    wanted = second_round(WIDE, 10)
    assert [setting.strength for setting in cut(wanted, 7)] == [2.0, 4.0, 8.0, 16.0, 32.0]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), min_size=1, max_size=6),
    st.integers(-3, 30),  # a time that is over leaves less than none
)
def test_a_round_that_is_cut_fits_and_has_no_new_setting_with_a_single_seed(seeds, room):
    wanted = {Candidate("beta_vae", float(i + 1)): range(a, a + n) for i, (a, n) in enumerate(seeds) if a or n > 1}
    kept = cut(wanted, room)
    assert sum(map(len, kept.values())) <= max(room, 0)
    for setting, left in kept.items():
        assert left.start == wanted[setting].start
        assert left.start > 0 or len(left) >= 2
