"""Reading of small exports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from label_studio_cases import Read, Reader

from calibrate_plugin.connector import SourceSettings, open_source


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Write tasks (or text, or bytes) to a file and read it with these options."""

    def reading(
        content: Any, labels: dict[str, tuple[str, ...]] | None = None, name: str = "export.json", **options: Any
    ) -> Read:
        path = tmp_path / name
        if isinstance(content, Path):
            path = content
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        settings = SourceSettings("people", "label-studio", file=path, labels=labels or {}, options=options)
        return Read(list(open_source(settings).pull()))

    return reading
