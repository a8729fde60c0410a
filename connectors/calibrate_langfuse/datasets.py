"""Examples for a judge's prompt as the items of a dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from calibrate_langfuse.client import Langfuse, Refused
from calibrate_langfuse.records import clean
from calibrate_plugin.connector import Example, Pushed, Write


def add_examples(server: Langfuse, dataset: str, examples: Sequence[Example]) -> Pushed:
    """Put examples into a dataset. Langfuse gives back the dataset that there is of a name, and takes an item of a known id for
    a new state of it."""
    dataset = clean(dataset)
    server.request("POST", "/v2/datasets", body={"name": dataset})
    writes = []
    for one in examples:
        body = _cleaned(_body(dataset, one))
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
        target = f"dataset {dataset} item {one.id}"
        try:
            server.request("POST", "/dataset-items", body=body)
        except Refused as error:
            writes.append(Write(target, digest, "refused", str(error)))
        else:
            writes.append(Write(target, digest, "written"))
    return Pushed(tuple(writes))


def _body(dataset: str, one: Example) -> dict[str, Any]:
    return {
        "datasetName": dataset,
        "id": one.id,
        "input": one.input,
        # As an object: a bare "4" or "true" would come back as a number or a truth value.
        "expectedOutput": {"answer": one.answer, "reason": one.reason},
        "metadata": {**one.facts, "item": one.item, "output": one.output},
    }


def _cleaned(value: Any) -> Any:
    """A JSON value with all its texts as they can be sent."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(key)): _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, list | tuple) else value


__all__ = ["add_examples"]
