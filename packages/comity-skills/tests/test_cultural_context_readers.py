"""How `cultural_context_check` minds its readers: their English, their faith, their age, where they are, how they are treated."""

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


def suggestions(outcome):
    return {each["text"]: each["suggestion"] for each in outcome.output["findings"]}


@pytest.mark.parametrize(
    ("message", "region", "said", "plain"),
    [
        ("Kindly do the needful.", "United States", "do the needful", "do what is needed"),
        ("We had to prepone the call.", "Brazil", "prepone", "earlier"),
        ("Please revert by Monday.", "Poland", "Please revert", "please reply"),
        ("The budget is 10 lakh.", "United States", "10 lakh", "1,000,000"),
        ("The budget is 3.5 crore.", "Germany", "3.5 crore", "35 000 000"),
        ("We can take a rain check.", "Brazil", "rain check", "another day"),
        ("We can take a rain check.", "UK", "rain check", "another day"),
        ("See you in a fortnight.", "US", "fortnight", "two weeks"),
        ("Dinner is at half seven.", "Germany", "at half seven", "6:30"),
        ("See you this arvo.", "Canada", "arvo", "afternoon"),
        ("It is due next tomorrow.", "Ireland", "next tomorrow", "the day after tomorrow"),
        ("Come to our braai.", "Chile", "braai", "barbecue"),
        ("It is a sticky wicket.", "US", "sticky wicket", "difficult"),
        ("Cheers mate", "Japan", "mate", "the name"),
    ],
)
def test_words_of_one_variety_of_english_are_found_for_readers_elsewhere(check, message, region, said, plain):
    assert plain in suggestions(check(message, region))[said]


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Kindly do the needful, the budget is 10 lakh.", "India"),
        ("You can revert the commit.", "Germany"),
        ("Revert back to the old version.", "US"),
        ("We meet in a fortnight.", "New Zealand"),
        ("It was a home run.", "Canada"),
        ("No worries, it was a piece of cake.", "Australia"),
        ("Cheers mate", "UK"),
        ("Your team mate is here.", "Japan"),
        ("Half seven of them are new.", "Germany"),
    ],
)
def test_words_are_left_alone_where_they_are_at_home_or_mean_something_else(check, message, region):
    assert found(check(message, region)) == []


@pytest.mark.parametrize(
    ("message", "audience", "region", "said"),
    [
        ("u gotta take the pill 2x a day, no cap. ttyl", "elderly", "USA", ["u gotta", "2x a day", "no cap", "ttyl"]),
        ("Your costs are thru the roof, lmk", "pensioners", "UK", ["thru the roof", "lmk"]),
        ("tbh finish all tablets", "patients", "UK", ["tbh"]),
        ("u can park here b4 9", "customers", "France", ["u can", "b4"]),
        ("wanna join? thx", "refugees", "Canada", ["wanna", "thx"]),
    ],
)  # fmt: skip
def test_chat_words_are_found_for_old_and_second_language_readers(check, message, audience, region, said):
    assert [text for issue, text in found(check(message, region, audience)) if issue == "slang"] == said


@pytest.mark.parametrize(
    ("message", "audience", "region"),
    [
        ("pls send the file, thx", "colleague", "USA"),
        ("no cap, u gotta see this", "teens", "UK"),
        ("There is no cap on the bonus.", "pensioners", "UK"),
        ("The U.S. drive-thru is open.", "elderly", "France"),
        ("yo wanna grab dinner thursday?", "friend", "global"),
        ("Hey! pizza and beers at 8pm? 🍺 lol", "best friend", "global"),
        ("dude, hey guys, cheers mate", "my mates", "USA"),
        ("Hey bro, what's up", "my friend in Tokyo", "Japan"),
    ],
)
def test_a_line_among_friends_or_young_readers_stays_as_it_is(check, message, audience, region):
    output = check(message, region, audience).output
    assert output["findings"] == output["edits"] == []
    assert output["adapted_text"] == message


def test_a_friend_of_whom_more_is_known_is_still_minded(check):
    assert ("food_and_drink", "pork") in found(check("Hey, pork ribs?", "UK", "my Muslim friend"))
    assert ("assimilation", "You people") in found(check("You people are late", audience="friend"))
    assert check("Our clients", audience="user-friendly readers").output["notes"]


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("You people always haggle.", "China"),
        ("It's part of your culture I guess.", "China"),
        ("That is just typical of your country.", "Romania"),
        ("You Nigerians are always late.", "Nigeria"),
        ("That is African time.", "Kenya"),
        ("Germans are always so punctual.", "Germany"),
        ("Your English is very good for a Korean!", "South Korea"),
        ("People from your country never answer.", "Egypt"),
        ("Typical Italian temper!", "Italy"),
        ("As an African, you must know how to deal with heat.", "Kenya"),
        ("I know Mexicans love siestas.", "Mexico"),
        ("You work hard for someone from your culture.", "Mexico"),
    ],
)
def test_a_stereotype_of_the_readers_is_found(check, message, region):
    assert "assimilation" in dict(found(check(message, region)))


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Which holidays are part of your culture?", "Canada"),
        ("Bring a dish that is typical of your country.", "Romania"),
        ("Germans are always welcome.", "Germany"),
        ("The German team did well.", "Germany"),
        ("As a German company, you must file form 3.", "Germany"),
        ("You polish really well.", "UK"),
        ("Check the rules in your country.", "Peru"),
        ("We look for a German translator for you.", "Italy"),
        ("Thank you people!", "Kenya"),
        ("Times are in the West African time zone.", "Kenya"),
    ],
)
def test_a_question_or_a_fact_about_the_readers_is_no_stereotype(check, message, region):
    assert "assimilation" not in dict(found(check(message, region)))


@pytest.mark.parametrize(
    ("message", "audience", "region"),
    [
        ("She is in a better place now with Jesus.", "a Muslim family", "Egypt"),
        ("She is safe with Christ.", "colleagues", "Thailand"),
        ("Praise the Lord!", "Hindu parents", "UK"),
        ("Inshallah we meet again.", "Jewish neighbours", "Israel"),
        ("She will be reborn.", "Catholic family", "Poland"),
        ("God bless you all", "customers", "global"),
        ("God bless you all", "Buddhist community", "Japan"),
    ],
)
def test_words_of_one_faith_are_found_for_readers_of_another(check, message, audience, region):
    assert "faith" in dict(found(check(message, region, audience)))


@pytest.mark.parametrize(
    ("message", "audience", "region"),
    [
        ("She is now with Jesus.", "Christian family", "Egypt"),
        ("Inshallah we meet again.", "clients", "Jordan"),
        ("God bless you all", "customers", "USA"),
        ("God bless you all", "Muslim families", "UK"),
        ("Meet with Jesus in room 3.", "staff", "Egypt"),
        ("We are thinking of you.", "a Muslim family", "Egypt"),
    ],
)
def test_words_of_the_faith_of_the_readers_are_left_alone(check, message, audience, region):
    assert "faith" not in dict(found(check(message, region, audience)))


@pytest.mark.parametrize(
    ("message", "audience", "region", "said"),
    [
        ("Hot dogs for everyone 🍺", "very mixed backgrounds", "UK", ["Hot dogs", "🍺"]),
        ("Summer party 🍻🥓", "multicultural team", "Germany", ["🍻", "🥓"]),
        ("Party 🍷", "staff", "Kuwait", ["🍷"]),
        ("No 🍺 at this event", "staff", "Kuwait", []),
        ("Party 🍷", "staff", "France", []),
        ("Party ☕", "multicultural team", "Germany", []),
    ],
)
def test_signs_of_food_and_drink_are_read_and_mixed_audiences_minded(check, message, audience, region, said):
    assert [
        text for issue, text in found(check(message, region, audience)) if issue == "food_and_drink"
    ] == said


@pytest.mark.parametrize(
    ("message", "region", "said"),
    [
        ("The cost is high. Send a new version by Monday.", "Thailand", "Send a new version"),
        ("Answer today.", "Colombia", "Answer"),
        ("Fix this immediately!", "Kenya", "Fix this"),
        ("We will not accept it.", "Thailand", "We will not accept it"),
        ("Your request is rejected.", "Egypt", "is rejected"),
        ("No. It stays.", "Japan", "No"),
        ("I talked to your boss.", "Japan", "I talked to your boss"),
        ("I have copied your manager.", "Indonesia", "I have copied your manager"),
        ("We'll inform your director.", "India", "We'll inform your director"),
        ("You weren't getting anywhere.", "Japan", "You weren't getting anywhere"),
    ],
)
def test_orders_refusals_and_superiors_are_found_where_people_expect_softness(check, message, region, said):
    assert said in [text for _, text in found(check(message, region))]
    for direct in ("Netherlands", "Israel", "US"):
        assert found(check(message, direct)) == [], direct


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Please send a new version by Monday.", "Thailand"),
        ("Send it by Monday, please.", "Vietnam"),
        ("Unfortunately we cannot accept this price.", "Thailand"),
        ("We do not accept cash.", "Japan"),
        ("Sign up today!", "Mexico"),
        ("Click the link.", "India"),
        ("Please talk to your manager about your leave.", "Indonesia"),
        ("I told your manager how excellent your work is.", "Vietnam"),
        ("No response is needed.", "Peru"),
    ],
)
def test_a_polite_request_or_refusal_is_left_alone(check, message, region):
    assert found(check(message, region)) == []


@pytest.mark.parametrize(
    ("message", "region", "said", "suggestion"),
    [
        ("Confirm it please, 5 pm EST.", "Japan", "5 pm EST", "in Japan"),
        ("The webinar starts at 15:00 CET.", "Brazil", "15:00 CET", "in Brazil"),
        ("The webinar starts at 15:00.", "Brazil", "15:00", "Add the time zone"),
        ("Our hotline is open from 9 to 5 daily.", "India", "from 9 to 5", "Add the time zone"),
        ("Call 1-800-555-0199.", "France", "1-800-555-0199", "country code"),
        ("Call (888) 555-0199.", "Peru", "(888) 555-0199", "country code"),
        ("Call 911 if it hurts.", "Poland", "911", "emergency number"),
        ("It stays below 75°F.", "France", "75°F", "about 24 °C"),
        ("It weighs 220 lbs.", "France", "220 lbs", "about 99.8 kg"),
        ("It is 6 ft tall.", "Kenya", "6 ft", "about 1.83 m"),
        ("It is 1,500 miles away.", "Japan", "1,500 miles", "about 2414 km"),
        ("It is 40 cm long.", "US", "40 cm", "about 15.7 inches"),
    ],
)
def test_times_numbers_and_units_of_elsewhere_are_found(check, message, region, said, suggestion):
    assert suggestion in suggestions(check(message, region))[said]


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("The webinar starts at 15:00 CET.", "Germany"),
        ("The webinar starts at 15:00 Berlin time.", "Brazil"),
        ("The webinar starts at 15:00 UTC.", "Brazil"),
        ("Your appointment is at 15:00.", "Poland"),
        ("A 9 to 5 job", "Brazil"),
        ("Call 1-800-555-0199 or dial 911.", "Canada"),
        ("Room 911 is free.", "Poland"),
        ("Our office is closed on Friday.", "Qatar"),
        ("See you in the new year.", "Israel"),
        ("Happy new year!", "Germany"),
        ("Happy Diwali!", "India"),
        ("My wife and I thank you.", "Morocco"),
    ],
)
def test_times_numbers_and_days_at_home_are_left_alone(check, message, region):
    assert found(check(message, region)) == []


def test_a_fast_needs_room_for_those_who_keep_it(check):
    message = "During Ramadan the class has a breakfast. Each child must eat something."
    assert found(check(message, "Netherlands", "parents")) == [
        ("custom", "breakfast"),
        ("custom", "must eat"),
    ]
    for message, said in (("The exam is on Eid.", "Eid"), ("Training on Diwali", "Diwali")):
        assert suggestions(check(message, "Canada", "students")) == {said: "Choose another day"}
    assert found(check("During Ramadan we open at ten.", "Netherlands", "customers")) == []
    assert "Greet those" in suggestions(check("Merry Christmas to all", "Israel"))["Merry Christmas"]


def test_what_is_said_of_a_national_day_is_a_whole_and_true_sentence(check):
    told = suggestions(check("Thanksgiving and Labor Day are holidays.", "India"))
    assert told["Thanksgiving"].endswith("a day of the United States and Canada, and not of India")
    assert told["Labor Day"].endswith("many other countries keep a day of labour on 1 May, so name the date")


@pytest.mark.parametrize(
    ("message", "audience", "region"),
    [
        ("Thanks so much for your help with the move!", "neighbours", "Canada"),
        ("Congratulations on your new baby!", "colleague", "Japan"),
        ("We are sorry for your loss.", "a family", "Egypt"),
        ("see you at six", "friend", "global"),
    ],
)
def test_a_personal_line_gets_no_general_notes(check, message, audience, region):
    assert check(message, region, audience).output["notes"] == []


def test_a_date_in_the_language_of_its_readers_is_not_ambiguous(check):
    assert found(check("Bitte senden Sie die Unterlagen bis 03.04.2025.", "Schweiz")) == []
    assert found(check("Please send it by 03.04.2025.", "Schweiz")) == [("date", "03.04.2025")]


def test_a_region_inside_a_word_of_the_audience_is_still_named(check):
    assert "for customers, US;" in check("Please send it.", "US", "customers").output["adapted_message"]


@pytest.mark.parametrize(
    ("message", "region", "about"),
    [
        ("Waitress wanted: 18-25, good pay.", "UK", "age"),
        ("We are hiring! Age limit 35.", "India", "age"),
        ("Seeking a young assistant for our shop.", "Germany", "age"),
        ("Vacancy: driver. Only men need apply.", "Kenya", "sex"),
        ("We are looking for a girl for the front desk. Apply today.", "Poland", "sex"),
        ("Receptionist needed, attractive appearance.", "UAE", "looks"),
        ("We are hiring a cook. No kids, not planning a family.", "Italy", "family life"),
        ("Applicants should not be pregnant.", "US", "family life"),
        ("Turbans are not allowed at reception.", "Canada", "faith"),
        ("Staff must not wear a hijab.", "UK", "faith"),
        ("Room to rent, no foreigners please.", "UK", "where they come from"),
        ("Kenyans need not apply.", "UK", "where they come from"),
        ("Moms bake, dads help with the grill.", "US", "by their sex"),
        ("Mothers, please bring a cake.", "Ireland", "by their sex"),
        ("Each child makes a card for Mommy and Daddy.", "US", "Not every child"),
        ("It is so easy even your maid can use it.", "India", "least able"),
        ("You code really well for a woman.", "US", "as a kind"),
        ("Our Muslim staff will be slower during Ramadan.", "UK", "takes for granted"),
        ("In Ramadan we kept them out of the pitch.", "UK", "without asking"),
        ("Happy Ramadan, enjoy the feasting!", "UK", "month of fasting"),
    ],
)
def test_what_shuts_people_out_or_sorts_them_is_found_in_everyday_words(check, message, region, about):
    whys = [each["why"] for each in check(message, region, "the public").output["findings"]]
    assert any(about in why for why in whys), whys


@pytest.mark.parametrize(
    "message",
    [
        "We are hiring nurses of any age; experience with young people is welcome.",
        "We offer an attractive salary and part-time work.",
        "Female candidates are encouraged to apply.",
        "No headscarf is required at the visit.",
        "No accents or special marks in the file name.",
        "Children between 10 and 14 can join the camp; no children under 3 on the slide.",
        "Mums and dads bring a cake.",
        "Mum and Dad are coming on Tuesday.",
        "If you are tired during Ramadan, let us know.",
        "You asked for it, so we took you off the late shift in Ramadan.",
        "Older colleagues share what they know.",
    ],
)
def test_what_only_looks_like_it_is_left_alone(check, message):
    assert found(check(message, "UK", "the public")) == []


@pytest.mark.parametrize(
    ("message", "region"),
    [
        ("Your slides were late. You obviously didn't prepare.", "South Korea"),
        ("I don't have time for your excuses.", "India"),
        ("That is not my problem, ask somebody else.", "Mexico"),
        ("Only an idiot would miss that.", "US"),
        ("People like you never learn.", "Germany"),
    ],
)
def test_a_harsh_text_is_not_called_fine(check, message, region):
    outcome = check(message, region, "a colleague")
    assert "tone" in dict(found(outcome)), found(outcome)
    assert "nothing in it was found" not in outcome.output["adapted_message"]


@pytest.mark.parametrize(
    ("message", "region", "audience"),
    [
        ("I don't have time for your excuses.", "Germany", "a colleague"),  # said plainly there
        ("Only an idiot would park that old car here.", "UK", "my brother"),
        ("Children should wear their normal uniform.", "UK", "parents"),
        ("Congratulations on the opening of your new store!", "China", "partner"),
        ("Thank you for the report. Could you add the figures for May?", "Japan", "team"),
        ("We have received your complaint and will answer within three days.", "Mexico", "customer"),
        ("Ich habe keine Zeit für Ihre Ausreden und will nichts mehr davon hören.", "Japan", "team"),
    ],
)
def test_a_plain_text_is_not_called_harsh(check, message, region, audience):
    assert "tone" not in dict(found(check(message, region, audience)))


def test_a_sentence_that_was_called_blunt_is_not_called_harsh_too(check):
    (finding,) = check("Your report was a mess and you know it.", "Japan", "team").output["findings"]
    assert finding["issue"] == "direct"


@pytest.mark.parametrize(
    ("message", "region", "audience", "said"),
    [
        ("Sign or we will take our business elsewhere.", "Japan", "supplier", "or we will take our business elsewhere"),
        ("I will say it in front of the team.", "Thailand", "employee", "say it in front of the"),
        ("Rewrite it by tomorrow.", "US", "our client", "Rewrite it by"),
        ("I am so sorry for your loss. Everything happens for a reason.", "UK", "client", "Everything happens for a reason"),
    ],
)  # fmt: skip
def test_ultimatums_exposure_orders_to_clients_and_comfort_formulas_are_found(
    check, message, region, audience, said
):
    assert said in suggestions(check(message, region, audience))


@pytest.mark.parametrize(
    ("message", "region", "audience"),
    [
        ("Rewrite it by tomorrow.", "Germany", "our client"),
        ("Would you like to come, or shall we go somewhere else?", "Japan", "partner"),
        ("I'm copying the whole team so everyone has the date.", "Japan", "team"),
        ("At least you can swim there, and everything happens for a reason.", "UK", "guests"),
    ],
)
def test_their_harmless_neighbours_are_left_alone(check, message, region, audience):
    assert found(check(message, region, audience)) == []


def test_a_text_in_another_language_is_said_to_be_unread_and_no_word_is_picked_from_it(check):
    for message, region in (
        ("Salut les gars, on se fait un apéro jeudi soir pour fêter la fin du projet, même en plein ramadan lol", "Maroc"),
        ("Hey guys! Wir laden Sie alle zum Essen ein und freuen uns sehr auf Halloween", "Japan"),
        ("Hola amigo, mandame la plata antes del viernes y listo, que no es un chiste. Happy hour para todos", "España"),
    ):  # fmt: skip
        output = check(message, region, "equipo").output
        assert output["findings"] == []
        assert output["edits"] == []
        assert output["notes"][0].startswith("The message is not in English. Its words were not read")


@pytest.mark.parametrize(
    "message",
    ["Lunch is at 12:30 in the canteen.", "We leave for the outing at 5pm.", "The school bus waits at 8am."],
)
def test_people_who_meet_in_one_place_need_no_time_zone(check, message):
    assert "time" not in dict(found(check(message, "US", "staff")))
    assert "time" in dict(found(check(f"Join the video call. {message}", "US", "staff")))


@pytest.mark.parametrize(
    ("message", "region", "told"),
    [
        ("It came at 14:20.", "Poland", False),
        ("It came at 2:20 pm.", "Poland", True),
        ("It comes at 10:00.", "UAE", False),
        ("It comes at 15:00.", "UAE", True),
    ],
)
def test_the_clock_is_told_where_the_text_keeps_to_the_other_one(check, message, region, told):
    assert any("-hour clock" in note for note in check(message, region).output["notes"]) is told


def test_the_tone_of_somebody_in_danger_is_not_judged(check):
    said = "I don't have time for your excuses. I am going to kill myself tonight."
    assert "tone" not in dict(found(check(said, "India", "a colleague")))


def test_a_colour_in_the_name_of_a_place_stands_for_nothing(check):
    for message in (
        "The Black Forest trail is closed after the storm.",
        "The Black Sea ferry leaves at nine.",
    ):
        assert not [text for _, text in found(check(message, "Germany")) if text == "Black"], message
    assert [
        text
        for _, text in found(check("The invitation is printed on black paper.", "Germany"))
        if text == "black"
    ]
