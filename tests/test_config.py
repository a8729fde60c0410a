"""Settings: what is read, and what every wrong one says: file, key, value, way out."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from calibrate_plugin.config import Config, edit, load, read
from calibrate_plugin.connector import SettingsError

BASE = """\
[study]
name = "s"

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]

[sources.people]
connector = "files"
file = "a.csv"
"""
WHOLE = """\
[study]
name = "support-agent"
seed = 7
resamples = 2000
level = 0.9
margin = 0.05
bands = "mchugh"
count_not_blind = true
store = "kept/here.db"

[dimensions.Safety]
scale = "binary"
values = ["Pass", "Fail"]
map = { "1" = "Pass", "0" = "Fail" }
abstain = "unsure"
pass_if = ">= 0.5"

[dimensions.Empathy]
scale = "rating"
min = 1
max = 5

[dimensions.Flaws]
scale = "choices"
values = ["tone", "format"]
map = { "Tone of voice" = "tone" }

[dimensions.Better]
scale = "preference"
values = ["A", "B", "tie"]
fixed = false
flipped = "tie"

[sources.people]
connector = "label-studio"
file = "project-12.json"
projects = [12, 13]
item = "data.trace_id"
labels = { Safety = "safety", Flaws = "flaws" }

[sources.judges]
connector = "langfuse"
file = "scores.jsonl"
labels = { Safety = ["safety-judge", "safety-judge-b"], Empathy = "empathy-judge" }
live = { safety-judge = "v3", Empathy = { empathy-judge = "" }, Flaws = { flaws-judge = "v1" } }
since = 2026-10-01

[people]
"ann@example.com" = ["people:3", "judges:clx1"]
ben = "people:a:b"

[kinds]
boss = "gold"

[ignore]
annotators = ["test"]
jobs = [7, "8"]
runs = ["r1"]

[push.judges]
[push.people]
reveal = true
"""


def config(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "calibrate.toml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def test_a_whole_study_is_read(tmp_path: Path) -> None:
    found = config(tmp_path, WHOLE)
    study = found.study
    assert (study.name, study.seed, study.resamples, study.level, study.margin) == ("support-agent", 7, 2000, 0.9, 0.05)
    assert (study.bands, study.count_not_blind) == ("mchugh", True)
    assert [d.name for d in study.dimensions] == ["Safety", "Empathy", "Flaws: tone", "Flaws: format", "Better"]
    safety, _, tone, _, better = study.dimensions
    assert safety.map == {"1": "Pass", "0": "Fail"}
    assert safety.abstain == ("unsure",)
    assert safety.pass_if == {"*": (">=", Fraction(1, 2))}
    assert (tone.choice, tone.scale.labels, tone.map) == ("tone", ("yes", "no"), {"Tone of voice": "tone"})
    assert (better.scale.fixed, better.flipped) == (False, "tie")
    assert study.people == {
        ("people", "3"): "ann@example.com",
        ("judges", "clx1"): "ann@example.com",
        ("people", "a:b"): "ben",
    }
    assert study.kinds == {"boss": "gold"}
    assert study.ignore == {"annotators": ("test",), "jobs": ("7", "8"), "runs": ("r1",)}


def test_each_source_keeps_what_belongs_to_its_connector(tmp_path: Path) -> None:
    found = config(tmp_path, WHOLE)
    people, judges = found.sources["people"], found.sources["judges"]
    assert (people.connector, people.file) == ("label-studio", tmp_path / "project-12.json")
    assert people.options == {"projects": [12, 13], "item": "data.trace_id"}
    assert (judges.since, judges.push, people.push) == (date(2026, 10, 1), {}, {"reveal": True})
    assert found.document["study"]["name"] == "support-agent"


def test_fields_answer_their_dimensions_and_a_dimension_its_own_name_where_nothing_is_said(tmp_path: Path) -> None:
    fields = config(tmp_path, WHOLE).study.fields
    assert fields["people", "safety"] == ("Safety",)
    assert fields["judges", "safety-judge-b"] == ("Safety",)
    assert fields["people", "flaws"] == ("Flaws: tone", "Flaws: format")
    assert fields["people", "Empathy"] == ("Empathy",)


def test_a_live_version_is_for_all_dimensions_or_for_one(tmp_path: Path) -> None:
    assert config(tmp_path, WHOLE).study.live == {
        ("", "safety-judge"): "v3",
        ("Empathy", "empathy-judge"): "",
        ("Flaws: tone", "flaws-judge"): "v1",
        ("Flaws: format", "flaws-judge"): "v1",
    }


def test_files_and_the_store_lie_beside_the_settings(tmp_path: Path) -> None:
    assert config(tmp_path, WHOLE).store == str(tmp_path / "kept/here.db")
    assert config(tmp_path, BASE).store == str(tmp_path / "calibrate.db")
    url = "postgresql://somewhere/db"
    assert config(tmp_path, BASE.replace('name = "s"', f'name = "s"\nstore = "{url}"')).store == url


def test_ids_of_another_server_get_a_prefix_and_those_of_one_server_none(tmp_path: Path) -> None:
    source = '\n[sources.{0}]\nconnector = "{1}"\nfile = "{0}.json"\n'
    same = config(tmp_path, BASE + source.format("one", "label-studio") + source.format("two", "label-studio"))
    assert same.study.namespaces == {}
    other = config(
        tmp_path, BASE + source.format("one", "label-studio") + source.format("two", "label-studio") + 'env = "PROD"\n'
    )
    assert other.study.namespaces == {"two": "two:"}


def test_a_byte_order_mark_is_no_part_of_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "calibrate.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    assert load(path).study.name == "s"


def test_the_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    study = config(tmp_path, BASE).study
    assert (study.seed, study.resamples, study.level, study.margin) == (0, 5000, 0.95, 0.10)
    assert (study.bands, study.count_not_blind, study.live, study.people) == ("landis-koch", False, {}, {})


# files that cannot be read


def test_a_missing_file_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no such file; `calibrate-plugin init` writes one"):
        load(tmp_path / "none.toml")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is a folder; name the file, e.g. .*calibrate.toml"):
        load(tmp_path)


def test_another_encoding_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "calibrate.toml"
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(SettingsError, match=r"calibrate.toml: not UTF-8 .byte 8.; save it as UTF-8"):
        load(path)


def test_broken_toml_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"calibrate.toml: .*at line 11"):
        config(tmp_path, BASE + "x = \n")


# settings that cannot be meant


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('name = "s"|', "study.name is missing; add it"),
        ('name = "s"|name = 3', "study.name is 3: input should be a valid string"),
        ('name = "s"|name = "s"\nsede = 3', "study.sede is not a key of this table; check its spelling"),
        ('name = "s"|name = "s"\nresamples = 10', "study.resamples is 10: input should be greater than or equal to 200"),
        ('name = "s"|name = "s"\nlevel = 95', "study.level is 95: input should be less than 1"),
        ('name = "s"|name = "s"\nmargin = 0', "study.margin is 0: input should be greater than 0"),
        ('name = "s"|name = "s"\nseed = "x"', "study.seed is 'x': input should be a valid integer"),
        ('name = "s"|name = "s"\nbands = "x"', "study.bands is 'x': input should be 'landis-koch', 'mchugh' or 'krippendorff'"),
        ('[study]\nname = "s"|', "study is missing; add a table [study]"),
        ('scale = "binary"|scale = "likert"', "dimensions.Safety.scale is 'likert': input should be 'binary', 'nominal', "),
        ('scale = "binary"|', "dimensions.Safety.scale is missing; add it"),
        ('values = ["Pass", "Fail"]|', "dimensions.Safety.values are []; a binary scale has two values"),
        ('values = ["Pass", "Fail"]|values = "Pass"', "dimensions.Safety.values is 'Pass': input should be a valid list"),
        ('values = ["Pass", "Fail"]|values = [["Pass"], "Fail"]', "dimensions.Safety.values.0 is: input should be a valid string or a valid integer or a valid number or a valid boolean"),
        ('connector = "files"|', "sources.people.connector is missing; add it"),
        ('file = "a.csv"|file = 3', "sources.people.file is 3: input should be a valid string"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_told_with_file_key_value_and_way_out(tmp_path: Path, change: str, message: str) -> None:
    old, new = change.split("|")
    assert BASE.count(old) == 1
    with pytest.raises(SettingsError) as told:
        config(tmp_path, BASE.replace(old, new))
    assert f"{tmp_path / 'calibrate.toml'}: {message}" in str(told.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[dimensions.integrity]\nscale = "rating"\nmin = "a"', "dimensions.integrity.min is 'a': input should be a valid integer or a valid number"),
        ('[dimensions.X]\nscale = "rating"\nmin = 1\nmax = 5\nstep = "x"', "dimensions.X.step is 'x': input should be a valid integer or a valid number or 'any'"),
        ('[dimensions.X]\nscale = "rating"\nmin = 1\nmax = 1', "dimensions.X.max is 1 but min is 1; give the top of the scale, e.g. max = 5"),
        ('[dimensions.X]\nscale = "rating"\nmin = 0\nmax = inf', "dimensions.X.max: 'inf' is not a number"),
        ('[dimensions.X]\nscale = "nominal"\nvalues = ["a", "b"]\nmap = { x = 1 }', "dimensions.X.map.x is 1: input should be a valid string"),
        ('[dimensions.X]\nscale = "nominal"\nvalues = ["a", "b"]\nmap = { x = "q" }', "dimensions.X.map sends 'x' to 'q', which is not on the scale; it has a, b"),
        ('[dimensions.X]\nscale = "nominal"\nvalues = ["a", "b"]\nmin = 1', "dimensions.X.min belongs to a rating scale, but this one is nominal; take it out"),
        ('[dimensions.X]\nscale = "choices"', "dimensions.X.values is empty; list the choices"),
        ('[dimensions.X]\nscale = "choices"\nvalues = ["a", "A"]', "dimensions.X.values are ['a', 'A']; one is named more than once"),
        ('[dimensions.X]\nscale = "choices"\nvalues = ["a"]\nfixed = true', "dimensions.X.fixed means nothing where choices are ticked; take it out"),
        ('[dimensions.X]\nscale = "choices"\nvalues = ["a", "b"]\nmap = { x = "q" }', "dimensions.X.map sends 'x' to 'q', which is not on the scale; it has a, b"),
        ('[dimensions.X]\nscale = "choices"\nvalues = ["a"]\n[dimensions."X: a"]\nscale = "binary"\nvalues = ["y", "n"]', 'dimensions."X: a" is declared twice; give one of them another name'),
        ('[dimensions.""]\nscale = "binary"\nvalues = ["y", "n"]', 'dimensions."" has no name; give it one, e.g. [dimensions.Safety]'),
        ("[dimension.X]", "dimension is not a key of this table; check its spelling"),
        ('[sources.two]\nconnector = "files"\nlabels = { Sfety = "x" }', "sources.two.labels.Sfety is no dimension; there are: Safety"),
        ('[sources.two]\nconnector = "files"\nlabels = { Safety = 3 }', "sources.two.labels.Safety is 3: input should be a valid list"),
        ('[sources.two]\nconnector = "files"\nlive = { judge = 3 }', "sources.two.live.judge is 3: input should be a valid string or a valid dictionary"),
        ('[sources.two]\nconnector = "files"\nlive = { Nope = { judge = "v1" } }', "sources.two.live.Nope is no dimension; there are: Safety"),
        ('[sources.two]\nconnector = "files"\nsince = "2026-01-01"', "sources.two.since is '2026-01-01': write a day without quotes, e.g. 2026-10-01"),
        ('[sources.two]\nconnector = "files"\nsince = 2026-01-01T01:00:00Z', "sources.two.since is '2026-01-01T01:00:00+00:00': write a day without quotes"),
        ('[people]\nann = ["3"]', "people.\"ann\" has '3'; write SOURCE:ID with a source among people"),
        ('[people]\nann = ["nope:3"]', "people.\"ann\" has 'nope:3'; write SOURCE:ID with a source among people"),
        ('[people]\nann = "people:3"\nben = "people:3"', "people names 'people:3' twice, as 'ann' and as 'ben'"),
        ('[kinds]\nann = "robot"', "kinds.ann is 'robot': input should be 'annotator', 'evaluator' or 'gold'"),
        ("[ignore]\njobs = [1.5]", "ignore.jobs.0 is 1.5: input should be a valid string or a valid integer"),
        ("[push.nope]", "push.nope names no source; there are: people"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_told_with_file_key_value_and_way_out(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(SettingsError) as told:
        config(tmp_path, f"{BASE}\n{more}\n")
    assert f"{tmp_path / 'calibrate.toml'}: {message}" in str(told.value)


def test_a_study_needs_a_dimension_and_a_source() -> None:
    path = Path("calibrate.toml")
    safety = {"Safety": {"scale": "binary", "values": ["Pass", "Fail"]}}
    with pytest.raises(SettingsError, match=r"dimensions is empty; declare one, e.g. \[dimensions.Safety\]"):
        read({"study": {"name": "s"}, "dimensions": {}, "sources": {}}, path)
    with pytest.raises(SettingsError, match=r"sources is empty; declare one, e.g. \[sources.people\]"):
        read({"study": {"name": "s"}, "dimensions": safety, "sources": {}}, path)
    with pytest.raises(SettingsError, match=r"sources\.study is where the study itself speaks"):
        read({"study": {"name": "s"}, "dimensions": safety, "sources": {"study": {"connector": "files"}}}, path)


def test_each_wrong_key_is_told_once_and_all_of_them_together(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as told:
        config(tmp_path, BASE.replace('name = "s"', 'name = 3\nseed = "x"') + "[kinds]\na = 1\n")
    assert len(str(told.value).splitlines()) == 3


def test_a_file_nested_without_end_is_a_settings_error(tmp_path: Path) -> None:
    path = tmp_path / "calibrate.toml"
    path.write_text("a = " + "[" * 5000)
    with pytest.raises(SettingsError, match="nested too deeply"):
        load(path)


def test_settings_are_changed_in_place_and_only_to_what_can_work(tmp_path: Path) -> None:
    kept = tmp_path / "kept.toml"
    kept.write_text(BASE.replace("[study]", "# ours\n[study]"))
    kept.chmod(0o640)
    path = tmp_path / "calibrate.toml"
    path.symlink_to(kept)

    def margin(value: object) -> bool:
        def change(document: Any) -> bool:
            document["study"]["margin"] = value
            return True

        return edit(path, change)

    assert margin(0.05)
    assert path.is_symlink() and kept.stat().st_mode & 0o777 == 0o640
    assert load(path).study.margin == 0.05 and "# ours" in kept.read_text()
    before = kept.read_text()
    with pytest.raises(SettingsError, match=r"study\.margin"):
        margin("wide")
    assert kept.read_text() == before
    assert not edit(path, lambda document: False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["calibrate.toml", "kept.toml"]
