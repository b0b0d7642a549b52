"""When a latent is active (Duan et al. 2020: informative): one rule for rankings, studies, pictures and pages."""

from collections.abc import Iterable

# Nats of KL from the prior, mean over the inputs. Duan et al. (2020), equation 3, have 0.01, for long runs, whose
# latents are far above or far below it; benchmarks/informative_latents.py chose this on shorter ones.
ACTIVE_KL = 0.05
CLEARLY = 2.0  # times the threshold: nearer to it a latent of a short run may be noise, and no model is chosen for it
CLEAR_KL = CLEARLY * ACTIVE_KL


def near_threshold(kl: Iterable[Iterable[float]], threshold: float) -> str:
    """Return a warning if KLs of some models (a row each) lie within a factor of 2 of the threshold, else "".

    >>> print(near_threshold([[2.0, 0.3, 0.01], [2.0, 0.15, 0.06]], 0.1).replace(": ", "\\n"))
    2 latents of 1 of the 2 models have a KL near kl_threshold=0.1 (0.05 to 0.2)
    rank again with kl_threshold=0.05 and 0.2, and see whether the order holds
    """
    near = [sum(threshold / 2 < float(value) < 2 * threshold for value in row) for row in kl]
    if not any(near):
        return ""
    count, models = sum(near), sum(n > 0 for n in near)
    which = f"{count} latent{'s' * (count > 1)} of {models} of the {len(near)} models"
    low, high = f"{threshold / 2:g}", f"{2 * threshold:g}"
    near_it = f"{'have' if count > 1 else 'has'} a KL near kl_threshold={threshold:g} ({low} to {high})"
    return f"{which} {near_it}: rank again with kl_threshold={low} and {high}, and see whether the order holds"
