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


if __name__ == "__main__":
    unittest.main()
