"""Runs scripts in forks of itself, where the package is imported already; see ``client.py``.

Importing it takes seconds, a fork milliseconds. This process never uses what it imports, so that
its forks are like fresh processes.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import traceback
from pathlib import Path


def start(script: str, arguments: list[str], output: str) -> int:
    """Runs a script in a fork; returns its process id."""
    child = os.fork()
    if child != 0:
        return child
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    for descriptor, suffix in ((1, "out"), (2, "err")):
        file = os.open(f"{output}.{suffix}", flags, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.argv = ["-c", *arguments]
    try:
        exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})
    except Exception:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # that of the interpreter takes a second; a script that wants it calls sys.exit()


def main() -> None:
    """Answer requests until stdin ends."""
    sys.path.insert(0, str(Path(__file__).parents[1]))  # the modules of the tests
    for module in sys.argv[1:]:
        importlib.import_module(module)
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    while True:
        try:
            action, *arguments = pickle.load(requests)
        except EOFError:
            return
        if action == "start":
            answer = start(*arguments)
        elif action == "import":
            answer = [importlib.import_module(module).__name__ for module in arguments]
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(*arguments, 0)[1])
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
