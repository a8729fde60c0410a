"""``calibrate-plugin serve``: webhooks in, numbers up to date, results back, and a page to look at."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path

import click

from calibrate_plugin.cli import output as out
from calibrate_plugin.cli.study import config_option, loaded, opened, stored
from calibrate_plugin.connector import SettingsError


@click.command()
@config_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Where to listen. Anything but this machine needs tokens or --proxy-header.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8700, show_default=True)
@click.option(
    "--proxy-header",
    metavar="NAME",
    help="The header that a proxy in front sets for those whom it let in, and takes from others.",
)
@click.option(
    "--debounce",
    type=click.FloatRange(0, 600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for more after a webhook.",
)
@click.option(
    "--poll",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to pull although nothing woke us.",
)
@click.option(
    "--reconcile",
    type=click.FloatRange(1),
    default=86_400.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to read everything again.",
)
@click.option("--no-push", is_flag=True, help="Write nothing back, whatever the settings say.")
def serve(
    config: Path,
    host: str,
    port: int,
    proxy_header: str | None,
    debounce: float,
    poll: float,
    reconcile: float,
    no_push: bool,
) -> None:
    """Serve a study: take webhooks, keep the numbers up to date, push them back, and show them at http://ADDRESS:PORT/.

    \b
    Secrets come from the environment, or from the file that NAME_FILE names:
      CALIBRATE_WEBHOOK_SECRET           proves Label Studio's webhooks
      CALIBRATE_LANGFUSE_SIGNING_SECRET  proves Langfuse's
      CALIBRATE_READ_TOKEN, CALIBRATE_WRITE_TOKEN  let people and programs in

    With a store on PostgreSQL several of these may serve one study; one at a time does the work.
    """
    try:
        import uvicorn

        from calibrate_plugin.server.access import Access
        from calibrate_plugin.server.app import application, guarded
        from calibrate_plugin.server.patience import Patient
        from calibrate_plugin.server.service import Pace, Service
    except ImportError as error:
        raise click.UsageError(f"{error.name} is not installed: pip install 'calibrate-plugin[server]'") from None

    settings = loaded(config)
    try:
        access = Access.of(host, proxy_header)
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs whole addresses
    with out.failures(), stored(settings) as store:
        sources = opened(settings)
        pace = Pace(debounce=debounce, cap=max(5 * debounce, debounce + 3), poll=poll, reconcile=reconcile)
        # After its own farewell uvicorn raises the signal again; then it is time to close the store and go.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        service = Service(settings, store, sources, pace, pushing=not no_push)
        uvicorn.run(
            guarded(application(service, access), access),
            host=host,
            port=port,
            http=Patient,
            log_config=None,
            access_log=False,  # ours knows what must not be written down
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=10,
            limit_concurrency=1000,
            lifespan="on",
        )
