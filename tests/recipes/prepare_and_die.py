"""Prepare datasets in processes that are killed, one after the other; each starts as quickly as a fork.

The program reads one line of JSON for each: the folder, the settings of `prepare`, and when to die: before the n-th
operation that changes a file, or after some seconds. It answers with the exit status, -9 for a kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from energon_nodes import prepare

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate"}


def die_before(change: int, root: str) -> None:
    """Kill this process before its n-th change of a file of the dataset."""
    left = change

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        changes = event in CHANGES or (event == "open" and int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR))
        if changes and str(arguments[0]).startswith(root):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def main() -> None:
    for line in sys.stdin:
        task = json.loads(line)
        child = os.fork()
        if child == 0:
            if "change" in task:
                die_before(task["change"], task["root"])
            prepare(task["root"], **task["settings"])
            os._exit(0)
        if "seconds" in task:
            time.sleep(task["seconds"])
            os.kill(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
