"""The command line. Commands are imported when they are called for, so that each starts fast."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

# A report multiplies many small matrices; threads for them only wait for each other, at twice the processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = {
    "init": "calibrate_plugin.cli.init:init",
    "report": "calibrate_plugin.cli.report:report",
    "run": "calibrate_plugin.cli.run:run",
    "check": "calibrate_plugin.cli.check:check",
    "versions": "calibrate_plugin.cli.versions:versions",
    "push": "calibrate_plugin.cli.push:push",
    "unpush": "calibrate_plugin.cli.push:unpush",
    "split": "calibrate_plugin.cli.split:split",
    "guideline": "calibrate_plugin.cli.guideline:guideline",
    "disagreements": "calibrate_plugin.cli.disagreements:disagreements",
    "history": "calibrate_plugin.cli.history:history",
    "why": "calibrate_plugin.cli.why:why",
    "gate": "calibrate_plugin.cli.gate:gate",
    "alerts": "calibrate_plugin.cli.alerts:alerts",
    "forget": "calibrate_plugin.cli.forget:forget",
    "plan": "calibrate_plugin.cli.plan:plan",
    "sample": "calibrate_plugin.cli.sample:sample",
    "serve": "calibrate_plugin.cli.serve:serve",
    "webhooks": "calibrate_plugin.cli.webhooks:webhooks",
    "completion": "calibrate_plugin.cli.completion:completion",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            rows = [(n, c.get_short_help_str(80)) for n in COMMANDS if (c := self.get_command(ctx, n)) is not None]
            formatter.write_dl(rows)


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="calibrate-plugin")
def main(**_: Any) -> None:
    """Is the LLM judge as good as another human?

    Joins human annotations with judge scores and reports, per dimension, how well the annotators agree with each other
    and each judge with them: with counts, intervals, and the reason where a number is undefined.

    Exit codes: 0 all is well, 1 the data cannot be read or used, 2 the call or the settings are wrong.
    """
