"""A file can show what its items are, beside their labels or in a file of facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrate_plugin.connector import Contents, SettingsError, SourceSettings, open_source

HEAD = "item,dimension,rater,kind,value"


def source(file: Path, **options: object) -> Contents:
    found = open_source(SourceSettings("judges", "files", file=file, options=options))
    assert isinstance(found, Contents)
    return found


def test_columns_beside_the_labels_show_the_items(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    chat = json.dumps([{"role": "user", "content": "hi"}]).replace('"', '""')
    file.write_text(f'{HEAD},input,output\na,Safety,j,judge,Pass,"{chat}",fine\nb,Safety,j,judge,Fail,plain,\n')
    a, b, c = source(file).contents(["a", "b", "c"])
    assert (a.input, a.output, a.context) == ([{"role": "user", "content": "hi"}], "fine", None)
    assert b.input == "plain" and not b.output
    assert "no column that shows it (input, output, context)" in c.problem


def test_the_file_of_facts_shows_them_too(tmp_path: Path) -> None:
    file, facts = tmp_path / "labels.csv", tmp_path / "facts.jsonl"
    file.write_text(f"{HEAD}\na,Safety,j,judge,Pass\n")
    facts.write_text(json.dumps({"item": "a", "input": "q", "output": "[not json", "context": "doc"}) + "\n")
    (a,) = source(file, facts=str(facts)).contents(["a"])
    assert (a.input, a.output, a.context) == ("q", "[not json", "doc")


def test_a_file_knows_no_sessions(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(f"{HEAD}\na,Safety,j,judge,Pass\n")
    with pytest.raises(SettingsError, match="name a column"):
        source(file).groups(["a"], "session")
