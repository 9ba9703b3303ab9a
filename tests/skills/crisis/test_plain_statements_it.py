"""Danger that is said plainly in Italian is found by the rules alone, harmless neighbours not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = [
    "Mi vergogno ma è così: mi riempio di tagli ogni giorno in ufficio, e oggi pomeriggio voglio recidermi le vene.",
    "Nessuno mi crede ma stavolta muoio davvero, ho già ingoiato tutto e comincia a girarmi la testa",
    "la vita mi fa schifo e stasera me la tolgo, salutatemi la 3B tranne chi sapete voi",
    "Mammà, perdoname, nun ce 'a faccio cchiù a campà. Stanotte m'accido.",
    "Se la mattina mi sveglio ancora viva ci riprovo, finché non ci riesco.",
    "sono chiusa nel bagno dell'autogrill, ho gia preso tutto quello che c'era nel flacone, voglio morire lontano da casa",
    "Da quando Elena è morta penso solo a raggiungerla, e questa notte lo faccio.",
    "Basta così, ho chiuso con la psicologa e con la vita. Tempo un'ora e sarò un cadavere, finalmente.",
    "mi sn rotto di vivere fra, nn è una fase. stanotte mi appendo e amen, il cell lo trovi sbloccato",
    "non chiamate il 118, è quello che voglio. ho fatto il taglio profondo e sto solo aspettando di morire",
    "Sto scavalcando il guardrail del viadotto. Dite a mio padre che non è colpa sua se muoio.",
    "Mi dispiace per chi pulirà. Ho la pistola di servizio in bocca ogni sera e questa sera non la tolgo.",
    "Mi sono stufato di esserci, ogni giorno uguale.",
    "Ho mandato giù tutto il flacone e adesso ho paura.",
    "Ho bevuto la candeggina, non chiamate nessuno.",
    "Tra due giorni sarò sotto terra.",
    "Ho le cosce tutte tagliate e porto i pantaloni lunghi in piena estate.",
    "Convivo con pensieri suicidi da quando ho perso il lavoro.",
    "Tanto vale morire.",
    "Vorrei trovare il coraggio di ammazzarmi.",
    "Sono seduto sul balcone coi piedi nel vuoto.",
    "La pistola è sul comodino e continuo a guardarla.",
    "Non c'è niente per cui valga la pena vivere.",
    "Spero che un camion mi investa.",
    "Come si fa a morire in fretta?",
    "Chiedo scusa al macchinista, non trovo altra uscita.",
    "Lo farò stanotte, addio.",
]

NEIGHBOURS = [
    "Il telegiornale parlava dei suicidi in carcere: settanta dall'inizio dell'anno. Bisogna fare qualcosa.",
    "Non voglio più vivere così: domani mi iscrivo in palestra, butto le merendine e chiamo l'elettricista.",
    "A fine mese non ci arrivo mai, e tu?",
    "Spero di comprare una macchina usata a settembre.",
    "Mio zio ha un tumore, spero che guarisca presto.",
    "La farmacia è dall'altra parte della strada.",
    "Ho preso tutto quello che c'era nella lista della spesa, ho sonno.",
    "Ho preso tutto? Passaporto, biglietti, caricatore: ho paura di dimenticare qualcosa.",
    "Stasera mi appendo il quadro nuovo in salotto.",
    "La vita è dura, la cravatta me la tolgo appena esco.",
    "Mia moglie è a Berlino, vorrei raggiungerla a Pasqua.",
    "Tra un'ora sarò morto di stanchezza, ma la torta è venuta.",
    "Ho la pistola ad acqua in mano e i bambini corrono.",
    "Ho scavalcato il parapetto della tribuna per abbracciare il capitano.",
    "Mi faccio dei tagli nuovi dal parrucchiere.",
    "Mi sono rotto di vivere con i coinquilini che non lavano i piatti.",
    "Sono troppi i suicidi in carcere, dice il garante.",
    "Un seminario sui pensieri suicidi negli adolescenti, sabato in biblioteca.",
    "Il corso parla di autolesionismo e di come ascoltare i ragazzi.",
    "Tanto vale morire di caldo qui che in ufficio.",
    "Tanto vale sparire due giorni in montagna.",
    "Gli operai sono sul cornicione del palazzo.",
    "Sono sul ponte della nave, che vista!",
    'Mia sorella ha detto "mi ammazzo se piove al matrimonio".',
    "Ho chiuso con la vita notturna.",
    "Come mai le api rischiano di morire con questo caldo?",
    "La lavatrice ha deciso di morire proprio oggi.",
    "Il commissario trova un biglietto d'addio, ma la calligrafia è del maggiordomo.",
    "Addio estate, addio mare, si torna a scuola.",
    "Ho scritto una lettera al proprietario perché il tetto perde ancora.",
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
