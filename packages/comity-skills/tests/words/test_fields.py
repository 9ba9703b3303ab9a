import pytest

from comity_skills.skill import SkillInputError
from comity_skills.words.fields import text_field, texts_field, trimmed


def test_a_wrong_item_is_refused_in_the_words_of_the_validator():
    with pytest.raises(SkillInputError) as refused:
        texts_field("some_action", {"focus": ["x", 1, {}]}, "focus")
    assert refused.value.message == (
        "Input validation failed for action 'some_action': 'focus[1]' must be a string; 'focus[2]' must be a string"
    )


def test_null_in_a_required_field_is_missing_and_of_the_wrong_type():
    with pytest.raises(SkillInputError, match="Required field 'a' is missing or empty; 'a' must be a string"):
        text_field("some_action", {"a": None}, "a")


def test_an_optional_field_has_its_default_and_null_is_no_text():
    assert text_field("some_action", {}, "a", "default") == "default"
    with pytest.raises(SkillInputError, match="'a' must be a string"):
        text_field("some_action", {"a": None}, "a", "default")


def test_trimming_takes_what_javascript_takes():
    assert trimmed("\ufeff\u00a0 x\u2028\n") == "x"
    assert trimmed("\x1cx\x85") == "\x1cx\x85"
