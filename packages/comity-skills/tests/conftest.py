def pytest_configure(config):
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return  # a process that has its tests run by others starts faster without Hypothesis
    from hypothesis import settings

    # Nothing is timed in a test: how long an example takes says more about the machine than about the code.
    settings.register_profile("comity", deadline=None)
    settings.load_profile("comity")
