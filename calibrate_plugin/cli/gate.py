"""``calibrate-plugin gate``: go on, or stop."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, stored
from calibrate_plugin.connector import SettingsError

if TYPE_CHECKING:
    from calibrate_plugin.config import Config
    from calibrate_plugin.gate import Outcome


@click.command()
@config_option
@click.option("--rule", "extra", multiple=True, metavar="RULE", help="One more rule; repeatable.")
@click.option("--baseline", type=click.Path(path_type=Path), help="A report as JSON, for rules on a change.")
@click.option(
    "--only",
    "limits",
    multiple=True,
    metavar="FACT=VALUE",
    help="Only what has this fact, e.g. split=test; repeatable.",
)
@click.option("--junit", type=click.Path(path_type=Path), help="Write the outcomes there as JUnit XML.")
def gate(config: Path, extra: Sequence[str], baseline: Path | None, limits: Sequence[str], junit: Path | None) -> None:
    """Check the rules of [gate] on the facts of the last run (or on the sources, where there was none).

    Rules are on intervals and counts, e.g. "Safety: judge.kappa.lower >= 0.4". On GitHub the outcomes go to the job's summary.

    Exit codes: 0 every rule holds, 3 one does not, 4 none fails but one is undefined, 1 the data cannot be read, 2 the call
    or the settings are wrong.

    \b
    calibrate-plugin gate --baseline main.json --junit gate.xml
    """
    from calibrate_plugin import gate as rules
    from calibrate_plugin.report.display import visible_lines

    settings = loaded(config)
    try:
        outcomes = outcomes_of(settings, extra, baseline, limits)
    except SettingsError as error:
        where = f"{config}: " if str(error).startswith("gate.") else ""
        raise click.UsageError(f"{where}{error}") from None
    for o in outcomes:
        click.echo(f"{o.outcome:<9} {visible_lines(o.sentence)}")
    if junit is not None:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(rules.junit(outcomes, settings.study.name), encoding="utf-8")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(rules.summary(outcomes, settings.study.name))
    if code := rules.exit_code(outcomes):
        raise click.exceptions.Exit(code)


def outcomes_of(
    settings: Config, extra: Sequence[str] = (), baseline: Path | None = None, limits: Sequence[str] = ()
) -> list[Outcome]:
    """The outcomes of the rules in the settings, and of ``extra`` ones. Raises SettingsError."""
    from calibrate_plugin import cycle
    from calibrate_plugin import gate as rules

    found = rules.rules_of(settings.gate.rules, settings.study) + rules.rules_of(extra, settings.study, "rule")
    if not found:
        raise SettingsError('gate.rules is empty; write e.g. rules = ["judge.kappa.lower >= 0.4"]')
    only, run = out.limits_of(limits, None)
    before = None if baseline is None else _read(baseline)
    with out.failures(), stored(settings) as store:
        pulled = cycle.pulled(store) if store.latest() else out.pull_all(settings.sources)
        with out.progress("computing"):
            study = cycle.keyed(store, settings.study)
            report, ratings = out.built(study, pulled, (), run, only)
            report = cycle.finished(store, settings, report, study, ratings, pulled, "gate")
            return rules.check(report, found, baseline=before)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"--baseline {path}: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"--baseline {path}: not JSON ({error})") from None
    if not isinstance(found, dict) or not str(found.get("schema", "")).startswith("calibrate-plugin/report/"):
        raise SettingsError(f"--baseline {path}: not a report; make one with `calibrate-plugin run --format json`")
    return found
