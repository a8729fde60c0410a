"""The study's guideline: read from its file, and every text of it kept in the store."""

from __future__ import annotations

from calibrate_plugin.config import Config
from calibrate_plugin.connector import SettingsError
from calibrate_plugin.planning.guideline import Guideline, parse, texts
from calibrate_plugin.store import Store
from calibrate_plugin.store.labelling import guidelines, keep_guideline

#: A longer text is none that anybody reads before labelling.
LONGEST = 1_000_000


def current(config: Config) -> Guideline | None:
    """The guideline that ``[study] guideline`` names, None where it names none. Raises SettingsError."""
    path = config.guideline
    if path is None:
        return None
    try:
        if path.stat().st_size > LONGEST:
            raise SettingsError(f"{path}: larger than {LONGEST:,} bytes; a guideline is a text that people read")
        return parse(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SettingsError(f"{path}: there is no such file; `calibrate-plugin guideline init` writes one") from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None


def version_now(config: Config) -> str | None:
    """The version that labels are given under now; None where nothing says so."""
    try:
        found = current(config)
    except SettingsError:
        return None
    return (found.version or None) if found is not None else None


def keep(store: Store, config: Config) -> Guideline | None:
    """Keep the guideline's text as it is now, once it says its version; gives it. Raises SettingsError."""
    found = current(config)
    if found is not None and found.version:
        keep_guideline(store, found.version, found.text)
    return found


def known(store: Store) -> dict[str, Guideline]:
    """The last text of each version that was seen."""
    return dict(texts((g.version, g.text) for g in guidelines(store)))


__all__ = ["current", "keep", "known", "version_now"]
