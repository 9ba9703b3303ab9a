"""A budget for what a stranger may cost us, and for what must stay linear: a quadratic scan of such inputs takes minutes."""

import time
from contextlib import contextmanager

import pytest


@pytest.fixture
def cpu_seconds():
    @contextmanager
    def within(seconds):
        start = time.process_time()
        yield
        assert time.process_time() - start < seconds

    return within
