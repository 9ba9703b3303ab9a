import gc

import pytest


@pytest.fixture(autouse=True)
def frozen():
    """Let the collections of garbage between turns pass over what other tests have loaded in this process."""
    gc.freeze()
