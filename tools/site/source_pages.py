# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""MkDocs hook: files of the tree that pages link to, outside docs/, are pages of the site as well.

A link such as ../examples/trainer.py works where the repository is browsed. On the site it leads to a page
under source/ that shows the file, and needs no server that hosts the repository.
"""

import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = "source"
_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)")
_LANGUAGES = {".cc": "cpp", ".h": "cpp", ".json": "json", ".md": "markdown", ".py": "python", ".txt": "text"}


def _target(page: str, link: str) -> str:
    """The file of the tree that `link` in the file `page` of the tree names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def _links(page: str) -> list[str]:
    """Files that the Markdown file `page` links to."""
    targets = (_target(page, link) for _, link in _LINK.findall((ROOT / page).read_text()))
    return [target for target in targets if (ROOT / target).is_file()]


def _site_path(path: str) -> str:
    """Where a file of the tree is in the site's sources."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    is_code = pathlib.PurePosixPath(path).suffix in _LANGUAGES and not path.endswith(".md")
    return f"{FOLDER}/{path}.md" if is_code else f"{FOLDER}/{path}"


def _tree_path(site_path: str) -> str:
    """The inverse, for Markdown that is linked as it is."""
    prefix = f"{FOLDER}/"
    return site_path.removeprefix(prefix) if site_path.startswith(prefix) else f"docs/{site_path}"


def _linked_from_docs() -> list[str]:
    """Files outside docs/ that its pages reach by links, those of linked pages included."""
    waiting = [f"docs/{page.relative_to(ROOT / 'docs').as_posix()}" for page in sorted((ROOT / "docs").rglob("*.md"))]
    found: set[str] = set(waiting)
    while waiting:
        page = waiting.pop()
        for target in _links(page) if page.endswith(".md") else []:
            if target not in found:
                found.add(target)
                waiting.append(target)
    return sorted(path for path in found if not path.startswith("docs/"))


def _file(config: MkDocsConfig, path: str) -> File:
    site_path = _site_path(path)
    language = _LANGUAGES.get(pathlib.PurePosixPath(path).suffix)
    if language is None or path.endswith(".md"):
        return File.generated(config, site_path, abs_src_path=str(ROOT / path))
    text = (ROOT / path).read_text()
    page = f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n````{language}\n{text}````\n"
    return File.generated(config, site_path, content=page)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in _linked_from_docs():
        files.append(_file(config, path))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    origin = _tree_path(here)

    def rewritten(match: re.Match[str]) -> str:
        target = _target(origin, match.group(2))
        leaves = not (origin.startswith("docs/") and target.startswith("docs/"))
        if not leaves or not (ROOT / target).is_file():
            return match.group(0)
        return match.group(1) + posixpath.relpath(_site_path(target), posixpath.dirname(here) or ".")

    return _LINK.sub(rewritten, markdown)
