"""The kinds of plan: which description calls for which, and what each of them says."""

import functools

import pytest

from comity_skills.deescalation_plan import SKILL
from tests.prepared import handler_of


@functools.cache
def handler():
    return handler_of(SKILL)


def answer(situation, intensity="medium", mode="enhanced"):
    return handler()({"situation": situation, "intensity": intensity}, mode).output


def triggers(situation):
    return {trigger["category"] for trigger in answer(situation)["triggers"] if not trigger["negated"]}


def handed_to(situation):
    return [handoff["to"] for handoff in answer(situation)["handoffs"]]


def kind(situation, **more):
    return handler()({"situation": situation, **more}, "enhanced").output["kind"]


TALKING = ("Acknowledge", "Ask one open question", "Offer two options", "Agree on the next step", "break of")


KINDS = {
    "stalking": (
        "My ex keeps standing outside my flat at night.",
        "A man I don't know waits in front of my building every evening.",
        "My ex-husband turns up at my work again and again.",
        "I blocked him and he keeps texting me from new numbers.",
        "Someone is following me home from the station.",
        "There is an AirTag hidden under my car.",
        "My stalker broke the restraining order.",
        "My sister's ex drives past her house every night.",
        "He keeps watching my window from across the street.",
        "My ex-boyfriend sends me flowers every day although I told him to stop.",
        "My ex shows up at every party I go to.",
        "A colleague keeps turning up at my house uninvited.",
        "A customer waits for me after my shift every night.",
        "My ex won't stop calling me after I told him to leave me alone.",
    ),
    "control": (
        "My father controls all my money and reads my messages. I'm 24.",
        "My husband won't let me see my friends.",
        "My boyfriend checks my phone every evening.",
        "My wife tracks my location and decides who I can meet.",
        "My partner took my passport and my bank card.",
        "My mother reads my messages. I am 31.",
        "My son controls my money. I'm 78.",
        "I am not allowed to leave the house, my husband says so.",
    ),
    "at_home": ("My husband hits me when he drinks", "He locks me in the bedroom.", "He won't let me leave the house"),
    "near_harm_child": (
        "I am so angry at my toddler I nearly shook him.",
        "My baby cries all night. I almost shook her.",
        "I'm afraid I will hurt my son.",
        "I slapped my daughter yesterday and I am ashamed.",
        "I want to throw the baby against the wall.",
    ),
    "near_harm": ("I almost hit my wife last night.", "I wanted to punch him in the face."),
    "weapon": ("A student pulled a knife in class.", "A man at the counter has a knife", "He has a gun in his bag", "A confused patient has a knife."),
    "suicide": (
        "My teenage son and I argued about his grades; he locked himself in the bathroom and shouts that he does not want to live any more.",
        "A colleague says he will kill himself if he is fired, and the talk is in an hour.",
        "My wife is on the balcony after our fight and says she is going to jump.",
    ),
    "violence": (
        "He punched my coworker in the face",
        "My neighbour threatened to hit me.",
        "They were throwing chairs",
        "A man on the street is hitting a woman",
        "A nurse hits residents with dementia in our care home.",
        "My mother has dementia and my brother hits her.",
        "My husband, who cares for my mother with dementia, hits me.",
        "A visitor slapped a patient with dementia.",
        "A drunk patient hit the nurse in the emergency room.",
        "A man with schizophrenia on our ward threatens to kill the nurse.",
    ),
    "care": (
        "A patient with dementia in our care home is hitting the nurse who tries to wash him.",
        "My dad has Alzheimer's and slaps me when I help him dress.",
        "My mother has dementia. Yesterday she bit me when I changed her.",
        "A confused patient on my ward pulls out his drip and kicks us.",
        "My autistic son bites me when we have to leave the house.",
        "I was bitten by a resident with Alzheimer's while feeding her.",
        "She hits and scratches us since her stroke.",
        "An elderly resident spits at the carers when they give her pills.",
        "My grandpa in the nursing home pinches the carers.",
        "A client with a learning disability pulled my hair.",
        "My brother with Down syndrome refuses to get in the car and screams.",
    ),
    "small_child": (
        "My toddler hits me when I say no.",
        "My four-year-old is screaming in the supermarket because I won't buy sweets.",
        "My toddler throws a tantrum at bedtime.",
        "My 3 year old son refuses to put on his shoes and yells.",
        "How do I argue with my two-year-old?",
    ),
    "teenager": (
        "My teenager slammed the door",
        "My teenage daughter punched the wall.",
        "My 15-year-old daughter yells at me about her phone.",
        "Our teenage son refuses to come home on time and we fight.",
    ),
    "review": (
        "We got an unfair one-star review on Google.",
        "A customer left a nasty review of our restaurant.",
    ),
    "code_review": (
        "A reviewer wrote a rude comment on my pull request.",
        "Two maintainers argue in a merge request about naming.",
    ),
    "chat": (
        "The WhatsApp group of the parents is fighting over the trip.",
        "People are yelling at each other in the Slack channel.",
        "She insulted me in the comments under my post.",
        "My ex keeps texting me about the kids' school and we argue.",
    ),
    "mail": ("A colleague sent an angry email to the whole team.", "The landlord wrote me a rude letter."),
    "bystander": (
        "On the bus a drunk stranger is yelling at a woman.",
        "A drunk man is insulting a passenger on the train.",
        "I saw two men harassing a girl at the station.",
    ),
    "stranger": (
        "A drunk stranger on the bus is yelling at me.",
        "An aggressive man on the subway is getting loud.",
    ),
    "between_others": ("Two colleagues no longer speak to each other",),
    "formal_threat": (
        "The client threatens legal action",
        "A customer says she will sue us over the broken boiler.",
        "The tenant threatens to get a lawyer.",
        "He said we would hear from his lawyer and hung up.",
        "A patient threatens to complain to the ombudsman.",
        "The guest threatens to leave a bad review if we do not pay.",
        "A parent says she will go to the press.",
        "The buyer is furious and will take us to court.",
        "Our supplier threatened us with a lawsuit yesterday.",
        "The neighbour threatens to report us to the authorities because of the fence.",
        "A guest is going to file a complaint with trading standards.",
    ),
    "road": (
        "bloke cut me up on the ring road, i beeped, now hes following me and its been 10 mins",
        "I honked at a van and now he's following me off the motorway.",
        "A driver is tailgating me and flashing his lights.",
        "He overtook me, braked and got out of his car.",
    ),
    "pupils": (
        "Two Year 9 boys in my class squared up to each other, chairs went over.",
        "I teach maths. Two of my students were pushing each other in the corridor.",
        "Two girls started fighting in the playground while I was on duty.",
        "Three pupils punched each other during break.",
    ),
    "siblings": (
        "My two sons keep fighting over the tablet.",
        "My kids hit each other all day long.",
        "Our twins are screaming at each other about the bathroom.",
    ),
    "own_anger": (
        "I'm so angry at my landlord. I have to meet him tomorrow and I know I'm going to lose it",
        "I am about to explode if my boss moves the deadline again.",
        "Im furious with my brother and afraid I'll say something I regret.",
    ),
    "moderator": (
        "I moderate a Discord for a game and two members are at each others throats, DMs full of insults",
        "I'm an admin of a Facebook group and people are insulting each other.",
        "I run a forum where two old members keep fighting.",
    ),
    "counter": (
        "Customer at the counter is furious, he's slapping the desk and filming me on his phone.",
        "A patient's son in the waiting room is swearing and has just kicked a bin across the floor",
        "A guest keeps banging on the front desk and shouting about his room.",
    ),
    "neighbour": (
        "The guy upstairs has his bass on until 2am. I banged on the ceiling and he came down yelling at me.",
        "Neighbor's tree hangs over our fence and drops leaves in the pool",
        "My neighbour keeps parking in front of my driveway.",
        "My dog barks and my neighbour complains.",
        "The people next door smoke under our window.",
    ),
    "couple": (
        "my wife and i keep having the same fight about money. she spends, i get cold, then she screams",
        "My wife and I fight about our toddler's bedtime.",
        "My boyfriend never does the dishes and we argue.",
    ),
    "family": (
        "My mother-in-law rearranges my kitchen each time she visits and cries to my husband that I'm ungrateful",
        "My brother and I fight about who looks after our mother with dementia.",
        "My mom reads my messages. I'm 15 and furious.",
        "My sister is not talking to me",
    ),
    "colleague": (
        "A colleague keeps taking credit for my work and said I'm too sensitive. Now we're barely speaking.",
        "My coworker talks over me in every meeting.",
        "My boss won't let me work from home.",
    ),
    "talk": (
        "My colleague is confused and angry about the new process.",
        "We run a charity for people with dementia and the board is fighting.",
        "A customer is shouting at the desk about a late parcel",
        "She yelled at me because of an email.",
        "Our five-year-old company has a dispute with its landlord.",
        "We argue about gun rights at dinner.",
        "A teenager in my class shouts at the other students.",
        "My friend waits outside my house every morning and we disagreed.",
        "My lawyer and I disagree about the contract.",
        "I beat my son at chess and he is furious.",
        "He waits outside my office for our meeting and complains.",
        "My flatmate's boyfriend never pays.",
    ),
    "none": (
        "asdf",
        "The meeting is at noon",
        "42",
        "The build is green again.",
        "Our team has to decide between Slack and Teams, it's all pretty friendly though",
        "My brother and I argued last week but we have made up.",
    ),
    "unread": (
        "Mein Nachbar hat gedroht, mich zu schlagen, wenn ich noch einmal klingle.",
        "Le client menace de me frapper et il ne veut pas partir",
        "Sąsiad powiedział, że nie da mi spokoju i że pożałuję tego wszystkiego jutro",
    ),
}  # fmt: skip


def test_the_plan_is_of_the_kind_that_the_situation_calls_for():
    found = {text: kind(text) for texts in KINDS.values() for text in texts}
    wanted = {text: name for name, texts in KINDS.items() for text in texts}
    assert {text: got for text, got in found.items() if got != wanted[text]} == {}


def test_where_talking_is_dangerous_nobody_is_told_to_talk():
    for name in (
        "stalking",
        "control",
        "at_home",
        "near_harm_child",
        "near_harm",
        "weapon",
        "violence",
        "unread",
        "none",
    ):
        for text in KINDS[name]:
            outcome = handler()({"situation": text}, "enhanced")
            said = " ".join(outcome.output["plan"])
            assert name in {"unread", "none"} or "other side" not in " ".join(outcome.assumptions)
            assert not [phrase for phrase in TALKING if phrase in said], text


def test_a_weapon_leaves_two_things_to_do_leave_and_call():
    plan = answer(KINDS["weapon"][0])["plan"]
    assert "Get away" in plan[0]
    assert "emergency number" in plan[0]
    assert len(plan) <= 3


def test_who_is_followed_or_controlled_is_sent_to_those_who_help_victims():
    for name in ("stalking", "control", "at_home"):
        for text in KINDS[name]:
            assert "victim_support" in handed_to(text), text
            assert "supervisor" not in handed_to(text), text
            assert answer(text)["suggested_intensity"] == "high", text


def test_each_kind_of_plan_has_its_own_steps():
    plans = [tuple(answer(texts[0])["plan"]) for texts in KINDS.values()]
    assert len(set(plans)) == len(KINDS)
    for name in ("review", "code_review", "chat", "mail"):
        assert not any("voice" in step for step in answer(KINDS[name][0])["plan"])


def test_the_plan_itself_says_that_the_description_was_not_understood():
    for text in KINDS["unread"]:
        plan = answer(text)["plan"]
        assert "not in English" in plan[0], text
        assert "emergency number" in plan[1], text


def test_the_recorded_modes_warn_where_talking_is_dangerous_and_keep_their_counts():
    for name in ("stalking", "control", "near_harm_child", "weapon"):
        for mode in ("strict", "compat"):
            output = answer(KINDS[name][0], mode=mode)
            assert (len(output["plan"]), len(output["risk_notes"])) == (7, 1), name
            assert output["risk_notes"][0].startswith("DO NOT TALK IT OUT: "), name


def test_who_is_ill_or_confused_and_strikes_out_gets_care_and_not_the_police():
    for text in KINDS["care"]:
        output = answer(text)
        said = " ".join((*output["plan"], *output["risk_notes"]))
        assert "step back" in output["plan"][0], text
        assert "police" not in said, text
        assert "ALERT" not in said, text
        assert handed_to(text) in (["care_team"], ["carer_support"]), text
        assert not any("emergency" in row["effect"] for row in output["triggers"]), text


def test_an_announced_lawsuit_or_review_is_answered_in_writing_and_nothing_is_promised():
    for text in KINDS["formal_threat"]:
        said = " ".join(answer(text)["plan"])
        for words in (
            "in writing",
            "promise nothing",
            "thank",
            "by which day",
            "Write down",
            "not in dispute",
        ):
            assert words in said, text
        assert "lower and slower" not in said
        assert "emergency" not in handed_to(text), text


@pytest.mark.parametrize(
    "situation",
    [
        "My sister is a lawyer and we disagree about the inheritance",
        "Sue is angry at the tennis court again",
        "I want to sue my landlord because he never fixes the heating",
        "We are in court over custody and my ex yells at me",
        "The press release is late and my colleague is upset",
        "A customer complains that the soup is cold",
        "We got a bad review and my boss is upset",
    ],
)
def test_a_lawyer_a_court_or_a_complaint_alone_is_no_announced_step(situation):
    assert kind(situation) != "formal_threat"


@pytest.mark.parametrize(
    "situation",
    [
        "my wife and i keep having the same fight about money",
        "The neighbours upstairs stomp around at midnight and refuse to stop",
        "My flatmate never cleans and I asked him three times",
        "My friend yelled at me at her birthday",
        "My sister refuses to talk to me",
    ],
)
def test_nobody_at_home_is_told_what_to_do_at_work(situation):
    output = answer(situation)
    said = " ".join((*output["plan"], *output["risk_notes"]))
    assert "supervisor" not in said
    assert "at work" not in said
    assert "write it down for both" not in said
    assert handed_to(situation) == []


def test_at_work_what_was_agreed_is_written_down():
    assert answer("A customer is shouting about a late parcel")["plan"][-1].endswith(
        "write it down for both."
    )


@pytest.mark.parametrize(
    "situation",
    [
        "My 15 year old slams doors. Yesterday I took the phone and she threw a glass at the wall.",
        "My 14-year-old smashed his phone against the wall after I said no",
        "my teenage son threw a chair in his room and swears at me",
    ],
)
def test_a_teenager_who_throws_things_is_no_offender(situation):
    output = answer(situation)
    assert output["kind"] == "teenager"
    assert "police" not in " ".join((*output["plan"], *output["risk_notes"]))
    assert output["risk_notes"][0].startswith("When things fly")
    assert output["handoffs"] == []


@pytest.mark.parametrize(
    "situation",
    [
        "A customer threw a bottle at the wall",
        "My husband smashed a plate last night and I am scared",
        "My stepdad punched the door and the kids cried",
    ],
)
def test_a_grown_up_who_throws_things_is_a_danger(situation):
    assert kind(situation) == "violence"
    assert handed_to(situation)[0] == "emergency"


@pytest.mark.parametrize(
    ("situation", "found"),
    [
        (
            "A dad screams at the referee, who is 14 years old, and said he'd wait for him in the car park.",
            True,
        ),
        ("The man yelled he'd be waiting for the ref outside", True),
        ("he knows where my kids go to school, he said, and smiled", True),
        ("A fired employee shouted that we'd better watch out", True),
        ("A pupil told another one: wait till after school", True),
        ("He shouted: I'll be waiting for you", True),
        ("My mum was angry because I was late and said she'd wait for me at the station", False),
        ("He'll wait for her in the car park after practice", False),
        ("She made me pay for dinner and I am upset", False),
        ("You had better watch the milk, my wife shouted", False),
    ],
)
def test_a_threat_that_is_half_hidden_is_heard(situation, found):
    assert ("threat" in triggers(situation)) is found
    assert (kind(situation) == "violence") is found


def test_a_child_who_is_threatened_is_not_left_alone():
    notes = answer("A dad screams at the boy and said he'd wait for him in the car park.")["risk_notes"]
    assert "do not leave them alone" in notes[0]
    assert "young person" not in " ".join(answer("He punched my coworker in the face")["risk_notes"])


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        ("last weekend my boyfriend grabbed me by the throat but he said sorry", True),
        ("My husband choked me last night", True),
        ("He put his hands around my neck and hit me", True),
        ("My husband hits me when he drinks", False),
        ("Two members are at each other's throats about politics", False),
    ],
)
def test_pressure_on_the_neck_needs_a_doctor(situation, told):
    assert ("see a doctor today" in " ".join(answer(situation)["risk_notes"])) is told


def test_who_is_followed_on_the_road_does_not_stop_and_calls():
    for text in KINDS["road"]:
        output = answer(text)
        assert output["plan"][0].startswith("Do not stop"), text
        assert handed_to(text) == ["emergency"], text
        assert output["suggested_intensity"] == "high", text
    for text in ("My dog follows me on the road", "I was driving and my wife and I argued about the route"):
        assert kind(text) != "road", text


def test_words_without_their_apostrophe_are_read():
    assert triggers("hes always late and doesnt apologise") == {"frustration"}
    assert triggers("my sister borrowed 2000 and wont pay it back") == {"frustration"}
    assert kind("My husband wont let me see my friends.") == "control"
    assert triggers("He didnt threaten anyone") == set()


def test_the_one_between_others_is_not_addressed_as_a_party():
    for name in ("moderator", "pupils", "siblings"):
        for text in KINDS[name]:
            output = answer(text)
            assert handed_to(text) in ([], ["supervisor"]), text
            assert "police" not in " ".join(output["plan"]), text
    for text in (
        "A student hit me in class",
        "Someone insulted me in a Discord server",
        "The kids fight with me about homework",
        "Two students disagree about the topic of the presentation at school",
    ):
        assert kind(text) not in {"moderator", "pupils", "siblings"}, text


@pytest.mark.parametrize(
    "situation",
    [
        "Resident with dementia (88) hits out at carers when we try to wash her. Two staff have bruises.",
        "My grandmother (91, vascular dementia) bites the carers at bath time",
        "Client with learning disabilities (24) punched me when his bus was late",
        "Residents with Alzheimer's lash out at staff during meals, one carer has a black eye",
    ],
)
def test_an_age_in_brackets_does_not_hide_who_needs_care(situation):
    assert kind(situation) == "care"
    assert handed_to(situation) == ["care_team"]


def test_where_no_conflict_was_heard_the_plan_is_short():
    output = answer("My neighbour and his trees")
    assert len(output["plan"]) == 3
    assert output["risk_notes"] == []


@pytest.mark.parametrize(
    "text",
    [
        "two boys in my son's class took his bag. he says he's going to punch one of them tomorrow. he's not normally violent",
        "my son says he is going to punch a boy at school tomorrow",
        "My daughter is bullied. She says she'll slap the girl back on Monday.",
        "One of my pupils told me he is going to beat up another boy after school.",
        "A boy in my class wants to hit a classmate who took his phone.",
        "My 12-year-old is planning to fight a kid from his class on Friday.",
    ],
)
def test_that_a_child_who_means_to_hit_back_needs_a_grown_up_and_the_school(text):
    output = handler()({"situation": text}, "enhanced").output
    assert (output["kind"], output["intensity"], output["handoffs"]) == ("hits_back", "high", [])
    assert any("Tell the school" in step for step in output["plan"])


@pytest.mark.parametrize(
    "text",
    [
        "My son says he is going to punch me.",
        "A boy told my son he's going to beat him up tomorrow.",
        "They say they are going to beat up my son.",
        "My husband says he is going to hit the boy next door. My son is scared.",
        "My daughter says her father is going to hit her.",
        "My son says he will stab a boy at school.",
        "My son has a knife and says he is going to hit a boy at school.",
        "My son wants to beat the other boys at chess.",
    ],
)
def test_that_other_threats_around_a_child_are_not_taken_for_hitting_back(text):
    assert kind(text) != "hits_back"


@pytest.mark.parametrize(
    "text",
    [
        "some rando in our town facebook group is posting that my bakery has rats. not true. people are piling on",
        "Someone on Nextdoor is spreading lies about my dog business.",
        "A former friend posted false accusations about me on Instagram.",
        "There are rumours about our restaurant all over social media.",
        "An ex-employee claims on LinkedIn that we don't pay wages. That's a lie.",
        "I'm being dogpiled on Twitter over a joke.",
    ],
)
def test_that_false_claims_in_public_are_corrected_once_and_kept_as_proof(text):
    assert kind(text) == "rumour"
    said = " ".join(answer(text)["plan"])
    assert "screenshots" in said
    assert "Answer once" in said


@pytest.mark.parametrize(
    "text",
    [
        "Our family WhatsApp group is fighting about who pays for the trip.",
        "I moderate a Facebook group and people are piling on a member.",
        "A guest left a one-star review on Google.",
        "My friend posted about her holidays on Instagram and did not mention me, I'm upset.",
    ],
)
def test_that_a_quarrel_or_a_review_is_no_rumour(text):
    assert kind(text) != "rumour"


def test_that_who_has_stopped_already_is_told_first_what_to_do_at_the_car():
    text = "He tailgated me on the motorway. I pulled in at a services and he is walking up to my car."
    assert answer(text)["plan"][0].startswith("If somebody comes to your car")
    assert answer("A van is tailgating me on the motorway.")["plan"][0].startswith("Do not stop")


def test_that_people_who_get_on_have_no_conflict():
    assert kind("Nothing dramatic, we all get on great, I have to choose a restaurant for my team.") == "none"
    assert kind("Normally we all get on great, but yesterday she shouted at me.") != "none"


def test_nobody_who_may_take_their_life_is_left_alone():
    for text in KINDS["suicide"]:
        output = answer(text)
        assert "left alone" in output["plan"][0], text
        assert "emergency number" in output["plan"][1], text
        assert {"emergency", "crisis_support"} & set(handed_to(text)), text
        assert not any("wait where you are safe" in note for note in output["risk_notes"]), text
        assert output["suggested_intensity"] == "high", text
