"""What a task holds of an item: messages of plain text, and the addresses of pictures.

Everything becomes text that the tags ``Text`` and ``Paragraphs`` show as it is, so that HTML and script in it stay text.
Nothing is left out silently: what is longer than ``LONGEST`` ends in a note that says how much is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from calibrate_label_studio.annotations import clean

#: Characters of one part (input, output, context) that are shown; a browser can scroll through that.
LONGEST = 200_000
#: Pictures of one item that are shown.
MOST_PICTURES = 20
#: How Langfuse refers to a picture or a sound that it keeps itself.
KEPT = re.compile(r"@@@langfuseMedia:type=([^|@]+)\|id=[^@]*@@@")
DATA = re.compile(r"data:([a-z]+/[a-z0-9.+-]+);base64,[A-Za-z0-9+/=\s]{64,}")
WHO = ("role", "author", "speaker")
SAID = ("content", "text", "parts", "refusal")

Message = dict[str, str]


class Shown:
    """The messages and pictures of a value, as they were found."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.pictures: list[str] = []

    def say(self, author: str, text: str) -> None:
        text = _plain(text)
        if text.strip():
            self.messages.append({"author": _plain(author)[:80], "text": text})

    def take(self, value: Any, author: str = "") -> None:
        """A text, a chat message, a list of them, or an object of named parts."""
        if value is None:
            return
        if isinstance(value, str):
            self.say(author, value)
        elif isinstance(value, list):
            if all(isinstance(one, str | int | float | bool) for one in value):
                self.say(author, "\n".join(map(_text, value)))
            else:
                for one in value:
                    self.take(one, author)
        elif isinstance(value, Mapping):
            self._object(value, author)
        else:
            self.say(author, _text(value))

    def _object(self, value: Mapping[str, Any], author: str) -> None:
        if self._part(value, author):
            return
        who = next((str(value[k]) for k in WHO if isinstance(value.get(k), str)), None)
        if who is not None and any(k in value for k in (*SAID, "tool_calls", "function_call")):
            self._message(value, who)
            return
        if set(value) <= {"name", "output"} and "output" in value:  # a step of a trace
            self.take(value["output"], str(value.get("name") or author))
            return
        for key, inner in value.items():
            if key == "messages" and isinstance(inner, list):
                self.take(inner, author)
            elif isinstance(inner, list | Mapping) and not _chat(inner):
                self.say(str(key), _pretty(inner))
            else:
                self.take(inner, str(key))

    def _message(self, value: Mapping[str, Any], who: str) -> None:
        name = value.get("name")
        author = f"{who} {name}" if isinstance(name, str) and name else who
        for key in SAID:
            if key in value:
                self.take(value[key], author)
        calls = value.get("tool_calls")
        # One call stood in function_call before there could be several.
        for call in (*(calls if isinstance(calls, list) else [calls]), value.get("function_call")):
            if isinstance(call, Mapping):
                self._call(call, author)

    def _call(self, call: Mapping[str, Any], author: str) -> None:
        asked = call.get("function") if isinstance(call.get("function"), Mapping) else call
        assert isinstance(asked, Mapping)
        given = asked.get("arguments", asked.get("input", asked.get("args")))
        if isinstance(given, str):
            with suppress(ValueError, RecursionError):
                given = json.loads(given)
        shown = given if isinstance(given, str) else _pretty(given)
        self.say(author, f"calls {asked.get('name') or 'a tool'}({shown if given is not None else ''})")

    def _part(self, value: Mapping[str, Any], author: str) -> bool:
        """A part of a message with several: text, a picture, a call of a tool, its result."""
        kind = value.get("type")
        if kind in ("text", "input_text", "output_text") and isinstance(value.get("text"), str):
            self.say(author, value["text"])
        elif kind in ("image_url", "input_image", "image"):
            self._picture(value, author)
        elif kind in ("tool_use", "function_call", "tool_call"):
            self._call(value, author)
        elif kind in ("tool_result", "function_call_output"):
            self.take(value.get("content", value.get("output")), "tool")
        else:
            return False
        return True

    def _picture(self, value: Mapping[str, Any], author: str) -> None:
        found = value.get("image_url", value.get("source", value.get("image", value.get("url"))))
        if isinstance(found, Mapping):
            found = found.get("url", found.get("data"))
        if isinstance(found, str) and re.match(r"https?://", found) and len(self.pictures) < MOST_PICTURES:
            self.pictures.append(_plain(found))
            self.say(author, f"[picture {len(self.pictures)}, below: {found}]")
        elif isinstance(found, str) and KEPT.search(found):
            self.say(author, found)
        else:
            self.say(author, "[a picture that has no address of its own, so it is not shown]")


def data_of(value: Any, called: str, *, empty: str = "nothing was recorded") -> Shown:
    """``value`` as messages, at least one, at most ``LONGEST`` characters; ``called`` is how the note names the item."""
    shown = Shown()
    try:
        shown.take(value)
    except RecursionError:
        shown = Shown()
        shown.say("", "[nested too deeply to be shown]")
    shown.messages = list(_cut(shown.messages, called)) or [{"author": "", "text": f"({empty})"}]
    return shown


def as_text(messages: list[Message]) -> str:
    """The messages as one text."""
    return "\n\n".join(f"{m['author']}:\n{m['text']}" if m["author"] else m["text"] for m in messages)


def _cut(messages: list[Message], called: str) -> Iterator[Message]:
    whole = sum(len(m["text"]) for m in messages)
    left = LONGEST
    for message in messages:
        if left <= 0:
            break
        yield {**message, "text": message["text"][:left]}
        left -= len(message["text"])
    if whole > LONGEST:
        yield {
            "author": "NOTE",
            "text": f"[cut here: {LONGEST:,} of {whole:,} characters are shown. If the rest matters, answer that you are"
            f" unsure and say so in the reason; the whole is item {called}]",
        }


def _plain(text: str) -> str:
    """Text that every database takes and every page shows; what stands for a file says that it does."""
    text = clean(text).replace("\x00", "␀")
    text = KEPT.sub(lambda m: f"[{m[1]}, kept in Langfuse, not shown here]", text)
    return DATA.sub(lambda m: f"[{m[1]} inside the text, {len(m[0]) * 3 // 4 // 1024} kB, not shown here]", text)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _chat(value: Any) -> bool:
    """Whether a value is a chat message, or a list of nothing else."""
    if isinstance(value, list):
        return bool(value) and all(_chat(one) for one in value)
    return isinstance(value, Mapping) and (
        (any(isinstance(value.get(k), str) for k in WHO) and any(k in value for k in SAID))
        or value.get("type") in ("text", "image_url", "image", "tool_use", "tool_result")
    )
