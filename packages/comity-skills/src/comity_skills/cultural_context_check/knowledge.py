"""What is known (the data file), for whom a message is, and what a finding is."""

from collections.abc import Set as AbstractSet

from msgspec import Struct

from comity_skills.cultural_context_check.places import Country


class Colour(Struct, frozen=True):
    words: str
    where: frozenset[str]
    meaning: str


class Gesture(Struct, frozen=True):
    """`signs` are pictures of it, `words` names it."""

    signs: str
    words: str
    where: frozenset[str]
    meaning: str


class Taboo(Struct, frozen=True):
    """What is not done there, where the words that tell it have others between them."""

    pattern: str
    where: frozenset[str]
    meaning: str
    instead: str
    issue: str = "gesture"


class Number(Struct, frozen=True):
    """`of` is what it counts when it means that; empty for anything. `repeated` is one that figures of it alone say, too."""

    values: frozenset[int]
    of: str
    where: frozenset[str]
    meaning: str
    repeated: bool = False


class Custom(Struct, frozen=True):
    """What the notes on a place know of a thing or a name; `gift` when it holds for gifts alone."""

    words: str
    where: frozenset[str]
    meaning: str
    instead: str
    gift: bool = False


class NationalDay(Struct, frozen=True):
    """`elsewhere` is what other countries keep by a name like it."""

    words: str
    where: frozenset[str]
    of: str
    elsewhere: str = ""


class Variety(Struct, frozen=True):
    """Words of one variety of English, with plain ones; `idiom` when they puzzle second-language readers as any idiom does."""

    of: str
    home: frozenset[str]
    words: dict[str, str]
    idiom: bool = False


class Creed(Struct, frozen=True):
    """What only people of these faiths say."""

    of: frozenset[str]
    words: tuple[str, ...]
    plain: str


class Manner(Struct, frozen=True):
    """How readers are treated; `unless` is what softens it.

    `group`: it counts only where people expect softness. `to`: only for readers of this kind, or where the `cues` of
    that kind stand in the message. With both, either is enough.
    """

    issue: str
    about: str
    pattern: str
    why: str
    instead: str
    group: bool = False
    to: str = ""
    unless: str = ""


class Worship(Struct, frozen=True):
    """Hours of prayer on a day of the week, both included; `all_day` counts when no hour is named, too."""

    day: str
    hours: tuple[int, int]
    where: frozenset[str]
    meaning: str
    all_day: bool = False


class Instead(Struct, frozen=True):
    """Another wording where the usual one would not do."""

    plain: str
    where: frozenset[str]
    instead: str


class Knowledge(Struct, frozen=True, kw_only=True):
    """The data file. Where it says `where`, faiths stand beside countries."""

    hidden: tuple[str, ...]
    idiom: dict[str, str]
    varieties: tuple[Variety, ...]
    english: frozenset[str]
    slang: dict[str, str]
    creeds: tuple[Creed, ...]
    food_signs: dict[str, str]
    readers: dict[str, tuple[str, ...]]
    cues: dict[str, str]
    zones: dict[str, frozenset[str]]
    emergency_911: frozenset[str]
    lakh: frozenset[str]
    manners: tuple[Manner, ...]
    gendered: dict[str, str]
    address: dict[str, str]
    holiday: dict[str, str]
    humour: dict[str, str]
    food_and_drink: dict[str, str]
    individual: dict[str, str]
    direct: dict[str, str]
    exposure: dict[str, str]
    boast: dict[str, str]
    hedge: dict[str, str]
    assimilation: dict[str, str]
    season: dict[str, str]
    name_field: dict[str, str]
    why: dict[str, str]
    homes: dict[str, frozenset[str]]
    national_days: tuple[NationalDay, ...]
    faiths: dict[str, str]
    care_about_food: dict[str, frozenset[str]]
    food_instead: dict[str, str]
    forbidden_by_law: dict[str, frozenset[str]]
    care_about_group: frozenset[str]
    care_about_modesty: frozenset[str]
    care_about_directness: frozenset[str]
    colours: tuple[Colour, ...]
    gestures: tuple[Gesture, ...]
    taboos: tuple[Taboo, ...]
    rest: dict[str, frozenset[str]]
    worship: tuple[Worship, ...]
    decimal_comma: frozenset[str]
    long_scale: frozenset[str]
    numbers: tuple[Number, ...]
    customs: tuple[Custom, ...]
    instead: tuple[Instead, ...]
    temperate_south: frozenset[str]
    family_name_first: frozenset[str]
    southern_hemisphere: frozenset[str]
    signs: dict[str, str]


class Setting(Struct, frozen=True):
    """For whom the message is: countries by code (all members of the areas named), the areas they lie in, and the
    faiths that the audience names. No country for an audience whose place is not known; `everywhere` when none was named.
    `readers` are the kinds of people that the audience names: `close`, `older`, `fasting`, `clients`. They are
    `fluent` where all of them are at home in English.
    """

    countries: dict[str, Country]
    areas: frozenset[str]
    everywhere: bool = False
    faiths: frozenset[str] = frozenset()
    readers: frozenset[str] = frozenset()
    fluent: bool = False

    @property
    def american(self) -> bool:
        return set(self.countries) == {"US"}

    @property
    def among_friends(self) -> bool:
        """A line to somebody close, of whom nothing says that another culture reads it."""
        return "close" in self.readers and not self.faiths and (self.fluent or not self.countries)

    def elsewhere_than(self, home: AbstractSet[str]) -> bool:
        """Whether some of the readers live outside these countries, as far as is known."""
        return bool(self.countries.keys() - home) or self.everywhere

    def here(self, where: AbstractSet[str]) -> frozenset[str]:
        """The countries and faiths among `where` for which the message is."""
        return frozenset(one for one in where if one in self.countries or one in self.faiths)

    def listed(self, here: AbstractSet[str]) -> str:
        names = [self.countries[code].name for code in sorted(here) if code in self.countries]
        names += [
            f"{faith.capitalize()} readers" if faith != "many" else "readers of several faiths"
            for faith in sorted(here)
            if faith not in self.countries
        ]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class Finding(Struct, frozen=True):
    """`about` names the matter more closely than its issue does."""

    issue: str
    start: int
    end: int
    why: str
    suggestion: str
    about: str = ""
