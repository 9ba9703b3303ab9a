"""Danger said in a sentence or two, as it stands in longer English texts, is found by the rules alone, harmless neighbours not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = [
    "They let me go on Friday and the rent is due, and last night I sat on the bed and counted every tablet in the house.",
    "The pills are lined up on the bathroom shelf. I keep going back to count them again.",
    "The gun is in the nightstand and every night I take it out and hold it.",
    "My dad's rifle is next to me right now and I can't stop looking at it.",
    "Please tell my mum I'm sorry and that I loved her. I can't do this any more.",
    "I've written to each of my children. The letters are in the top drawer, they'll find them afterwards.",
    "I finished my suicide note today, four drafts, and now there is nothing left to do.",
    "my kids deserve a better dad and theyd be happier if i was dead",
    "I am worth more dead than alive to this family, at least the loan would be cleared.",
    "Tomorrow I won't be here any more, so don't bother about the invoice.",
    "This will be my last birthday, I've made sure of that.",
    "I'm on the bridge right now and the water looks so calm.",
    "I'm standing on the platform and I keep stepping over the yellow line.",
    "im at the train tracks again and this time i dont think im walking home",
    "I'm writing this from the ledge outside my window. I don't know who else to tell.",
    "When the train comes in I have to hold on to the railing because I want to throw myself in front of it.",
    "Death is the only option left for me now, I have knocked on every door.",
    "I can't find one reason not to do it any more.",
    "Wouldn't it be lovely not to wake up tomorrow. I think that every single evening.",
    "I just want to sleep forever. Not the tired kind, the forever kind.",
    "I was so angry when I opened my eyes this morning because it meant I was still here.",
    "I'm ready now. I'm not afraid of dying any more and I know how I'll do it.",
    "I have made my peace with it. I'm going to end my life and no one will talk me out of it.",
    "I've been cutting again, every night since she left, and the cuts are getting deeper.",
    "I scratch my skin till it bleeds, it's the only thing that helps.",
    "I just took all of them. I feel sleepy and a bit scared.",
    "I've swallowed the whole packet and now I'm just waiting.",
    "The suicidal thoughts are back and they're louder than last time.",
    "I don't want to be alive any more. Anyway, the radiator still leaks.",
    "I wish I was dead, and I mean it this time.",
    "kinda wanna unalive myself ngl and im not even being dramatic",
    "im goin to kil myself i cant take it anymor",
    "I am tired of this life, my brother, I want to rest with my ancestors now.",
    "I intend to end my life before the month is out. I should be grateful if you did not attempt to dissuade me.",
    "I can't promise I'll still be alive on Monday.",
    "I don't trust myself to be alone tonight. I'm afraid I'm going to do something to myself.",
    "If she leaves me I'll kill myself. I told her and I meant it.",
    "Twenty years in the army and now I sit in the garage with my service pistol in my lap.",
    "I drive trucks, 14 hours a day, and lately I think about just not braking.",
    "I failed the finals again and I can't tell my parents, I'd rather jump off the roof.",
    "They'll find me in the morning. I've left the door unlocked so they won't have to break it.",
    "I've cancelled the lease and all my subscriptions, there's no point, I'll be dead by March.",
    "When I close my eyes I see myself hanging in the stairwell and it feels like a relief.",
    "If it weren't for the cat needing her dinner I would have done it on Sunday.",
    "I have made all my arrangements and shall not trouble the surgery again. I go of my own free will.",
    "I did it again, the inside of my arm this time, and I had to wear a jumper in thirty degrees.",
    "My life is finished sir, I will hang myself if the result is not changed.",
    "I have lost everything, my shop, my name. Only death remains for me.",
    "I hate waking up. I hate that I woke up today too. I wish it would just end for me.",
    "I've got no tears left. I just want to not be.",
    "the voices say the kids will be safe if im dead and im starting to believe them",
    "I know suicide is a sin but I can't bear another week of this, I'm going to do it.",
    "You won't have to pay for my college any more, dad. I'm sorry I wasn't the son you wanted. Goodbye.",
    "I think my wife could finally have a proper life if I wasn't around to be nursed.",
    "I'm done. I've emptied the bottle into my hand. Somebody tell me why not.",
    "The doctor asked if I had plans to hurt myself and I lied and said no.",
    "I've been thinking that if I crashed the van nobody would know it was on purpose.",
    "I begged God to let me die in the night and He didn't listen again.",
]

NEIGHBOURS = [
    "They let me go on Friday and the rent is due, so last night I sat on the bed and counted every pound we have left.",
    "The pharmacist counts the pills twice and puts the label on the bottle.",
    "I've been saving up for weeks now, my wife thinks I'm buying a boat.",
    "The nail gun is in the garage and every spring I take it out and clean it.",
    "My dad's rifle hangs over the fireplace, he hasn't hunted since 1990.",
    "Please tell your mum I'm sorry I missed the party and that I loved the cake.",
    "I've recorded a video for my son for when I'm away on the rig, he's only six.",
    "If I die first my wife gets the pension and the house. The solicitor says that's the normal way to do it.",
    "After my exams I'm going to sleep for a week, I just don't want to see another book.",
    "Tomorrow I won't be here, I'm at the other branch, so please send the invoice to Joan.",
    "I'm standing on the platform and the 8:15 is late again, so start without me.",
    "We dry the chillies on the terrace of our building, eighth floor, full sun the whole day.",
    "I cannot see tomorrow's forecast in the app since the update.",
    "I see no way out of this contract except paying the fee.",
    "The tomato plant lost the will to live and I was scared of what the frost would do this weekend.",
    "I can't find one reason not to take the job in Leeds any more.",
    "My grandmother prayed each night that God would take her in her sleep, and at 97 He did.",
    "Wouldn't it be lovely not to wake up at five tomorrow. I think that every single evening.",
    "I could sleep forever in this bed, best mattress we've ever bought.",
    "every morning i wake up and im disappointed that its still winter",
    "I'm 82 and I've put the papers in order, so the children won't have to search when I go one day. I've booked Madeira for June.",
    "Everything is prepared. I've paid the bills, cleaned the flat and given the keys to my neighbour, and now I can go on holiday.",
    "I've made up my mind, I'm checking out of the hotel a day early.",
    "I have the blade for the bandsaw in my bag at work. The old one was blunt.",
    "I just took all of them to the charity shop. I feel lighter.",
    "I tried to kill the process on Tuesday and it came back. I'm going to try again.",
    "Ten years ago I overdosed and survived, and I'm thankful every day that I survived.",
    "I've been googling painless ways to remove a tick when I should be doing the accounts.",
    "I don't want to be on call any more. Anyway, the radiator still leaks.",
    "The new manager is killing me with his spreadsheets, but lunch is good.",
    "The helpline is for people who feel like ending their lives. Kindly share the number in your society group.",
    "Since the harvest failed we drink only tea without sugar, but the bank has given us time.",
    "I'll be seeing Grandpa soon, I've got the whole train journey planned out.",
    "I can't promise I'll still be awake on Monday after that flight.",
    "If nobody answers I'm going to order the pizza myself. I've been sitting here with the menu for an hour.",
    "I'm scared that mum will kill me if I go home with this haircut.",
    "I'd rather be dead than seen in those sandals, said my teenage daughter, and she's right.",
    "I stopped eating and drinking before the blood test, as the letter said.",
    "My neighbour took her own life in March. We are all still in shock and the street is collecting for the boys.",
    "The actor plays a soldier who hears voices telling him to jump, and he's brilliant in it.",
    "Life isn't worth living without cheese, my French colleague says, and takes another slice.",
    "I keep my prescription in a sock in my suitcase when I fly, the bottles rattle too much.",
    "Mum, please don't come into the garage, your present isn't wrapped yet. I love you.",
    "The thought of chocolate cake is the only thing that gets me through the shift.",
    "They think I'm getting better at chess because I stopped crying when I lose.",
    "Please forgive me for what I'm about to do to this recipe. The children are at my sister's.",
    "I shall be retired by then, so my granddaughter can visit every week.",
    "I ordered the paint online and it came today. I'm not scared of the hallway any more.",
    "The suicide prevention training said to ask directly whether somebody has a plan.",
    "I'm done. I've emptied the bottle into the pan. Somebody tell me when it's boiling.",
    "I want to go to sleep tonight and I do not want there to be a fire drill in the morning.",
    "I counted all the tablets in stock and signed the register.",
    "I have a plan to repaint the hall, and I know how to do it.",
    "Which bridge do I take to the airport?",
    "I put it in my mouth and it was delicious.",
    "I hope I don't wake up the baby.",
    "The budget cuts are getting deeper every year.",
    "Took the whole course of tablets as prescribed and the infection is gone.",
]


@cache
def detector():
    package = files("comity.skills")
    return crisis_detector({name: package.joinpath(name).read_bytes() for name in DATA})


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_of_danger_is_found(text):
    assert detector().detect(text).detected


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_a_harmless_neighbour_is_not_found(text):
    assert not detector().detect(text).detected
