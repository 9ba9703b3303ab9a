"""Danger said plainly in French is found by the rules alone, harmless neighbours are not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = [
    "Honnêtement je vois pas d'autre issue que le suicide, pardon les voisins.",
    "Je n'ai plus d'autre choix que de mourir.",
    "Il ne me reste plus que la mort.",
    "Donnez-moi une seule raison de ne pas me tuer.",
    "Help, j'ai avalé des trucs pour mourir et je sais plus si je regrette",
    "J'ai pris quelque chose pour en finir et j'ai la tête qui tourne.",
    "j'ai bu de la javel",
    "J'ai avalé deux plaquettes de Xanax avec du whisky.",
    "J'ai honte d'en être là, mais j'ai chargé la carabine et je veux que ça finisse.",
    "j'ai le flingue sur la tempe",
    "la lame contre mon poignet, j'hésite",
    "Les idées noires sont revenues, exactement comme avant.",
    "Avec ces dettes, je vaux plus mort que vivant.",
    "J'en ai assez d'être en vie.",
    "Je suis lasse d'exister.",
    "Ça fait deux ans que je pense à me foutre en l'air.",
    "Je me suis encore coupée hier soir dans la salle de bain.",
    "j'ai recommencé à me couper en cachette",
    "Je ne me sens plus en sécurité avec moi-même.",
    "Je prie pour que mon cœur lâche pendant la nuit.",
    "j'ai le goût de mourir, c'est pas compliqué",
    "jvx mourir",
    "jen peu plu jvai me pendr",
    "Je vais faire une TS ce soir.",
    "Je ne serai plus en vie lundi.",
    "Quand tu liras ça il sera trop tard. T'y es pour rien, promis.",
    "Ma famille dépense tout pour mes soins. Dès demain je ne leur coûterai plus rien, j'ai tout préparé.",
    "Pardon pour la peine que je vais vous faire.",
]

NEIGHBOURS = [
    "Laisse mourir les oignons doucement dans le beurre, sans coloration.",
    "Je déteste ma vie quand il faut faire la déclaration d'impôts.",
    "Oui j'ai eu des idées noires après l'accouchement. C'est passé, avec de l'aide, et bébé fait ses dents.",
    "J'ai donné toutes mes affaires de bébé, ça y est, on s'arrête à trois.",
    "La pharmacie est de l'autre côté de la rue.",
    "On a décidé de faire le grand saut : on se marie !",
    "Mon dernier voyage au Japon remonte à 2019.",
    "Combien de cas de suicide par an en France ?",
    "La scarification rituelle existe dans plusieurs régions.",
    "Une élève de ma classe se scarifie, à qui le signaler ?",
    "Quelqu'un allait sauter du pont, un passant l'a retenu.",
    "Le docteur m'a demandé si je pensais à me suicider, j'ai dit non.",
    "Le débat sur l'aide à mourir reprend à l'Assemblée.",
    "Il me coupe toujours la parole.",
    "Le soleil me brûle la nuque.",
    "Ce qui me frappe dans ce film, c'est la lumière.",
    "Je me suis encore coupé le pouce en bricolant.",
    "J'ai recommencé à me couper les cheveux moi-même.",
    "Je veux en finir avec ce procès.",
    "J'ai pris un avocat pour en finir avec ce divorce.",
    "J'ai pris toute la boîte de chocolats.",
    "J'ai raté le train, c'est fini pour aujourd'hui.",
    "Demain je serai mort de fatigue.",
    "J'ai eu envie de disparaître sous le parquet.",
    "Tuez-moi, j'ai répondu à tous.",
    "Le corps humain compte 206 os, contrôle demain.",
    "La lettre d'adieu du capitaine est exposée au musée.",
    "Ça fait cinq ans que je n'ai plus envie de mourir.",
]


@cache
def rules_alone():
    package = files("comity.skills")
    return crisis_detector({name: package.joinpath(name).read_bytes() for name in DATA})


@pytest.mark.parametrize("text", STATEMENTS)
def test_what_is_stated_is_found(text):
    assert rules_alone().judge(text).detected


@pytest.mark.parametrize("text", NEIGHBOURS)
def test_a_harmless_neighbour_is_not(text):
    assert not rules_alone().judge(text).detected
