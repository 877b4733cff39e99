"""A call that kills the process it runs in."""

import os
import signal


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
