"""``calibrate-plugin completion``: completion for the shell in use."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print completion for SHELL.

    \b
    bash: eval "$(calibrate-plugin completion bash)"      in ~/.bashrc
    zsh:  eval "$(calibrate-plugin completion zsh)"       in ~/.zshrc
    fish: calibrate-plugin completion fish | source       in ~/.config/fish/config.fish
    """
    root = ctx.find_root().command
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(root, {}, "calibrate-plugin", "_CALIBRATE_PLUGIN_COMPLETE").source())
