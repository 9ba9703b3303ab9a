from comity_skills.words.standing import standing
from comity_skills.words.tokens import tokens

PRESENT = [
    "There is an ANIMATION on the page",
    "You cannot skip the ANIMATION",
    "There is no way to pause the ANIMATION",
    "No pause button for the ANIMATION",
    "ANIMATION cannot be disabled",
    "The ANIMATION is not skippable",
    "Not only sound but ANIMATION",
    "No sound is used, ANIMATION runs",
    "No sound. ANIMATION runs",
    "ANIMATION with no way to be paused",
    "Never pause the ANIMATION",
    "no more than one ANIMATION",
    "no doubt ANIMATION helps",
    "no fewer ANIMATION effects",
    "An ANIMATION and a disabled button",
    "Sound is disabled but ANIMATION is on",
    "Users can't pause the ANIMATION",
    "There is no option to turn off ANIMATION",
    "an ANIMATION and a carousel that can be paused",
    "It is hard to stop the ANIMATION",
    "No popups and ANIMATION runs all day",
    "Not an optional ANIMATION",
    "ANIMATION free of charge",
    "The page is not free of ANIMATION",
    "It is never without ANIMATION",
    "ANIMATION does not respect the reduced motion setting",
    "ANIMATION without a keyboard alternative",
    "ANIMATION without a pause button",
    "ANIMATION with nobody able to hide it",
    "Users cannot choose when ANIMATION runs",
    "ANIMATION, sound and text are large",
    "ANIMATION plays and popups are disabled",
    "Users cannot skip sound or ANIMATION",
    "We removed the timer and added sound, popups and ANIMATION",
    "We removed the sound, ANIMATION runs now",
    "There is no sound, and ANIMATION runs",
    "no sound, no popups and a great ANIMATION runs all day",
    "nothing but ANIMATION",
    "The page has no ads and a subtle ANIMATION.",
    "no ads, one timer and an ANIMATION",
    "We removed the timer and the page shows ANIMATION.",
    "We removed the timer but kept the sound and the ANIMATION.",
    "We removed the button to pause the sound and the ANIMATION",
    "Without a pause button for the sound, the video and the ANIMATION",
]
ABSENT = [
    "no ANIMATION",
    "There are no distracting background ANIMATION effects",
    "without a ANIMATION",
    "without any ANIMATION",
    "The page does not use ANIMATION",
    "It doesn't have an ANIMATION",
    "It doesn\u2019t have an ANIMATION",
    "We avoid ANIMATION",
    "free of ANIMATION",
    "text instead of ANIMATION",
    "ANIMATION is disabled",
    "ANIMATION has been removed",
    "no sound, popups or ANIMATION",
    "no ANIMATION, sound or popups",
    "no sound or ANIMATION",
    "neither sound nor ANIMATION",
    "an ANIMATION-free page",
    "a non-ANIMATION page",
    "We removed the ANIMATION",
    "We removed the sound and the ANIMATION.",
    "free of popups and ANIMATION",
    "We got rid of the ANIMATION",
    "an un-ANIMATION page",
    "Pages do not open ANIMATION",
    "The ANIMATION was replaced with a picture",
    "ANIMATION is muted by default",
    "ANIMATION, sound and popups are disabled",
    "ANIMATION or timers have been removed",
    "We removed the sound, the ANIMATION and the timer because users complained.",
    "We removed the ANIMATION, the sound and the timer because users complained.",
    "We removed the confetti, the timer, and the ANIMATION last year.",
    "We removed the timer and the ANIMATION because users complained.",
    "without sound, popups and ANIMATION",
    "a page free of sound, ANIMATION and popups",
    "It does not use sound, ANIMATION and popups.",
    "We got rid of the sound, the ANIMATION, the timer and the popups.",
    "We replaced the timer and the ANIMATION with a picture.",
    "The page has no timers, no sound and no ANIMATION",
    "nothing uses ANIMATION",
]
CONTROLLED = [
    "ANIMATION that can be paused",
    "an optional ANIMATION",
    "The ANIMATION can be turned off",
    "ANIMATION is skippable",
    "Users can pause the ANIMATION",
    "There is a way to turn off all ANIMATION",
    "ANIMATION, but people can stop it",
    "ANIMATION respects prefers-reduced-motion",
    "ANIMATION follows the settings of the system",
    "ANIMATION is grouped once a day and optional",
    "ANIMATION with a keyboard alternative",
    "ANIMATION is opt-in",
    "ANIMATION with a pause button",
    "ANIMATION with clear pause, stop and hide controls",
    "Users may opt out of ANIMATION",
    "People can choose which ANIMATION they get",
    "ANIMATION runs once and can be turned off",
    "People can switch off ANIMATION",
]


def verdict(text):
    words = tokens(text)
    (at,) = (index for index, token in enumerate(words) if token.word == "animation")
    return standing(words, at, at)


def test_a_thing_that_is_there_is_present():
    assert [text for text in PRESENT if verdict(text) != "present"] == []


def test_a_thing_that_is_said_to_be_missing_is_absent():
    assert [text for text in ABSENT if verdict(text) != "absent"] == []


def test_a_thing_that_people_can_switch_off_is_controlled():
    assert [text for text in CONTROLLED if verdict(text) != "controlled"] == []
