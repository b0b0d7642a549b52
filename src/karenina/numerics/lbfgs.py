"""Compiled pieces of L-BFGS without bounds, by the rules of scipy's L-BFGS-B. Importing this imports numba.

scipy spends more time between two evaluations of a small problem than in them. A compiled problem calls these pieces in
a loop of its own: `direction`, then `first_step` and `next_step` until the line search is done, then `remember`.
"""

import numpy as np

from karenina.numerics.arrays import Floats, Ints
from karenina.numerics.compile import njit

MEMORY = 10  # pairs of steps and changes of the gradient
SUFFICIENT, CURVATURE, NARROW = 1e-3, 0.9, 0.1  # ftol, gtol and xtol of the line search
LONGEST = 1e10

# Places of the line search's numbers in its array.
STEP, BEST, BEST_VALUE, BEST_SLOPE, OTHER, OTHER_VALUE, OTHER_SLOPE, START_VALUE, START_SLOPE, LOW, HIGH = range(11)
BRACKETED, FIRST_STAGE, WIDTH, WIDTH_BEFORE = range(11, 15)


@njit(cache=True)
def direction(gradient: Floats, steps: Floats, changes: Floats, kept: Ints) -> Floats:
    """-H gradient, H the inverse Hessian of the pairs steps, changes (MEMORY, n); kept: (how many, the next place)."""
    d = -gradient
    count, place = kept
    alpha = np.empty(count)
    for i in range(count):  # the newest first
        j = (place - 1 - i) % MEMORY
        alpha[i] = np.dot(steps[j], d) / np.dot(steps[j], changes[j])
        d -= alpha[i] * changes[j]
    if count:
        j = (place - 1) % MEMORY
        d *= np.dot(steps[j], changes[j]) / np.dot(changes[j], changes[j])
    for i in range(count - 1, -1, -1):
        j = (place - 1 - i) % MEMORY
        d += (alpha[i] - np.dot(changes[j], d) / np.dot(steps[j], changes[j])) * steps[j]
    return d


@njit(cache=True)
def remember(step: Floats, change: Floats, fall: float, steps: Floats, changes: Floats, kept: Ints) -> None:
    """Add a pair in place, unless it bends no more than rounding. fall: minus the slope along the step at its start."""
    if np.dot(step, change) <= np.finfo(np.float64).eps * fall:
        return
    for i in range(len(step)):  # slower to compile as steps[place] = step
        steps[kept[1], i], changes[kept[1], i] = step[i], change[i]
    kept[0] = min(kept[0] + 1, MEMORY)
    kept[1] = (kept[1] + 1) % MEMORY


@njit(cache=True)
def first_step(search: Floats, value: float, slope: float, step: float) -> None:
    """Begin a line search (Moré & Thuente, 1994) from a value with a negative slope."""
    search[:] = 0.0
    search[STEP] = step
    search[BEST_VALUE] = search[OTHER_VALUE] = search[START_VALUE] = value
    search[BEST_SLOPE] = search[OTHER_SLOPE] = search[START_SLOPE] = slope
    search[HIGH] = 5.0 * step
    search[FIRST_STAGE] = 1.0
    search[WIDTH], search[WIDTH_BEFORE] = LONGEST, 2 * LONGEST


@njit(cache=True)
def next_step(search: Floats, value: float, slope: float) -> bool:
    """Take what was found at search[STEP]; True if that step will do, otherwise search[STEP] is the next to try."""
    step, low, high = search[STEP], search[LOW], search[HIGH]
    wanted = SUFFICIENT * search[START_SLOPE]
    test = search[START_VALUE] + step * wanted
    if search[FIRST_STAGE] and value <= test and slope >= 0:
        search[FIRST_STAGE] = 0.0
    stuck = search[BRACKETED] and (step <= low or step >= high or high - low <= NARROW * high)
    too_long = step == LONGEST and value <= test and slope <= wanted
    if stuck or too_long or (value <= test and abs(slope) <= -CURVATURE * search[START_SLOPE]):
        return True
    if search[FIRST_STAGE] and value <= search[BEST_VALUE] and value > test:
        # Until a step falls enough, search the function less the fall that is asked for.
        for place in (BEST, OTHER):
            search[place + 1] -= search[place] * wanted
            search[place + 2] -= wanted
        _narrow(search, value - step * wanted, slope - wanted)
        for place in (BEST, OTHER):
            search[place + 1] += search[place] * wanted
            search[place + 2] += wanted
    else:
        _narrow(search, value, slope)
    if search[BRACKETED]:
        if abs(search[OTHER] - search[BEST]) >= 0.66 * search[WIDTH_BEFORE]:
            search[STEP] = search[BEST] + 0.5 * (search[OTHER] - search[BEST])
        search[WIDTH_BEFORE] = search[WIDTH]
        search[WIDTH] = abs(search[OTHER] - search[BEST])
        search[LOW], search[HIGH] = min(search[BEST], search[OTHER]), max(search[BEST], search[OTHER])
    else:
        search[LOW] = search[STEP] + 1.1 * (search[STEP] - search[BEST])
        search[HIGH] = search[STEP] + 4.0 * (search[STEP] - search[BEST])
    search[STEP] = min(max(search[STEP], 0.0), LONGEST)
    low, high = search[LOW], search[HIGH]
    if search[BRACKETED] and (search[STEP] <= low or search[STEP] >= high or high - low <= NARROW * high):
        search[STEP] = search[BEST]
    return False


@njit(cache=True)
def _narrow(search: Floats, value: float, slope: float) -> None:
    """The next step by interpolation, and the interval that holds a minimum: Moré & Thuente (1994), section 4."""
    x, fx, dx = search[BEST], search[BEST_VALUE], search[BEST_SLOPE]
    y, fy, dy = search[OTHER], search[OTHER_VALUE], search[OTHER_SLOPE]
    t = search[STEP]
    turned = slope * (dx / abs(dx)) < 0
    if value > fx or turned or abs(slope) < abs(dx):  # a cubic through both ends
        theta = 3 * (fx - value) / (t - x) + dx + slope
        s = max(abs(theta), abs(dx), abs(slope))
    if value > fx:  # case 1: higher
        gamma = s * np.sqrt((theta / s) ** 2 - (dx / s) * (slope / s))
        gamma = -gamma if t < x else gamma
        cubic = x + ((gamma - dx) + theta) / (((gamma - dx) + gamma) + slope) * (t - x)
        square = x + dx / ((fx - value) / (t - x) + dx) / 2 * (t - x)
        new = cubic if abs(cubic - x) < abs(square - x) else cubic + (square - cubic) / 2
        search[BRACKETED] = 1.0
    elif turned:  # case 2: lower, with a slope of the other sign
        gamma = s * np.sqrt((theta / s) ** 2 - (dx / s) * (slope / s))
        gamma = -gamma if t > x else gamma
        cubic = t + ((gamma - slope) + theta) / (((gamma - slope) + gamma) + dx) * (x - t)
        secant = t + slope / (slope - dx) * (x - t)
        new = cubic if abs(cubic - t) > abs(secant - t) else secant
        search[BRACKETED] = 1.0
    elif abs(slope) < abs(dx):  # case 3: lower, with a flatter slope of the same sign
        gamma = s * np.sqrt(max(0.0, (theta / s) ** 2 - (dx / s) * (slope / s)))
        gamma = -gamma if t > x else gamma
        r = ((gamma - slope) + theta) / ((gamma + (dx - slope)) + gamma)
        if r < 0 and gamma != 0:
            cubic = t + r * (x - t)
        else:
            cubic = search[HIGH] if t > x else search[LOW]
        secant = t + slope / (slope - dx) * (x - t)
        if search[BRACKETED]:
            new = cubic if abs(cubic - t) < abs(secant - t) else secant
            bound = t + 0.66 * (y - t)
            new = min(bound, new) if t > x else max(bound, new)
        else:
            new = cubic if abs(cubic - t) > abs(secant - t) else secant
            new = min(max(new, search[LOW]), search[HIGH])
    elif search[BRACKETED]:  # case 4: lower, with a slope as steep
        theta = 3 * (value - fy) / (y - t) + dy + slope
        s = max(abs(theta), abs(dy), abs(slope))
        gamma = s * np.sqrt((theta / s) ** 2 - (dy / s) * (slope / s))
        gamma = -gamma if t > y else gamma
        new = t + ((gamma - slope) + theta) / (((gamma - slope) + gamma) + dy) * (y - t)
    else:
        new = search[HIGH] if t > x else search[LOW]
    if value > fx:
        search[OTHER], search[OTHER_VALUE], search[OTHER_SLOPE] = t, value, slope
    else:
        if turned:
            search[OTHER], search[OTHER_VALUE], search[OTHER_SLOPE] = x, fx, dx
        search[BEST], search[BEST_VALUE], search[BEST_SLOPE] = t, value, slope
    search[STEP] = new
