"""The documentation: its code runs and prints what it says, its links lead somewhere.

How a page marks its blocks, with what follows the opening fence:

* ```` ```python ```` runs in the test's process. All such blocks of a page share their names.
* ```` ```python file=NAME ```` is written to the page's own folder and does not run by itself.
* ```` ```sh run ```` runs in that folder, command by command. Other shell blocks do not run.
* ```` ```text ```` right after a block that runs is what that block prints; "..." matches anything.
* `<!-- python ... -->` runs as well, but readers do not see it: it makes up the names that an
  example leaves open, such as the user's own model.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest

ROOT: Final = Path(__file__).parents[2]

_FENCE = re.compile(r"```(?P<info>[^`]*)$")
_HIDDEN = "<!-- python"
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)|<img [^>]*src=\"(?P<source>[^\"]+)\"")
_CODE = re.compile(r"`[^`\n]*`")


@attrs.frozen
class Block:
    """A fenced block.

    Attributes:
        line: line number of its first line of content, from 1.
        info: the words after the opening fence.
        text: the content.
        follows: whether only blank lines are between it and the block before.
    """

    line: int
    info: tuple[str, ...]
    text: str
    follows: bool

    @property
    def language(self) -> str:
        return self.info[0] if self.info else ""

    @property
    def file(self) -> str | None:
        """Name of the file that it is the content of."""
        names = [word.removeprefix("file=") for word in self.info if word.startswith("file=")]
        return names[0] if names else None

    @property
    def runs(self) -> bool:
        return (self.language == "python" and self.file is None) or self.info == ("sh", "run")


@attrs.frozen
class Page:
    """A page of the documentation."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def blocks(self) -> list[Block]:
        return list(_blocks(self.text))

    @property
    def prose(self) -> str:
        """The page without its blocks and hidden code."""
        text = re.sub(r"^```.*?^```$", "", self.text, flags=re.DOTALL | re.MULTILINE)
        return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)

    @property
    def links(self) -> list[str]:
        prose = _CODE.sub("", self.prose)
        return [match["target"] or match["source"] for match in _LINK.finditer(prose)]

    @property
    def anchors(self) -> set[str]:
        """What a link to a heading may have after its `#`, as GitHub makes it."""
        titles = re.findall(r"^#+ (.+)$", self.prose, flags=re.MULTILINE)
        return {
            re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles
        }


def _blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    number = 0
    between = True
    while number < len(lines):
        line = lines[number]
        number += 1
        fence = _FENCE.match(line)
        if fence is None and line != _HIDDEN:
            between = between or bool(line.strip())
            continue
        info = tuple(fence["info"].split()) if fence else ("python",)
        end = lines.index("```" if fence else "-->", number)
        content = "".join(line + "\n" for line in lines[number:end])
        yield Block(line=number + 1, info=info, text=content, follows=not between)
        number = end + 1
        between = False


PAGES: Final = [Page(ROOT / "README.md"), *map(Page, sorted((ROOT / "docs").rglob("*.md")))]

every_page = pytest.mark.parametrize("page", PAGES, ids=str)


@pytest.mark.timeout(300)  # some pages start processes that train with torch
@pytest.mark.parametrize("page", [p for p in PAGES if any(b.runs for b in p.blocks)], ids=str)
def test_code_runs_and_prints_what_the_page_says(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("documentation")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look it up
    monkeypatch.syspath_prepend(str(tmp_path))
    blocks = page.blocks
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if not block.runs:
            continue
        shell = block.language == "sh"
        printed = run_commands(block) if shell else run_python(page, block, module)
        shown = after.text if after and after.follows and after.info == ("text",) else ""
        if shell:  # ranks print in any order
            printed, shown = in_order(printed), in_order(shown)
        if not doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS):
            pytest.fail(f"{page}, line {block.line}: the page shows\n{shown}\nbut it is\n{printed}")


def run_python(page: Page, block: Block, module: types.ModuleType) -> str:
    """What the block prints; its names end up in `module`."""
    source = "\n" * (block.line - 1) + block.text  # so that tracebacks have the page's lines
    code = compile(source, str(page.path), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, module.__dict__)  # noqa: S102  (our own page)
    return output.getvalue()


def run_commands(block: Block) -> str:
    """What the commands of a shell block print; each has to succeed."""
    programs = {
        "python": [sys.executable],
        "torchrun": [sys.executable, "-m", "torch.distributed.run"],
    }
    output = ""
    for line in block.text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        done = subprocess.run(
            [*programs[program], *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        output += done.stdout
    return output


def in_order(text: str) -> str:
    return "".join(sorted(text.splitlines(keepends=True)))


@every_page
def test_every_block_says_its_language_and_shows_output_only_after_code(page: Page) -> None:
    before: Block | None = None
    for block in page.blocks:
        assert block.language in {"python", "sh", "text"}, f"{page}, line {block.line}"
        if block.info == ("text",) and block.follows and before is not None:
            assert before.runs, f"{page}, line {block.line}: nothing here prints this"
        before = block


@every_page
def test_links_lead_to_files_and_headings(page: Page) -> None:
    for link in page.links:
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.path.parent / path).resolve() if path else page.path
        assert target.exists(), f"{page}: {link}"
        assert target.is_relative_to(ROOT), f"{page}: {link} leaves the repository"
        if anchor:
            assert anchor in Page(target).anchors, f"{page}: {link}"


def test_the_index_leads_to_every_page() -> None:
    index = Page(ROOT / "docs" / "index.md")
    linked = {(index.path.parent / link).resolve() for link in index.links if "://" not in link}
    documents = {page.path for page in PAGES if (ROOT / "docs") in page.path.parents}
    assert documents - {index.path} <= linked
