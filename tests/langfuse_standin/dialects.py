"""What the server versions differ in, as far as it was recorded or stands in their contracts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """``write_mode``: legacy (traces tables), dual (both), events_only (events; v1 and v2 reads are 404).

    ``evaluators``: none, unstable, v2. ``newest_wins_ties``: of two events with one timestamp the one that came last
    counts (documented from 4.59 on); before, the one with the smaller event id, or the first of one batch, does.
    """

    name: str
    version: str
    write_mode: str = "legacy"
    v2_scores: bool = True
    v3_scores: bool = True
    list_post: bool = False
    source_in_post: bool = True
    other_subjects: bool = True  # a score may hang on a session or a dataset run
    experiments: bool = True  # the routes exist (in legacy mode they only say that they need v4)
    evaluators: str = "unstable"
    newest_wins_ties: bool = False

    @property
    def events_only(self) -> bool:
        return self.write_mode == "events_only"


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "3.50",
            "3.50.0",
            v2_scores=False,
            v3_scores=False,
            source_in_post=False,
            other_subjects=False,
            experiments=False,
            evaluators="none",
        ),
        Dialect("3.150", "3.150.0", v3_scores=False, source_in_post=False, experiments=False, evaluators="none"),
        Dialect("3.225", "3.225.4"),
        Dialect("4.16-dual", "4.16.0", write_mode="dual"),
        Dialect("4.16-events-only", "4.16.0", write_mode="events_only"),
        Dialect("4.35", "4.35.0", write_mode="events_only", evaluators="v2"),
        Dialect(
            "4.59",
            "4.59.0",
            write_mode="events_only",
            list_post=True,
            evaluators="v2",
            newest_wins_ties=True,
        ),
    )
}
