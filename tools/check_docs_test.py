# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0

import unittest

import check_docs


class RemoteAssets(unittest.TestCase):
    def test_scripts_styles_and_pictures_are_found_and_links_are_not(self):
        text = """<script src="https://example.org/a.js"></script><link rel="stylesheet" href="//example.org/a.css">
            <img alt="" src="https://example.org/a.png"><a href="https://example.org/">elsewhere</a>
            <script src="javascripts/own.js"></script>"""
        self.assertEqual(check_docs.remote_assets("a.html", text), [
            "a.html: https://example.org/a.js would be loaded from the network",
            "a.html: //example.org/a.css would be loaded from the network",
            "a.html: https://example.org/a.png would be loaded from the network"])


class Messages(unittest.TestCase):
    def test_parts_of_a_literal_that_continues_are_one(self):
        source = 'say("the folder \\"" + name + "\\" is "\n    "memory");  refuse(f"{size!r} is no size")'
        self.assertEqual(check_docs.literals(source).splitlines()[1:],
                         ['the folder "', '" is memory', "{size!r} is no size"])

    def test_a_message_that_no_source_has_is_named(self):
        page = "```text\nthe folder \u2026 is memory\nno such words\n```\n| `is a share` | why |\n"
        self.assertEqual(check_docs.unknown_messages(page, "the folder\nis memory"), ["no such words", "is a share"])


if __name__ == "__main__":
    unittest.main()
