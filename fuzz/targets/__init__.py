"""One module for each parser that reads what strangers send."""

from pkgutil import iter_modules


def names() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__))
