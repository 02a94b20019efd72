"""Ctrl+C and SIGTERM, as a request to stop at the next good moment."""

import os
import signal
import threading
from contextlib import contextmanager
from types import FrameType
from typing import Callable, Iterator, Optional

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = b"\nStopping after this update, with a checkpoint. Press Ctrl+C again to stop at once, without one.\n"
STDERR = 2


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function on SIGINT or SIGTERM, in place of what they do otherwise. A second SIGINT raises
    KeyboardInterrupt; further SIGTERM change nothing, since `torchrun` sends one after a SIGINT.

    stop (Callable[[], None]): Asks for the stop and returns at once.
    """
    if threading.current_thread() is not threading.main_thread():  # Python allows handlers there only
        yield
        return

    def ask(number: int, frame: Optional[FrameType]) -> None:
        stop()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(STDERR, NOTICE)  # print may not be called again from within itself

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
