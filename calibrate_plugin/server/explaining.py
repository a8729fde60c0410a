"""Why a number changed, as a page asks: computed in the background and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibrate_plugin import history
from calibrate_plugin.connector import SettingsError
from calibrate_plugin.history import Moment
from calibrate_plugin.report import display
from calibrate_plugin.server.numbers import State
from calibrate_plugin.server.service import Service
from calibrate_plugin.server.versions import PATIENCE, Later
from calibrate_plugin.store import StoredReport
from calibrate_plugin.why import CAUSES, Explanation, Why, explain

OFFERED = 100  # kept reports to compare with
LISTED = 20  # labels behind a step


@dataclass(frozen=True, slots=True)
class Step:
    """A cause as a page shows it. ``changes``: item, who, before, after, and a link where there is one."""

    moved: str
    sentence: str
    changes: tuple[tuple[str, str, str, str, str | None], ...]
    more: int


@dataclass(frozen=True, slots=True)
class Told:
    """Why one number changed."""

    statistic: str
    evaluator: str
    sentence: str
    moved: str
    steps: tuple[Step, ...]


class Explaining:
    """Compares the numbers of now with those of a kept report."""

    def __init__(self, service: Service, later: Later) -> None:
        self.service, self.later = service, later

    def offered(self) -> Sequence[StoredReport]:
        """The kept reports that may be compared with, newest first."""
        return self.service.store.reports(OFFERED)

    def since(self, state: State, asked: str) -> Moment | None:
        """The moment that ``asked`` names (see ``history.moment``); with nothing asked the last report before these numbers.
        None where there is none. Raises ValueError."""
        if asked:
            return history.moment(self.service.store, asked)
        for kept in self.offered():
            if kept.number < state.number:
                return Moment(kept.number, kept.settings, kept.at)
        return history.previous(self.service.store)

    def of(self, state: State, dimension: str, since: Moment, patience: float = PATIENCE) -> Explanation | str | None:
        """None while it is computed; a text where it cannot be."""
        key = ("why", dimension, since.number, since.settings)
        return self.later.get(state, key, lambda: self._explained(state, dimension, since), patience)

    def _explained(self, state: State, dimension: str, since: Moment) -> Explanation | str:
        until = Moment(state.number, None, state.report.generated_at)
        try:
            return explain(self.service.store, self.service.config, since, until, dimension=dimension, listed=LISTED)
        except (ValueError, SettingsError) as error:
            return str(error)


def told(found: Explanation, statistic: str, evaluator: str) -> list[Told]:
    """The numbers that were asked for, as a page shows them; with no statistic all of them."""
    return [
        _told(one)
        for one in found.numbers
        if statistic in ("", one.statistic) and evaluator in ("", one.evaluator or "")
    ]


def _told(one: Why) -> Told:
    return Told(
        one.statistic,
        one.evaluator or "",
        one.sentence,
        "" if one.difference is None else _signed(float(one.difference)),
        tuple(
            Step(
                "" if step.step is None else _signed(float(step.step)),
                step.sentence or CAUSES.get(step.cause, step.cause),
                tuple(
                    (c.item or "", c.rater, _answer(c.before), _answer(c.after), display.web_link(c.link))
                    for c in step.changes
                ),
                max(0, step.n - len(step.changes)),
            )
            for step in one.steps
        ),
    )


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")


def _answer(value: str | None) -> str:
    return display.DASH if value is None else value.strip('"')
