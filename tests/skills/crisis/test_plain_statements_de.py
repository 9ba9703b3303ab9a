"""Danger said plainly in a German sentence or two is found by the rules alone, harmless neighbours not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = [
    "Seit ich entschieden hab, nicht mehr da zu sein, schlafe ich endlich gut. Samstag noch, dann muss ich nichts mehr aushalten.",
    "Hab heut mein Mofa dem Luca geschenkt und die Playsi dem Nico. Bin ab morgen nicht mehr auf der Welt, da brauch ich nix.",
    "Ich hab mir grad Zigaretten auf dem Bein ausgedrückt, die fünfte. Anders spür ich nix, ich hör heut nicht mehr auf.",
    "Heut ist der letzte Tag meines Lebens, und ich hab niemanden, dem ich das sagen kann, außer einem Chatfenster.",
    "Sehr geehrte Damen und Herren, wenn Sie dies lesen, habe ich mich bereits getötet. Ich tue es nach dem Absenden.",
    "Ich möchte Ihnen als Patient mitteilen, dass ich mich heute suizidieren werde. Die Termine können Sie vergeben.",
    "Ich hab zwei Flaschen Schnaps und einen Entschluss: Ich sterbe heute, und es ist mir so was von recht.",
    "ich hab mir grade was angetan und ich will nicht das mich wer findet. wollt nur tschüss sagen",
    "Ich habe mir den Ort für meinen Tod ausgesucht, es ist der Platz, wo wir uns verlobt haben. Ich bin gerade dort.",
    "Ich sitz am offenen Dachfenster, die Füße schon draußen. Unten ist niemand, ich hab extra gewartet, bis die Straße leer ist.",
    "Es gibt in mir nichts mehr, was leben will.",
    "ich hab mir gerade in den arm geschnitten und es hört nicht auf zu bluten",
    "Ich habe die Tabletten jetzt alle runtergeschluckt, es ist passiert.",
    "ich hab jetzt 30 ibus und ne flasche wodka intus, wollte nur tschüss sagen",
    "Ich werde mir heute eine Kugel in den Kopf jagen.",
    "Morgen um diese Zeit bin ich tot.",
    "Hoffentlich wach ich morgen nicht mehr auf.",
    "Ich sehe keinen anderen Ausweg als den Tod.",
    "Ich hab schon alles vorbereitet für meinen Suizid.",
    "Wie viele Tabletten brauche ich, damit ich sicher sterbe?",
    "Ich halte mir gerade ein Messer an die Pulsader.",
    "Steh auf den Gleisen. Der Zug kommt in vier Minuten.",
    "Sehr geehrte Frau Doktor, ich habe mich zum Suizid entschlossen.",
    "I wü nimma lebn.",
    "i mag nümme, i bring mi hüt um",
    "Wenn Mama heimkommt, bin ich schon tot.",
    "Mein Suizidversuch gestern hat nicht geklappt, heute probier ich es wieder.",
    "Wäre ich doch bei dem Unfall gestorben.",
]

NEIGHBOURS = [
    "Wenn ich nochmal in dieser Warteschleife lande, spring ich aus dem Fenster. Gut, dass wir im Erdgeschoss sitzen.",
    "Leute, ich lösch heut meinen Account, bin ab jetzt nur noch auf Signal. Macht's gut hier und bis drüben!",
    "Morgen bin ich weg, Zahnarzt und dann Baumarkt.",
    "Ich habe heute die Bahn genommen statt das Auto.",
    "Hast du deine Medikamente genommen?",
    "Die Feuerwehr hat einen Mann vom Dach geholt, der springen wollte.",
    "In unserer Notaufnahme sehen wir jede Woche jemanden, der zu viele Tabletten genommen hat.",
    "Sie schrieb mir, dass sie nicht mehr leben will, ich habe die Polizei gerufen.",
    "In der Schulung ging es um Leute, die sich umbringen wollen.",
    "Die Trauerrednerin fragt, ob ich was über den Tod sagen will.",
    "Die Pflanze will einfach nicht mehr leben, ich gieße sie jeden Tag.",
    "Mein Handy ist tot und ich will nur noch nach Hause.",
    "Ich könnte mich umbringen, dass ich die Karten nicht gekauft habe.",
    "Bist du lebensmüde? Bei dem Wetter auf den Grat?",
    "Ich will ein Leben nach dem Tod nicht ausschließen.",
    "ey ich will von dieser party einfach verschwinden",
    "Ich könnte im Erdboden verschwinden, wenn ich nur dran denke.",
    "Feiern, als wäre es der letzte Tag meines Lebens!",
    "Ich hab mir beim Kochen in den Arm geschnitten, war nur ein Kratzer.",
    "Ich hab Ibuprofen genommen, der Kopf ist wieder frei.",
    "Welche Tabletten sind für Hunde tödlich? Unserer hat welche gefressen.",
    "Was habe ich mir da nur angetan mit dieser Renovierung.",
    "Mein Stiefvater hat mir als Kind etwas angetan.",
    "Wäre ich doch bloß da gewesen, als Mama gestorben ist.",
    "Der Reisende lag auf den Gleisen, die Polizei hat die Strecke gesperrt.",
    "Mein Suizidversuch vor acht Jahren war der Wendepunkt, heute geht es mir gut.",
    "Ich habe mich entschieden, die Stelle anzunehmen.",
    "Wenn du heimkommst, bin ich schon im Bett.",
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
