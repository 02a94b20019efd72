"""Handle Ctrl+C and SIGTERM as a request to stop after the current update."""

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
def stop_on_signals(stop: Callable[[], None], notice: bytes = NOTICE) -> Iterator[None]:
    """Call a function on SIGINT or SIGTERM instead of the default handler. A second SIGINT raises KeyboardInterrupt;
    further SIGTERM have no effect, since `torchrun` sends one after a SIGINT.

    stop (Callable[[], None]): Requests the stop and returns at once.
    notice (bytes): Written to stderr.
    """
    if threading.current_thread() is not threading.main_thread():  # the only thread in which Python allows handlers
        yield
        return

    def ask(number: int, frame: Optional[FrameType]) -> None:
        stop()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(STDERR, notice)  # print is not reentrant

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
