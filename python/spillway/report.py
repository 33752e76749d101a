# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a session did, as the runtime reports it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


class Report(Mapping[str, Any]):
    """The fields of docs/formats/report.md by name; `print` shows the table, a notebook the same as HTML, `to_json` the text."""

    def __init__(self, table: str, text: str, page: str) -> None:
        self._table = table
        self._text = text
        self._page = page
        self._fields: dict[str, Any] = json.loads(text)

    def to_json(self) -> str:
        return self._text

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __str__(self) -> str:
        return self._table

    __repr__ = __str__  # a prompt shows the table

    def _repr_html_(self) -> str:
        return self._page
