import json
import re
from importlib.resources import files
from time import process_time

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from comity_skills.cultural_context_check import SKILL
from comity_skills.cultural_context_check.adapt import adapt
from comity_skills.skill import SkillInputError, SkillOutcome
from comity_skills.words.tokens import tokens
from tests.prepared import handler_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEEPS = jsonschema.Draft202012Validator(dict(SKILL.contracts["enhanced"].output_schema))


@pytest.fixture(scope="module")
def check():
    handler = handler_of(SKILL)

    def run(message, audience="general", mode="enhanced", **more):
        return handler({"message": message, "audience": audience, **more}, mode)

    return run


@pytest.fixture(scope="module")
def regions():
    name = "cultural_context_check/regions.json"
    return json.loads(files("comity_skills").joinpath(name).read_bytes())


def codes(outcome):
    return [each["code"] for each in outcome.output["places"]]


def issues(outcome):
    return [(each["issue"], each["text"]) for each in outcome.output["findings"]]


def test_recorded_counts_follow_region_and_audience(check):
    cases = [
        ("general", "Japan", 4),
        ("general", "APAC", 4),
        ("general", "mainland China", 4),
        ("general", "Middle East", 3),
        ("general", "Gulf", 3),
        ("general", "India", 3),
        ("general", "Indianapolis", 3),
        ("elder board members", "Indiana", 5),
        ("elder board members", "Japan", 6),
        ("stakeholders", "global", 2),
        ("general", "India and China", 7),
        ("general", "Peru", 3),
        ("Japanese business team", "global", 3),
    ]
    for mode in ("strict", "compat"):
        for audience, region, notes in cases:
            outcome = check("Hello", audience, mode, region=region)
            assert len(outcome.output["notes"]) == notes, (audience, region)
            assert list(outcome.output) == ["adapted_message", "notes", "uncertainty"]
            assert (outcome.uncertainty, len(outcome.assumptions)) == ("high", 4)
            assert outcome.output["adapted_message"] == f"[Adapted for {audience} audience, {region}]: Hello"


def test_indiana_gets_no_notes_about_india_in_any_mode(check):
    india = check("Hello", mode="strict", region="India").output["notes"]
    for region in ("Indiana", "Indianapolis", "West Indian islands"):
        assert not set(india) & set(check("Hello", mode="strict", region=region).output["notes"]), region
    for region in ("Indiana", "Indianapolis"):
        assert codes(check("Hello", region=region)) == ["US"]


def test_the_region_is_global_when_none_is_given(check):
    assert (
        check(" Hello ", " all ", "strict").output["adapted_message"]
        == "[Adapted for all audience, global]: Hello"
    )


def test_places_are_resolved_by_name_people_city_code_and_tag(check):
    cases = {
        "Japan": ["JP"], "Tokyo": ["JP"], "jp": ["JP"], "JPN": ["JP"], "deu": ["DE"], "ja-JP": ["JP"], "ja": ["JP"], "IN": ["IN"], "en_IN": ["IN"], "US-IN": ["US"],
        "US, CA": ["US", "CA"], "zh-Hant-TW": ["TW"], "UK": ["GB"], "U.S. and Canada": ["US", "CA"], "LATAM": ["latin_america"],
        "es-419": ["latin_america"], "Gulf": ["gulf"], "Gulf of Mexico": ["US"], "APAC": ["apac"], "Nordics": ["nordics"],
        "West Indian": ["caribbean"], "Latin American": ["latin_america"], "New Mexico": ["US"], "Niger": ["NE"], "Nigeria": ["NG"],
        "Oman": ["OM"], "Romania": ["RO"], "Papua New Guinea": ["PG"], "North Korea": ["KP"], "Korea": ["KR"], "Cote d'Ivoire": ["CI"],
        "Côte d\u2019Ivoire": ["CI"], "Paris, Texas": ["US"], "Springfield, IL": ["US"], "Tel Aviv, IL": ["IL"], "Georgia": ["GE", "US"],
        "Atlanta, Georgia": ["US", "US"], "Chinatown": [], "global": [], "Atlantis": [], "St. Lucia": ["LC"], "Saint Kitts and Nevis": ["KN"], "": [],
    }  # fmt: skip
    found = {region: codes(check("Hello", region=region)) for region in cases}
    assert {region: got for region, got in found.items() if got != cases[region]} == {}


def test_places_are_found_in_the_audience_too(check):
    cases = {
        "Japanese business team": ["JP"], "Polish customers": ["PL"], "people who polish shoes": [], "our IT team": [], "tell us": [],
        "US team": ["US"], "African American teachers": ["US"], "stakeholders": [], "Chinese food lovers": [],
    }  # fmt: skip
    found = {audience: codes(check("Hello", audience)) for audience in cases}
    assert {audience: got for audience, got in found.items() if got != cases[audience]} == {}
    notes = check("Hello", "Japanese business team").output["notes"]
    assert any("hierarchy" in note for note in notes)
    dated = check("Due by 03/04/2025", "Japanese business team").output["notes"]
    assert "Japan: dates as year, month, day." in dated


def test_a_name_of_two_places_is_told_as_a_doubt(check):
    doubtful = check("Hello and welcome to you", region="Georgia")
    assert doubtful.uncertainty == "high"
    assert "Georgia" in doubtful.output["uncertainty"]
    assert check("Hello and welcome to you", region="Atlanta, Georgia").uncertainty == "medium"


def test_a_place_that_is_left_out_is_not_meant(check):
    for region in ("people not in India", "outside the EU", "non-US customers", "everyone except Japan"):
        assert codes(check("Welcome", region=region)) == [], region
    assert codes(check("Welcome", region="Latin America (excluding Brazil)")) == ["latin_america"]


def test_things_named_after_places_are_no_places(check):
    for audience in ("china cabinet collectors", "turkey hunters", "guinea pig owners", "bone china lovers"):
        assert codes(check("Welcome", audience)) == [], audience


def test_countries_are_known_by_their_own_names(check):
    for region, code in {
        "Deutschland": "DE",
        "España": "ES",
        "espana": "ES",
        "Brasil": "BR",
        "日本": "JP",
        "中国": "CN",
        "한국": "KR",
        "Россия": "RU",
        "مصر": "EG",
        "Türkiye": "TR",
        "Suisse": "CH",
    }.items():
        assert codes(check("Welcome", region=region)) == [code], region


def test_a_code_that_is_also_a_language_of_elsewhere_is_a_doubt(check):
    for region, uncertainty in (
        *(("ar", "high"), ("sv", "high"), ("ca", "high")),
        *(("AR", "medium"), ("de", "medium"), ("uk", "medium"), ("in", "medium"), ("pt-BR", "medium")),
    ):
        assert check("Welcome", region=region).uncertainty == uncertainty, region
    assert '"ar"' in check("Welcome", region="ar").output["uncertainty"]


def test_every_inhabited_continent_is_known(regions):
    noted = {code for code, country in regions["countries"].items() if country.get("notes")}
    assert len(noted) >= 40
    for area, least in (
        ("africa", 5),
        ("apac", 10),
        ("europe", 15),
        ("latin_america", 6),
        ("north_america", 2),
        ("oceania", 4),
    ):
        assert len(noted & set(regions["areas"][area]["members"])) >= least, area
    for area in regions["areas"].values():
        assert area["notes"]
        assert set(area["members"]) <= set(regions["countries"])
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", regions["written"])
    assert regions["sources"]


def test_facts_of_countries_are_those_of_cldr(regions):
    babel = pytest.importorskip("babel")
    from babel.numbers import get_territory_currencies

    names = babel.Locale("en").territories
    aliases = babel.core.get_global("territory_aliases")
    wrong = []
    for code, country in regions["countries"].items():
        currencies = get_territory_currencies(code)
        if currencies and country["currency"] not in currencies:
            wrong.append((code, "currency", country["currency"], currencies))
        try:
            locale = babel.Locale.parse(f"{country['languages'][0]}_{code}")
        except (babel.UnknownLocaleError, IndexError):
            continue
        pattern = re.sub(r"'[^']*'", "", locale.date_formats["short"].pattern)
        order = "".join(dict.fromkeys(letter.lower() for letter in pattern if letter in "dMy"))
        clock = 12 if "h" in re.sub(r"'[^']*'", "", locale.time_formats["short"].pattern) else 24
        facts = (country["direction"], country["date"], country["hours"])
        if facts != (locale.text_direction, order, clock):
            wrong.append((code, facts, locale.text_direction, order, clock))
        if aliases.get(country["alpha3"], (code,)) != [code]:
            wrong.append((code, country["alpha3"]))
        assert code in names
    assert wrong == []


def test_the_message_is_examined(check):
    cases = {
        "Let's knock it out of the park": ("idiom", "knock it out of the park"),
        "Due by 03/04/2025": ("date", "03/04/2025"),
        "Finish by 3/4": ("date", "3/4"),
        "Ask the chairman": ("gendered", "chairman"),
        "Merry Christmas to you": ("holiday", "Merry Christmas"),
        "lol, just kidding": ("humour", "lol"),
        "It is 5 miles away": ("units", "5 miles"),
        "It costs $20": ("currency", "$20"),
        "We meet at 3 pm": ("time", "3 pm"),
        "See you in summer": ("season", "summer"),
        "Enter your first name": ("name_field", "first name"),
        "Well done 👍": ("gesture", "👍"),
        "We help you fit in": ("assimilation", "fit in"),
        "Join us for beer": ("food_and_drink", "beer"),
        "Hey there": ("address", "Hey"),
    }
    for message, expected in cases.items():
        assert expected in issues(check(message)), message


def test_what_travels_well_is_not_found(check):
    for message in (
        "Open 24/7 with 3/4 of the staff.",
        "Due on 2025-04-03.",
        "Due on 03/03/2025.",
        "Version 1.2.3 is out.",
        "Rates from 3.5 to 4.2.",
        "We meet at 15:00 UTC.",
        "It costs USD 20.",
        "The white paper and the green light.",
        "Prices fall in April.",
        "Please send the report to us.",
    ):
        assert issues(check(message)) == [], message


def test_a_pronoun_for_everybody_is_gendered_and_one_for_a_person_is_not(check):
    for message, pronoun in {
        "Each user must enter his password.": "his",
        "Every doctor knows his patients.": "his",
        "Everyone must bring his badge": "his",
        "Any new developer can push if he wants": "he",
    }.items():
        assert ("gendered", pronoun) in issues(check(message, region="GB")), message
    for message in ("Ask John; he lost his key.", "Each page is numbered. He wrote it."):
        assert issues(check(message, region="GB")) == [], message


def test_a_colour_in_a_name_or_idiom_is_no_colour(check):
    for message, region in (
        ("Black History Month", "US"),
        ("The black sheep of the family", "US"),
        ("Caught red-handed", "CN"),
        ("A green field", "CN"),
        ("Green trees", "CN"),
        ("Root beer for all", "SA"),
        ("Version 3.4.2025 is out", "DE"),
        ("Invoice 12/11", "US"),
        ("We meet at 9:30 a.m. Eastern", "US"),
    ):
        assert issues(check(message, region=region)) == [], message
    assert issues(check("A green hat", region="CN")) == [("colour", "green hat")]
    assert issues(check("A green hat", region="SA")) == [("colour", "green hat")]
    assert issues(check("A black shirt", region="US")) == [("colour", "black")]


def test_what_depends_on_the_place_is_found_where_it_matters(check):
    assert ("colour", "red") in issues(check("The red envelope", region="China"))
    assert issues(check("The red envelope", region="Norway")) == []
    assert ("food_and_drink", "wine") in issues(check("A glass of wine", region="Saudi Arabia"))
    assert issues(check("A glass of wine", region="France")) == []
    assert ("direction", "on the left") in issues(check("The menu on the left", region="ar-EG"))
    assert issues(check("The menu on the left", region="Kenya")) == []
    assert ("individual", "your decision alone") in issues(
        check("It is your decision alone", region="Southeast Asia")
    )
    assert issues(check("A home run of 5 miles for $20", region="Indiana")) == []
    assert ("direct", "significant errors") in issues(check("It contains significant errors", region="Japan"))
    assert issues(check("It contains significant errors", region="Netherlands")) == []
    assert ("units", "5 km") in issues(check("It is 5 km away", region="US"))
    assert ("season", "winter") in issues(check("This winter we ship", region="Australia"))
    assert issues(check("This winter we ship", region="Germany")) == []


def test_an_ambiguous_date_gets_both_readings_and_the_order_of_the_place(check):
    (date,) = check("Due by 03/04/2025", region="Germany").output["findings"]
    assert "3 April 2025" in date["suggestion"]
    assert "4 March 2025" in date["suggestion"]
    assert "day first" in date["suggestion"]
    assert issues(check("Due by 25/12/2025", region="US")) == [("date", "25/12/2025")]
    assert issues(check("Due by 25/12/2025", region="Germany")) == []


ADAPTED = {
    "Hey guys, welcome dude!": ("Welcome!", "Hello everyone, welcome!"),
    "They said hey": ("They said hey", "They said hey"),
    "Hey there! Just a question": ("Just a question", "Hello! Just a question"),
    "Hey Anna, it is late": ("Anna, it is late", "Hello Anna, it is late"),
    "Hey wait, stop": ("Hey wait, stop", "Hey wait, stop"),
    "Guys, we cannot refund you": ("We cannot refund you", "Everyone, we cannot refund you"),
    "Guys, girls and kids are in": ("Guys, girls and kids are in", "Guys, girls and kids are in"),
    "Thanks, guys!": ("Thanks!", "Thanks, everyone!"),
    "You guys are not late": ("You are not late", "You all are not late"),
    "The guys in IT said no": ("The guys in IT said no", "The guys in IT said no"),
    "We welcome guys.": ("We welcome guys.", "We welcome guys."),
    'They wrote "Hey guys, go" to us': ('They wrote "Hey guys, go" to us', 'They wrote "Hey guys, go" to us'),
    'We said "you guys win" to them': ('We said "you guys win" to them', 'We said "you guys win" to them'),
    "Hey guys": ("Hey guys", "Hello everyone"),
    "Hey team, good news": ("Hey team, good news", "Hello team, good news"),
    "Hey all the best": ("Hey all the best", "Hey all the best"),
    "Hey is a greeting.": ("Hey is a greeting.", "Hey is a greeting."),
}


def test_only_an_address_to_the_reader_is_adapted(check):
    found = {
        message: (adapt(message, neutral=False)[0], adapt(message, neutral=True)[0]) for message in ADAPTED
    }
    assert {message: got for message, got in found.items() if got != ADAPTED[message]} == {}
    outcome = check("Hey guys, let's go", region="Japan", audience="team")
    assert outcome.output["adapted_message"] == "[Adapted for team audience, Japan]: Hello everyone, let's go"
    assert outcome.output["adapted_text"] == "Hello everyone, let's go"
    assert outcome.output["edits"] == [
        {"issue": "address", "text": "Hey guys,", "start": 0, "end": 9, "replacement": "Hello everyone,"}
    ]


PIECES = st.sampled_from(
    [
        "hey",
        "Hey",
        "guys",
        "Guys",
        "dude",
        "you guys",
        "Anna",
        "we cannot",
        "not",
        "no",
        "30",
        "3/4",
        "refund",
        "welcome",
        "thanks",
        "there",
    ]
)
MESSAGES = st.lists(
    st.tuples(PIECES, st.sampled_from([" ", ", ", "! ", ". ", ": ", "\n", ' "', '" ', ""])), max_size=12
).map(lambda parts: "".join(piece + gap for piece, gap in parts))
LEFT_OUT = {"hey", "guys", "dude", "dudes", "there"}


def test_greetings_in_a_row_leave_nothing_behind():
    assert adapt("Hey! hey welcome to Anna", neutral=False)[0] == "Hey welcome to Anna"
    assert adapt("Hey! Hey! hey", neutral=False)[0] == "Hey! Hey! hey"  # else there would be nothing left


@example("Hey! hey ", False)
@given(MESSAGES, st.booleans())
def test_adapting_changes_no_other_word_and_leaves_no_comma_behind(message, neutral):
    adapted, edits = adapt(message, neutral=neutral)
    kept = [
        word for word in (token.word for token in tokens(message)) if word not in LEFT_OUT and word != "you"
    ]
    new = {"hello", "everyone", "all"}
    after = [
        word
        for word in (token.word for token in tokens(adapted))
        if word not in LEFT_OUT | new and word != "you"
    ]
    assert after == kept
    if edits and not message.lstrip().startswith((",", "!", ".", ":", '"')):
        assert not adapted.lstrip().startswith((",", ".", ":"))


def test_uncertainty_is_medium_at_best(check):
    assert check("Please send the report to us.", region="Japan").uncertainty == "medium"
    assert check("Please send the report to us.").uncertainty == "high"
    assert check("レポートを送ってください", region="Japan").uncertainty == "high"


def test_notes_for_audiences_are_added(check):
    notes = check("Welcome to the country", "immigrants", region="North America").output["notes"]
    assert any("avoid stereotyping, recognizing diversity of experience" in note for note in notes)


@given(st.text(max_size=120), st.text(min_size=1, max_size=40), st.text(max_size=40))
def test_findings_are_where_they_say_and_the_output_keeps_its_schema(check, message, audience, region):
    outcome = check(message or "x", audience, region=region)
    KEEPS.validate(dict(outcome.output))
    for each in outcome.output["findings"]:
        assert (message or "x")[each["start"] : each["end"]] == each["text"]
    fields = {"audience": audience, "region": region}
    for each in outcome.output["places"]:
        assert fields[each["field"]][each["start"] : each["end"]] == each["text"]


def test_a_hostile_text_takes_time_in_proportion(check):
    # fifty thousand characters in each field; anything quadratic takes minutes
    begun = process_time()
    for unit in ("hey guys, ", "\u201ca", "india, ", "03/04 ", "$5", "knock it out of the "):
        text = unit * (50_000 // len(unit))
        check(text, text, region=text)
        check(text, text, "strict", region=text)
    assert process_time() - begun < 20


@given(JSON, JSON, JSON, st.sampled_from(("strict", "compat", "enhanced")))
def test_any_value_gets_an_outcome_or_a_refusal(check, message, audience, region, mode):
    try:
        answer = check(message, audience, mode, region=region)
    except SkillInputError as refused:
        answer = refused
    begins = "Input validation failed for action 'cultural_context_check': "
    assert isinstance(answer, SkillOutcome) or answer.message.startswith(begins)


def test_a_message_that_was_not_changed_is_not_called_adapted(check):
    ribs = check("Join us for pork ribs and beer on Friday!", "partners", region="Saudi Arabia")
    assert ribs.output["adapted_message"].startswith(
        "[Not adapted for partners, Saudi Arabia; change by hand: pork, alcohol, days of rest]"
    )
    plain = check("Please send the file.", "colleagues", region="Germany")
    assert "nothing in it was found to need a change" in plain.output["adapted_message"]
    assert (
        check("Hey guys, welcome!", "team", region="Japan")
        .output["adapted_message"]
        .startswith("[Adapted for team")
    )


@pytest.mark.parametrize(
    ("message", "region", "said", "suggestion"),
    [
        ("Let us meet on Friday.", "Saudi Arabia", "Friday", "day of rest in Saudi Arabia"),
        ("The office opens on Thursdays.", "Afghanistan", "Thursdays", "day of rest in Afghanistan"),
        ("See you at the weekend.", "Egypt", "weekend", "Name the days"),
        (
            "We sold 1,500 units.",
            "Germany",
            "1,500",
            "Write 1500: the comma stands before decimals in Germany",
        ),
        ("It costs 1.500 euros.", "US", "1.500", "Write 1500: the point"),
        ("A market of two billion.", "France", "billion", "Write the figures out"),
        ("Your room is on floor 4.", "China", "floor 4", "four sounds like death"),
        ("We bring twelve red roses.", "Russia", "twelve red roses", "funerals"),
        ("Thumbs up if you agree!", "Iran", "Thumbs up", "insult (Iran)"),
        ("Just nod if it works.", "Bulgaria", "nod", "a nod can mean no"),
        ("Hand it over with your left hand.", "India", "left hand", "not used to give"),
    ],
)
def test_days_numbers_and_gestures_are_found_by_region(check, message, region, said, suggestion):
    (finding,) = check(message, region=region).output["findings"]
    assert finding["text"] == said
    assert suggestion.lower() in f"{finding['why']}. {finding['suggestion']}".lower()
    assert "Not adapted" in check(message, region=region).output["adapted_message"]


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Let us meet on Friday.", "Germany"),
        ("See you at the weekend.", "Spain"),
        ("We sold 1,500 units.", "Japan"),
        ("Release 1.234 is out, see section 1.200.", "US"),
        ("A market of two billion.", "Japan"),
        ("Your room is on floor 4.", "Germany"),
        ("We bring eleven red roses.", "Russia"),
        ("We have four meetings.", "China"),
        ("Thumbs up if you agree!", "Germany"),
    ],
)
def test_days_numbers_and_gestures_at_home_are_left_alone(check, message, region):
    assert check(message, region=region).output["findings"] == []


def label(outcome):
    return outcome.output["adapted_message"].partition("]: ")[0] + "]"


def test_a_message_that_was_changed_in_part_says_what_is_left(check):
    riyadh = check(
        "Hey guys, let's grab some beers on Friday evening!", "Our team in Riyadh", region="Saudi Arabia"
    )
    assert label(riyadh) == (
        "[Partly adapted for our team in Riyadh, Saudi Arabia; changed: how readers are addressed; "
        "change by hand: alcohol, days of rest]"
    )
    assert riyadh.output["notes"][0] == 'Changed in the message: "Hey guys" into "Hello everyone".'
    assert not any("Informal address" in note for note in riyadh.output["notes"])
    tokyo = check("Thanks, guys! It was a piece of cake.", "team", region="Japan")
    assert label(tokyo).startswith("[Partly adapted for team audience, Japan; ")
    assert label(tokyo).endswith("change by hand: idioms]")
    assert label(check("Thanks, guys!", "team", region="Japan")) == "[Adapted for team audience, Japan]"


@pytest.mark.parametrize(
    ("audience", "region", "readers"),
    [
        ("The board of our Berlin office", "Germany", "the board of our Berlin office, Germany"),
        ("colleagues", "Germany", "colleagues, Germany"),
        ("older people", "Peru", "older people, Peru"),
        ("Our team in Riyadh", "global", "our team in Riyadh"),
        ("customers in Japan", "Japan", "customers in Japan"),
        ("general", "Japan", "general audience, Japan"),
        ("business team", "Japan", "business team audience, Japan"),
        ("Germans", "Austria", "Germans, Austria"),
    ],
)
def test_the_label_names_the_readers_in_plain_english(check, audience, region, readers):
    told = label(check("Please send the file.", audience, region=region))
    assert told.startswith(f"[Not adapted for {readers}; "), told


@pytest.mark.parametrize(
    ("message", "audience", "region", "beside"),
    [
        ("Wear green hats.", "clients", "China", "in red"),
        ("Give it with your left hand.", "volunteers", "Thailand", "royal"),
        ("We fixed the bug in version 2.4.", "users", "Kenya", "dates as"),
        ("It will arrive on Tuesday.", "customer", "China", "lunar"),
        ("Thumbs up!", "team", "Iran", "right to left"),
        ("Send us the form.", "families from Afghanistan", "global", "Russian"),
        ("Send us the form.", "customers", "Turkey", "right to left"),
        ("Send us the form.", "supplier", "Netherlands", "formally"),
        ("Send us the form.", "customers", "Egypt", "Tamazight"),
        ("Click the link in the app.", "senior engineers", "Germany", "technology"),
    ],
)
def test_notes_that_do_not_touch_the_message_or_the_place_are_left_out(
    check, message, audience, region, beside
):
    notes = check(message, audience, region=region).output["notes"]
    assert not any(beside in note for note in notes), notes
    assert sum(note.startswith("General: ") for note in notes) <= 3


def test_notes_that_touch_the_message_are_not_marked_as_general(check):
    for message, audience, region, told in (
        ("Click the link in the app.", "senior citizens", "Germany", "Do not assume how well anybody knows"),
        ("Enter your surname.", "families from Afghanistan", "global", "Many people have one name only"),
        ("It is closed at the weekend.", "customers", "United Arab Emirates", "The weekend is Saturday"),
        ("It is 5 km away.", "guests", "US", "United States: US customary units."),
    ):
        notes = check(message, audience, region=region).output["notes"]
        assert any(note.startswith(told) for note in notes), notes


def test_a_message_is_called_adapted_only_when_nothing_is_left(check):
    korea = check("Hi guys! Say your biggest failure. Be brutally honest!", "team", region="South Korea")
    assert label(korea).startswith("[Partly adapted")
    foreign = check("Hey guys! Wir laden Sie alle zum Essen ein und freuen uns sehr", "team", region="Japan")
    assert label(foreign) == "[Not adapted for team, Japan; its language is not read here]"
