"""The flags of this command line that lead to its node, for commands that are to be typed next. Light to import."""


class Given:
    data = ""
    config = ""

    @classmethod
    def forget(cls) -> None:
        """Another command line begins, as in a program that runs several."""
        cls.data = cls.config = ""
