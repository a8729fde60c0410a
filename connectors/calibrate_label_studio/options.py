"""What a study says about Label Studio: the keys of ``[sources.NAME]`` that only this connector knows."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from calibrate_label_studio.annotations import PREDICTION, Reading
from calibrate_plugin.connector import SettingsError, SourceSettings

#: The keys, and what they mean.
KNOWN = {
    "item": "where a task names its item: `data.trace_id`, nested `data.meta.id`, `id` (the default: the task itself)",
    "reasons": 'the textarea with the written reason, for all (`"why"`) or by dimension (`{ Safety = "why" }`); by default the only one',
    "predictions": 'predictions as an evaluator: `true`, model versions, or `{ judge = ["judge-1", ...] }`; left out by default',
    "ground_truth": "which stars are gold: `person` (set by a person, the default), `all` (by an import too), `none`",
    "url": "the server's address, for links, and instead of LABEL_STUDIO_URL",
    "project_config": "of a file: the labelling configuration, as XML or as the project's JSON",
    "projects": "of a server: the ids of the projects",
    "closed": "projects in which labelling is over, so that per-task results may be shown there",
    "ca_file": "certificates to trust, instead of SSL_CERT_FILE",
    "proxy": "the proxy to go through, instead of HTTPS_PROXY",
}


def check_keys(settings: SourceSettings) -> None:
    """Raises SettingsError for a key that means nothing here."""
    if settings.since is not None:
        raise SettingsError(f"sources.{settings.name}.since: Label Studio is always read whole; leave it out")
    for key in settings.options:
        if key not in KNOWN:
            near = get_close_matches(key, KNOWN, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(sorted(KNOWN))}"
            raise SettingsError(f"sources.{settings.name}.{key}: Label Studio knows no such key; {hint}")


def reading(settings: SourceSettings) -> Reading:
    """How tasks are to be read. Raises SettingsError."""
    options = settings.options
    ground_truth = options.get("ground_truth", "person")
    if ground_truth not in ("person", "all", "none"):
        raise SettingsError(
            f'sources.{settings.name}.ground_truth is {ground_truth!r}; it is "person" (stars that a person set are gold),'
            ' "all" (those of an import too) or "none" (no star is)'
        )
    return Reading(
        item=_item(settings),
        fields=settings.fields,
        reasons=_reasons(settings),
        predictions=_predictions(settings),
        ground_truth=ground_truth,
        url=address(settings),
    )


def _item(settings: SourceSettings) -> tuple[str, ...]:
    path = settings.options.get("item", "id")
    if not isinstance(path, str) or not path.strip("."):
        raise SettingsError(
            f'sources.{settings.name}.item is {path!r}; give a path in a task, like "data.trace_id" or "id"'
        )
    return tuple(path.split("."))


def _reasons(settings: SourceSettings) -> Mapping[str | None, str] | None:
    given: Any = settings.options.get("reasons")
    if given is None:
        return None
    if isinstance(given, str):
        return {None: given}
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for text in given.values()):
        raise SettingsError(
            f"sources.{settings.name}.reasons: give the textarea of each dimension, like {{ Safety = 'why' }}"
        )
    return {control: text for name, text in given.items() for control in settings.labels.get(name, (name,))}


def _predictions(settings: SourceSettings) -> Mapping[str, frozenset[str] | None]:
    given: Any = settings.options.get("predictions", False)
    if given is False:
        return {}
    if given is True:
        return {PREDICTION: None}
    by_name = given if isinstance(given, Mapping) else {PREDICTION: given}
    for versions in by_name.values():
        if not isinstance(versions, list | tuple) or not all(isinstance(version, str) for version in versions):
            raise SettingsError(
                f"sources.{settings.name}.predictions is {given!r}; it is true, a list of model versions,"
                ' or a table { "name of the judge" = ["model version", ...] }'
            )
    return {str(name): frozenset(versions) for name, versions in by_name.items()}


def address(settings: SourceSettings) -> str | None:
    """The server's address as the study gives it, without a slash at its end."""
    url: Any = settings.options.get("url")
    return None if url is None else checked_address(url, f"sources.{settings.name}.url")


def checked_address(url: Any, called: str) -> str:
    """``url``, if it is the address of a server and nothing more. Raises SettingsError, which shows no password."""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{called} is no address; give one like https://label-studio.example.com")
    if parts.username or parts.password:
        raise SettingsError(f"{called} holds a user name or password; give the key in LABEL_STUDIO_API_KEY")
    if parts.query or parts.fragment:
        raise SettingsError(f"{called} goes on after the path; give the address alone")
    return str(url).rstrip("/")


def beside(settings: SourceSettings, path: Any, key: str) -> Path:
    """A path of the study: as it stands, else beside the source's file. Raises SettingsError."""
    if not isinstance(path, str | Path):
        raise SettingsError(f"sources.{settings.name}.{key} is {path!r}; give the path of a file")
    found = Path(path)
    if not found.is_absolute() and not found.exists() and settings.file is not None:
        found = settings.file.parent / found
    return found
