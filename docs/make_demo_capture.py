"""Make docs/images/demo.svg, the terminal capture in README: `python docs/make_demo_capture.py`.

Runs `synchist demo` in a real pseudo-terminal and draws what it printed. Needs synchist[demo], and
Linux or macOS.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

IMAGE = Path(__file__).parent / "images" / "demo.svg"
WIDTH = 80


def in_a_terminal(command: list[str], width: int) -> str:
    """What the command prints, colours included, when its output is a terminal of that width."""
    import fcntl
    import pty
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        environment.pop(name, None)
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux says EIO when the last process has closed the terminal
        pass
    os.close(ours)
    if process.wait():
        sys.exit(f"{' '.join(command)} failed:\n{shown.decode()}")
    return shown.decode().replace("\r\n", "\n")


def main() -> None:
    """Run the demo and draw it."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    printed = in_a_terminal([sys.executable, "-m", "synchist", "demo"], WIDTH)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ synchist demo", style="bold"))
    console.print(Text.from_ansi(printed.rstrip("\n")))
    IMAGE.parent.mkdir(exist_ok=True)
    console.save_svg(str(IMAGE), title="synchist demo", theme=MONOKAI, unique_id="synchist-demo")
    print(f"wrote {IMAGE}")


if __name__ == "__main__":
    main()
