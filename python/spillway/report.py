# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""What a session did, as the runtime tells it."""

import html
import json
from typing import Any


class Report:
    """`print` shows the table, a notebook the same, `to_json` the fields of docs/formats/report.md."""

    def __init__(self, table: str, text: str) -> None:
        self._table = table
        self._text = text

    def to_json(self) -> str:
        return self._text

    def __getitem__(self, name: str) -> Any:
        return json.loads(self._text)[name]

    def __str__(self) -> str:
        return self._table

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._table)}</pre>"
