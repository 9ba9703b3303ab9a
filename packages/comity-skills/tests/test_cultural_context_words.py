"""What `cultural_context_check` reads in a message: food that is or is not served, customs, idioms, names of places."""

import json
from importlib.resources import files

import pytest

from comity_skills.cultural_context_check import SKILL
from tests.prepared import handler_of


@pytest.fixture(scope="module")
def check():
    handler = handler_of(SKILL)

    def run(message, region="global", audience="guests"):
        return handler({"message": message, "audience": audience, "region": region}, "enhanced")

    return run


def found(outcome):
    return [(each["issue"], each["text"]) for each in outcome.output["findings"]]


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("We serve halal lamb and no alcohol on Friday after prayers", "Saudi Arabia"),
        ("The dinner is without wine or beer.", "Saudi Arabia"),
        ("Alcohol-free drinks and non-alcoholic beer are there.", "Kuwait"),
        ("We do not serve alcohol or pork.", "Egypt"),
        ("Alcohol is not served.", "Pakistan"),
        ("Please never bring wine.", "Iran"),
        ("Pork and alcohol are forbidden in our kitchen.", "Qatar"),
        ("The halal burgers and the kosher sausages come first.", "Israel"),
        ("Turkey bacon, vegan sausages and veggie burgers", "Malaysia"),
        ("The ham radio club meets on Monday.", "Israel"),
        ("You liked the wine-red sofa and the beer mats logo.", "Pakistan"),
        ("Open the hamburger menu and tap the burger icon.", "India"),
        ("Use alcohol wipes and a steak knife.", "Indonesia"),
        ("The cocktail dress is in the champagne-coloured box.", "Morocco"),
        ("Beef for everybody", "Saudi Arabia"),
        ("A bottle of kosher wine", "Israel"),
        ("We don't offer wine, beer or cocktails.", "Oman"),
    ],
)
def test_a_considerate_host_is_not_scolded(check, message, region):
    assert found(check(message, region)) == []


@pytest.mark.parametrize(
    ("message", "region", "said"),
    [
        ("We serve wine and beer.", "Saudi Arabia", ["wine", "beer"]),
        ("Not only wine but beer too.", "Kuwait", ["wine", "beer"]),
        ("Don't forget to bring wine.", "Iran", ["wine"]),
        ("There is no limit on beer.", "Egypt", ["beer"]),
        ("No meat, but wine for all.", "Qatar", ["wine"]),
        ("Ham and eggs for breakfast", "Israel", ["Ham"]),
        ("Halal beef burgers", "India", ["beef", "burgers"]),
        ("Bacon burgers", "Malaysia", ["Bacon"]),
    ],
)
def test_what_is_served_is_still_found(check, message, region, said):
    assert [text for issue, text in found(check(message, region)) if issue == "food_and_drink"] == said


@pytest.mark.parametrize(
    ("message", "region", "said", "suggestion"),
    [
        ("A clock is our gift to you", "China", "clock", "sounds like going to a funeral (China)"),
        ("We give every guest a wall clock.", "Taiwan", "clock", "funeral"),
        ("The set costs 4,444 yuan", "China", "4,444 yuan", "four sounds like death"),
        ("Only ¥444!", "China", "¥444", "four sounds like death"),
        ("We bring four yellow tulips.", "South Korea", "four yellow tulips", "death"),
        ("Four flowers are on the table.", "Korea", "Four flowers", "four sounds like death"),
        ("Four cups as a gift", "Japan", "Four cups as a gift", "four sounds like death"),
        ("A gift set of four bowls", "Hong Kong", "set of four", "four sounds like death"),
        ("Your room is number 444.", "China", "number 444", "four sounds like death"),
        ("Our office in Kiev opens.", "Ukraine", "Kiev", "Kyiv"),
        ("The text is in Arabic.", "Iran", "Arabic", "Persian"),
        ("We answer in Spanish.", "Brazil", "Spanish", "Portuguese"),
        ("A Buddha for the garden", "Thailand", "Buddha", "decoration"),
        ("Our dating app is here.", "Saudi Arabia", "dating", "out of place"),
        ("We welcome our British neighbours.", "Ireland", "British", "Irish"),
    ],
)
def test_what_the_notes_of_a_place_know_is_found_in_the_message(check, message, region, said, suggestion):
    (finding,) = [
        each for each in check(message, region).output["findings"] if each["issue"] in {"custom", "number"}
    ]
    assert finding["text"] == said
    assert suggestion in f"{finding['why']}. {finding['suggestion']}"


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Help is there around the clock.", "China"),
        ("Set the clock to nine.", "China"),
        ("A clock is our gift to you", "Germany"),
        ("It costs 4,500 yuan.", "China"),
        ("We sold 444 books.", "China"),
        ("It costs 4,444 euros.", "Finland and France"),
        ("Five flowers are on the table.", "Korea"),
        ("We present the clock feature of our app", "China"),
        ("Our office in Kyiv opens.", "Ukraine"),
        ("The text is in Arabic.", "Egypt"),
        ("We answer in Spanish.", "Spain"),
    ],
)
def test_customs_of_elsewhere_are_no_finding(check, message, region):
    assert "custom" not in dict(found(check(message, region)))
    assert not any("death" in each["suggestion"] for each in check(message, region).output["findings"])


def test_every_idiom_gets_its_own_plain_wording(check):
    for message, plain in {
        "piece of cake, break a leg": {"piece of cake": "easy", "break a leg": "good luck"},
        "Let's table this, touch base and knock it out of the park.": {
            "table this": "put it off, or discuss it now: it means both",
            "touch base": "talk briefly",
            "knock it out of the park": "do very well",
        },
    }.items():
        note = check(message, "Japan").output["notes"][0]
        for idiom, said in plain.items():
            assert f'"{idiom}": Say it plainly: {said}.' in note, note
    alike = check("Wine and beer", "Kuwait").output["notes"][0]
    assert alike.count("Offer something") == 1


@pytest.mark.parametrize(
    ("region", "code"),
    [
        *(("Ägypten", "EG"), ("Agypten", "EG"), ("Égypte", "EG"), ("Egipto", "EG"), ("Egitto", "EG"), ("Egito", "EG")),
        *(("Österreich", "AT"), ("Autriche", "AT"), ("Japon", "JP"), ("Giappone", "JP"), ("Japão", "JP")),
        *(("Vereinigte Staaten", "US"), ("États-Unis", "US"), ("Estados Unidos", "US"), ("Stati Uniti", "US")),
        *(("Großbritannien", "GB"), ("Royaume-Uni", "GB"), ("Pays-Bas", "NL"), ("Países Bajos", "NL")),
        *(("Südkorea", "KR"), ("Corée du Sud", "KR"), ("Saudi-Arabien", "SA"), ("Arabie saoudite", "SA")),
        *(("Island", "IS"), ("Maurice", "MU"), ("Kroatien", "HR"), ("Weißrussland", "BY"), ("Côte d'Ivoire", "CI")),
        *(("Lateinamerika", "latin_america"), ("Naher Osten", "middle_east"), ("Afrique", "africa")),
    ],
)  # fmt: skip
def test_places_are_known_by_their_names_in_five_languages(check, region, code):
    assert [each["code"] for each in check("Welcome", region).output["places"]] == [code]


def test_a_foreign_name_that_is_an_english_word_counts_only_by_itself(check):
    for audience in (
        "people of Long Island",
        "my friend Maurice",
        "a small island team",
        "Dominique and her team",
    ):
        assert check("Welcome", audience=audience).output["places"] == [], audience


def test_every_country_is_known_by_its_names_in_cldr(check):
    babel = pytest.importorskip("babel")
    name = "cultural_context_check/regions.json"
    regions = json.loads(files("comity_skills").joinpath(name).read_bytes())
    missed = []
    for language in ("de", "fr", "es", "it", "pt"):
        names = babel.Locale(language).territories
        for code in regions["countries"]:
            codes = {each["code"] for each in check("Welcome", names[code]).output["places"]}
            if code not in codes and not set(names[code]) & set("(."):
                missed.append((language, code, names[code]))
    assert missed == [("es", "GD", "Granada"), ("pt", "GD", "Granada")]  # a city in Spain, too


def test_an_unknown_place_is_told_in_the_result(check):
    output = check("Please send the file.", "Wakanda").output
    assert output["adapted_message"] == (
        "[Not adapted for guests, Wakanda; the region is not known here: only what holds everywhere was checked]: "
        "Please send the file."
    )
    assert output["notes"][0] == "The region is not known here: only what holds everywhere was checked."
    greeted = check("Hey guys, welcome!", "Wakanda").output["adapted_message"]
    assert greeted.startswith("[Adapted for guests, Wakanda; the region is not known here")
    assert "not known" not in check("Please send the file.", "Germany").output["adapted_message"]
    told = check("Please send it.", "Wakanda", "guests from Kuwait").output["adapted_message"]
    assert "the region is not known here: the message was checked for Kuwait" in told
    for everywhere in ("global", "worldwide", "international", "everyone except Japan", "non-US customers"):
        assert "not known" not in check("Please send it.", everywhere).output["adapted_message"], everywhere


def test_a_message_in_another_language_is_not_called_free_of_findings(check):
    told = check("Wir laden Sie zum Essen ein und freuen uns", "Ägypten").output["adapted_message"]
    assert "its language is not read here" in told
    assert "nothing in it" not in told


def test_of_an_unknown_place_only_what_holds_everywhere_is_judged(check):
    message = "Join us for beer in summer 👍, it is a piece of cake, by 03/04/2025"
    assert found(check(message, "Wakanda")) == [("idiom", "piece of cake"), ("date", "03/04/2025")]
    assert ("food_and_drink", "beer") in found(check(message, "global"))
    assert ("food_and_drink", "beer") in found(check(message, "Wakanda", "guests from Kuwait"))


@pytest.mark.parametrize(
    ("message", "region", "law"),
    [
        ("Wine for all", "Kuwait", "The law forbids alcohol in Kuwait"),
        ("We serve beer and ham.", "Saudi Arabia", "The law forbids pork in Saudi Arabia"),
        ("Champagne for all", "Afghanistan", "The law forbids alcohol in Afghanistan"),
    ],
)
def test_what_the_law_forbids_is_said_to_be_forbidden_by_law(check, message, region, law):
    assert any(law in each["why"] for each in check(message, region).output["findings"])
    assert any(law in note for note in check(message, region).output["notes"])


@pytest.mark.parametrize("region", ["Egypt", "Malaysia", "United Arab Emirates", "Jordan"])
def test_custom_is_not_called_law(check, region):
    (finding,) = check("Wine for all", region).output["findings"]
    assert finding["why"] == "Faith or custom may forbid it"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Discover the mysterious East with our gypsy guides.", ["mysterious East", "gypsy"]),
        ("We got gypped by the vendor.", ["gypped"]),
        ("Our igloos are built like those of the Eskimos.", ["Eskimos"]),
        ("The friendly natives will welcome you.", ["friendly natives"]),
        ("It was a game of Chinese whispers.", ["Chinese whispers"]),
        ("Let's have a powwow.", ["powwow"]),
    ],
)
def test_slurs_and_stereotypes_set_people_apart(check, message, said):
    assert [text for issue, text in found(check(message)) if issue == "assimilation"] == said


@pytest.mark.parametrize(
    "message",
    [
        "The gypsy moth eats oak leaves.",
        "A concert of gypsy jazz",
        "It is Gypsy Roma Traveller History Month.",
        "The Orient Express leaves tomorrow.",
        "Our office is in the east of Berlin.",
        "Native Americans live here.",
    ],
)
def test_names_that_hold_such_a_word_set_nobody_apart(check, message):
    assert "assimilation" not in dict(found(check(message)))


def test_the_notes_use_no_wording_that_the_check_would_flag():
    assert "mankind" not in files("comity_skills").joinpath(SKILL.data[0]).read_text("utf-8")


@pytest.mark.parametrize(
    ("message", "region", "said"),
    [
        ("We gift every client a set of five knives.", "China", "knives"),
        ("Our gift to you is an umbrella.", "Hong Kong", "umbrella"),
        ("Chrysanthemums for the hostess", "France", "Chrysanthemums"),
        ("There is no need to take off your shoes.", "Japan", "no need to take off your shoes"),
        ("Our Ramadan lunch starts at noon.", "Egypt", "Ramadan lunch"),
        ("The Ukraine is growing.", "Ukraine", "The Ukraine"),
    ],
)
def test_gifts_clothes_shoes_and_fasting_have_their_customs(check, message, region, said):
    assert ("custom", said) in found(check(message, region))


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Our knives stay sharp.", "China"),
        ("Take an umbrella, it rains.", "Hong Kong"),
        ("Please take off your shoes.", "Japan"),
        ("We visit Ukraine.", "Ukraine"),
        ("Ramadan greetings from us", "Egypt"),
    ],
)
def test_the_same_words_in_other_use_are_no_custom(check, message, region):
    assert "custom" not in dict(found(check(message, region)))


def test_drinks_after_work_are_alcohol_and_soft_drinks_are_not(check):
    for message in ("Join us for drinks.", "After-work drinks on Monday", "We go to the pub."):
        assert "food_and_drink" in dict(found(check(message, "Kuwait"))), message
    for message in ("Soft drinks are free.", "The team is in high spirits.", "Apple cider vinegar"):
        assert found(check(message, "Kuwait")) == [], message


@pytest.mark.parametrize(
    ("message", "audience", "region", "said"),
    [
        ("Team breakfast at 8 am in the canteen", "staff during Ramadan", "Indonesia", "breakfast"),
        ("During Ramadan we offer pizza at noon.", "team", "Egypt", "pizza"),
        ("Free doughnuts for everyone!", "colleagues who are fasting", "UK", "doughnuts"),
        ("Come to lunch with us at noon.", "Muslim employees during Ramadan", "Egypt", "lunch"),
        ("The exam starts on Friday at 12:30.", "students", "Pakistan", "Friday"),
        ("All hands on Friday, 1 p.m. at the office.", "staff", "Turkey", "Friday"),
        ("The meeting is on Friday at 1 pm.", "office staff", "United Arab Emirates", "Friday"),
        ("Friday lunch with the board", "Muslim colleagues", "Canada", "Friday"),
        ("The school fair is on Saturday.", "Jewish families", "US", "Saturday"),
        ("We meet on Friday.", "staff", "Bangladesh", "Friday"),
        ("The exam is on Yom Kippur.", "Jewish students", "US", "Yom Kippur"),
        ("Training on Diwali is mandatory.", "Hindu staff", "UK", "Diwali"),
        ("Happy Thanksgiving!", "staff", "Brazil", "Thanksgiving"),
        ("Come for St. Patrick's Day.", "clients", "China", "St. Patrick's Day"),
        ("Secret Santa is on Monday.", "Muslim colleagues", "Germany", "Secret Santa"),
        ("Bacon rolls on Monday", "Muslim parents", "UK", "Bacon"),
        ("Hot dogs for the class", "parents of different faiths", "Germany", "Hot dogs"),
        ("Our winter sale is in December.", "shoppers", "New Zealand", "winter"),
    ],
)
def test_what_collides_with_fasts_prayers_feasts_and_seasons_is_found(check, message, audience, region, said):
    assert said in [text for _, text in found(check(message, region, audience))]


@pytest.mark.parametrize(
    ("message", "audience", "region"),
    [
        ("Iftar at sunset, lunch boxes for children", "staff during Ramadan", "Indonesia"),
        ("After Ramadan we will have lunch together.", "team", "Egypt"),
        ("Lunch is served for those who are not fasting.", "staff during Ramadan", "Malaysia"),
        ("Fasting blood test: eat no breakfast.", "patients", "Germany"),
        ("Lunch is at noon on Tuesday.", "Muslim colleagues", "Germany"),
        ("Friday 9 am stand-up", "team", "Turkey"),
        ("The office is closed on Friday at noon.", "team", "Morocco"),
        ("We meet after Friday prayers.", "team", "Pakistan"),
        ("Friday is free, Monday at 1 pm we meet.", "team", "Malaysia"),
        ("Friday 1 pm call", "team", "Germany"),
        ("Eid Mubarak to you all!", "Muslim colleagues", "Germany"),
        ("Eid Mubarak!", "clients", "Saudi Arabia"),
        ("Happy Thanksgiving!", "staff", "US"),
        ("Pork for all", "non-Muslim guests", "UK"),
        ("Chicken hot dogs and halal meatballs", "Muslim parents", "UK"),
        ("Our summer sale is in January.", "shoppers", "Australia"),
    ],
)
def test_a_message_that_minds_the_days_of_its_readers_is_left_alone(check, message, audience, region):
    assert found(check(message, region, audience)) == []


@pytest.mark.parametrize(
    ("message", "region", "said"),
    [
        ("We give each client a pair of shoes.", "China", "shoes"),
        ("White lilies for the hostess", "Japan", "White lilies"),
        ("We send white chrysanthemums and a clock to congratulate you.", "China", "white chrysanthemums"),
        ("We send white chrysanthemums and a clock to congratulate you.", "China", "clock"),
        ("Green caps for the whole team!", "China", "Green caps"),
        ("A 4-piece tea set", "Japan", "4-piece"),
        ("Pat the children on the head.", "Thailand", "Pat the children on the head"),
        ("Feel free to ruffle the kids' hair.", "Cambodia", "ruffle the kids' hair"),
        ("Put your feet on the desk.", "Thailand", "feet on the desk"),
        ("Guests may wear shoes inside.", "Thailand", "shoes inside"),
        ("Hand it over with your left hand.", "Thailand", "left hand"),
        ("Our English customers", "UK", "English customers"),
        ("Section 2 makes no sense and must be rewritten.", "Japan", "makes no sense"),
        ("Tell us your biggest failure.", "South Korea", "biggest failure"),
        ("We are the best.", "Sweden", "We are the best"),
        ("It would be great if you could possibly sign it.", "Netherlands", "possibly"),
        ("Dear Mr. Wei Zhang, thank you.", "China", "Mr. Wei Zhang"),
        ("It will be 95 degrees outside.", "Spain", "95 degrees"),
        ("You murdered the competition.", "Indonesia", "murdered the competition"),
        ("Ball's in your court.", "Germany", "Ball's in your court"),
    ],
)
def test_what_a_place_does_not_do_is_found(check, message, region, said):
    assert said in [text for _, text in found(check(message, region))]


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Do not touch children's heads.", "Thailand"),
        ("Never use your left hand to give.", "India"),
        ("The button is in the left hand column.", "Malaysia"),
        ("Touch the print head to clean it.", "Thailand"),
        ("New shoes are in stock.", "China"),
        ("Thank you for ordering the wall clock.", "China"),
        ("Do not give clocks as a gift.", "China"),
        ("The English teacher is here.", "UK"),
        ("Rotate it by 90 degrees.", "France"),
        ("Perhaps we can meet.", "Netherlands"),
        ("Dear Mr. Zhang, thank you.", "China"),
        ("My number one priority is you.", "Sweden"),
        ("It makes no sense to wait.", "Germany"),
    ],
)
def test_a_warning_and_another_sense_are_no_finding(check, message, region):
    assert found(check(message, region)) == []


def test_a_wording_is_suggested_that_fits_the_region(check):
    for region, better in (("Saudi Arabia", "spouse, or family"), ("Sweden", "partner")):
        (finding,) = check("Bring your husband or wife.", region).output["findings"]
        assert finding["suggestion"].startswith(f"Better: {better}")


@pytest.mark.parametrize(
    ("message", "region", "audience", "said"),
    [
        ("We will have a hog roast.", "UK", "Muslim and Jewish colleagues", "hog roast"),
        ("Dinner is a pig roast.", "Malaysia", "team", "pig roast"),
        ("Suckling pig for everyone!", "Indonesia", "team", "Suckling pig"),
        ("Show us the soles of your sandals.", "Thailand", "guests", "Show us the soles of your sandals"),
        ("Touch the head of our giant Buddha statue.", "Thailand", "guests", "Touch the head"),
        ("Our gift: tea and cups, four of each.", "China", "partner", "four of each"),
        ("The gifts are wrapped in plain white paper.", "China", "partner", "wrapped in plain white"),
        ("Meet our mascot, Max the piggy.", "Pakistan", "families", "mascot, Max the piggy"),
        ("Join our Russian night.", "Ukraine", "partner", "Russian night"),
        ("See you in Kiev.", "Ukraine", "partner", "Kiev"),
        ("Cruise the Persian Gulf with us.", "Kuwait", "customers", "Persian Gulf"),
        ("Cruise the Arabian Gulf with us.", "Iran", "customers", "Arabian Gulf"),
        ("Welcome to Burma.", "Myanmar", "customers", "Burma"),
        ("We open an office in Bombay.", "India", "customers", "Bombay"),
        ("We serve Third World nations.", "Kenya", "customers", "Third World nations"),
        ("A colonial evening with tea", "India", "guests", "colonial evening"),
        ("We ship to countries such as Japan and Taiwan.", "China", "customers", "countries such as Japan and Taiwan"),
        ("Tour the British Isles.", "Ireland", "customers", "British Isles"),
    ],
)  # fmt: skip
def test_taboos_and_loaded_names_are_found_in_other_wordings(check, message, region, audience, said):
    assert said in [text for _, text in found(check(message, region, audience))]


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("The soles of these shoes are rubber.", "India"),
        ("Contact the head of marketing.", "Thailand"),
        ("Order 4 of each screw.", "China"),
        ("The Russian embassy moves.", "Ukraine"),
        ("Chicken Kiev is on the menu.", "Ukraine"),
        ("IIT Bombay has sent the results.", "India"),
        ("The guinea pig sleeps.", "Saudi Arabia"),
        ("Cruise the Persian Gulf with us.", "Iran"),
        ("Tour the British Isles.", "Canada"),
    ],
)
def test_the_neighbours_of_taboos_and_loaded_names_are_left_alone(check, message, region):
    assert found(check(message, region)) == []


def test_the_reason_of_a_custom_says_what_it_is(check):
    (finding,) = check("See you in Kiev.", "Ukraine").output["findings"]
    assert finding["why"] == "Kiev is the Russian form of the name (Ukraine)"
    assert finding["suggestion"] == "Write Kyiv"


@pytest.mark.parametrize(
    ("message", "adapted"),
    [
        ("Merry Christmas to all you guys!", "Merry Christmas to all of you!"),
        ("I thank all of you guys.", "I thank all of you."),
        ("Both you guys were right.", "Both of you were right."),
        ("We count on you guys.", "We count on you all."),
        ("Hey Bro, the account is locked.", "Hey Bro, the account is locked."),
        ("Hey Anna, the account is locked.", "Hello Anna, the account is locked."),
    ],
)
def test_an_edit_fits_the_words_around_it(check, message, adapted):
    assert check(message, "Brazil").output["adapted_text"] == adapted


def test_the_advice_on_you_folks_and_ping_me_fits_the_sentence(check):
    findings = check("You folks can ping me.", "Brazil").output["findings"]
    assert [(each["text"], each["suggestion"]) for each in findings] == [
        ("You folks", "Better: you, or the name of the team"),
        ("ping me", "Say it plainly: write to me"),
    ]
