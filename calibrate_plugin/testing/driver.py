"""What a connector's platform must be able to do for the contract to be checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from calibrate_plugin.connector import Results, Source


@dataclass(frozen=True, slots=True)
class Held:
    """One answer as the platform holds it now. ``value`` is None where it was cleared."""

    item: str
    field: str
    rater: str
    value: Any


class Driver(ABC):
    """A platform with one field (``field``) of text answers, under the hands of a test.

    Items, raters and values are the test's own words; the driver makes of them whatever its platform needs, but the source
    must give back exactly these words. ``cannot`` maps what the platform is not able to do to the reason:
    ``edit``, ``clear``, ``delete``, ``delete_item``, ``delete_rater``, ``delete_job``, ``double``, ``skew``, ``fail``,
    ``push``.
    """

    field: ClassVar[str] = "quality"
    cannot: ClassVar[Mapping[str, str]] = {}
    secrets: Sequence[str] = ()

    @abstractmethod
    def source(self) -> Source:
        """A new source on the platform, as a new process would open it."""

    @abstractmethod
    def answer(self, item: str, rater: str, value: str) -> Any:
        """A rater answers an item; returns a handle of the answer."""

    def edit(self, answer: Any, value: str) -> None:
        """The answer is changed in place."""
        raise NotImplementedError

    def clear(self, answer: Any) -> None:
        """The answer is taken back but its record stays."""
        raise NotImplementedError

    def delete(self, answer: Any) -> None:
        """The answer's record is deleted."""
        raise NotImplementedError

    def delete_item(self, item: str) -> None:
        """What was judged is deleted, with everything that hangs on it."""
        raise NotImplementedError

    def delete_rater(self, rater: str) -> None:
        """The account of a rater is deleted; the platform may keep the answers."""
        raise NotImplementedError

    def delete_job(self) -> None:
        """The labelling job (project, dataset, file) is deleted."""
        raise NotImplementedError

    def double(self, answer: Any, old: str) -> None:
        """From now on a listing gives this answer's record a second time, later, with an old value."""
        raise NotImplementedError

    def skew(self, seconds: float) -> None:
        """The platform's clock is set ahead (or back) against ours."""
        raise NotImplementedError

    def fail(self, at: int | None) -> None:
        """The ``at``-th request from now on (from 1) fails on the way; None: no request fails any more."""
        raise NotImplementedError

    def many(self, answers: Sequence[tuple[str, str, str]]) -> None:
        """Many answers (item, rater, value) at once; more than one page of them."""
        for item, rater, value in answers:
            self.answer(item, rater, value)

    def settle(self) -> None:
        """Wait until what was written can be read, where the platform takes its time."""
        return

    def results(self, labels: Any) -> Results:
        """Results to push, for labels as the store knows them. Needed where the connector can push."""
        raise NotImplementedError

    def written(self) -> Any:
        """All that a push has left on the platform, in a form that can be compared."""
        raise NotImplementedError
