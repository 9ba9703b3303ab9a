"""What every test may ask for: pytest itself as a subject."""

pytest_plugins = ["pytester"]
