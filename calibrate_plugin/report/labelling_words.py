"""How a dimension's labels came to be, in sentences for every screen."""

from __future__ import annotations

from collections.abc import Iterator

from calibrate_plugin.model import Goal, Labelling
from calibrate_plugin.ratings.rulings import CAUSES
from calibrate_plugin.report import display
from calibrate_plugin.report.calibration_words import Said

NAME = 40
JUDGES = 5


def of(found: Labelling | None) -> Iterator[Said]:
    """What there is to say, the target first."""
    if found is None:
        return
    if found.goals:
        reached = all(g.met for g in found.goals)
        told = "; ".join(goal(g, found.people) for g in found.goals)
        yield Said("target", "Target", f"{'reached' if reached else 'not reached yet'}: {told}")
    if found.moved:
        yield Said("target", "Target, moved", found.moved)
    if any(found.causes.values()):
        told = ", ".join(f"{n:,} because {CAUSES.get(cause, cause)}" for cause, n in found.causes.items() if n)
        n = sum(found.causes.values())
        yield Said("rulings", "Rulings on disagreements", f"{n:,}: {told}")
    if found.test_uses:
        yield Said("test", "Test split", worn(found))


def goal(found: Goal, people: int | None) -> str:
    """A goal and how far it is."""
    if found.what == "half_width":
        if found.reached is None:
            return f"kappa to within {found.asked:g}: {display.DASH} ({display.reason_name(found.reason)})"
        return f"kappa to within {found.asked:g}: {found.reached:.3f}"
    n, of_ = int(found.reached or 0), int(found.asked)
    if found.what == "gold":
        return f"{n:,} of {of_:,} gold items of the rarest class"
    return f"{n:,} of {of_:,} items answered by {people or 2} people"


def worn(found: Labelling) -> str:
    """How worn the test split is."""
    uses = sum(u.uses for u in found.test_uses)
    versions = len(found.test_uses)
    most = sorted(found.test_uses, key=lambda u: (-u.uses, u.evaluator, u.version))
    each = ", ".join(
        f"{display.clip(display.visible(f'{u.evaluator} {u.version}'.strip()), NAME)} {u.uses:,}" for u in most[:JUDGES]
    )
    more = f" and {versions - JUDGES} more" if versions > JUDGES else ""
    less = ". Each look makes its numbers less of a test" if uses > 1 else ""
    return f"looked at {display.plural(uses, 'time')} ({each}{more}){less}"


__all__ = ["goal", "of"]
