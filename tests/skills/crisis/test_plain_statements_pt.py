"""Danger that is stated plainly in Portuguese, of Brazil or Portugal, is found by the rules alone, harmless neighbours are not."""

from functools import cache
from importlib.resources import files

import pytest

from comity.skills.crisis import DATA, crisis_detector

STATEMENTS = (
    "Penso em me atirar à linha quando o comboio chega.",
    "Ando a cortar-me outra vez e ninguém sabe.",
    "Corto-me nas pernas desde que ele saiu de casa.",
    "Queimo-me com o cigarro para deixar de pensar.",
    "A espingarda do meu pai está aqui no meu colo.",
    "Rezo todas as noites para Deus me levar enquanto durmo.",
    "Peço a Deus que me leve logo, não tenho mais nada aqui.",
    "Suicídio é a única opção que me resta.",
    "Só a morte vai resolver isso.",
    "Eu devia ter morrido naquele acidente, não ele.",
    "Chorei de ter acordado viva de novo.",
    "Tenho raiva de não ter morrido naquela noite.",
    "De hoje eu não passo, fiquem com Deus.",
    "Dessa vez ninguém vai me salvar, escolhi bem o lugar.",
    "As vozes mandam eu pular da janela.",
    "Tomei as duas cartelas e deitei.",
    "Engoli o frasco inteiro, estou com sono.",
    "Vou beber veneno de rato, não tem mais jeito.",
    "Há um ano que planejo a minha morte.",
    "Os pensamentos suicidas voltaram e estão mais fortes.",
    "Valho mais morta do que viva pra essa família.",
    "Fico na sala querendo morrer enquanto todo mundo ri.",
    "Só me resta morrer.",
    "minha mãe nao sabe mas prefiro morrer a voltar pra casa dele",
    "Tô na beira da ponte e não sei se volto.",
    "Era só virar o volante e tudo acabava.",
    "Quando acharem meu corpo não deixem minha filha ver.",
    "Dou cabo de mim ainda hoje.",
    "Vou-me embora deste mundo.",
    "Preferia não ter sobrevivido.",
    "Queria desaparecer, ninguém ia notar.",
    "Tenho comprimidos que cheguem e vou tomá-los todos hoje.",
    "Deixei de me cortar há um mês mas agora só penso em morrer.",
    "Já não aguento viver assim, vou acabar com isto.",
)

NEIGHBOURS = (
    "Ela disse que queria morrer e eu fiquei sem saber o que responder.",
    "Se alguém perto de você fala em se matar, leve a sério e ligue 188.",
    "Preciso da certidão de óbito do meu pai para dar entrada na pensão por morte.",
    "Corto-me sempre a fazer a barba com essa lâmina nova.",
    "Me queimo fácil no sol, qual protetor vocês usam?",
    "Voltei a treinar pernas ontem e hoje não consigo descer a escada.",
    "Estou na ponte Rio-Niterói parada no trânsito há uma hora.",
    "A pistola de cola quente está aqui do meu lado, vou terminar o convite.",
    "Rezo para Nossa Senhora me levar em segurança até Aparecida.",
    "O 38 da Nike ficou apertado, vou trocar.",
    "Não passo de hoje sem terminar essa série.",
    "É só virar o volante pra esquerda e dar ré devagar.",
    "Desta vez ninguém chega atrasado, combinado?",
    "Engoli a caixa toda de bombom sozinha e não me arrependo.",
    "Vim aqui para me atirar na piscina e está fechada.",
    "Querendo morrer de inveja da sua viagem!",
    "Fico com vontade de desaparecer uns dias e dormir até tarde.",
    "Prefiro morrer a comer jiló.",
    "Apagar minha conta do aplicativo: como faço?",
    "Tenho cicatrizes nos braços do tempo em que me cortava, hoje uso manga curta sem medo.",
    "Hoje é o meu último dia de férias, que tristeza.",
    "Estou no terraço do prédio fazendo churrasco, sobe aí.",
    "Cansei de acordar cedo, quero trocar de turno.",
    "Já não vejo razão para continuar a pagar este ginásio.",
    "Salto em altura: hoje quase caí em cima da barra, mas passei 1,70.",
    "Fiz o curso de prevenção e aprendi a perguntar: você está pensando em se matar?",
    "Respondi no questionário que não tenho pensamentos suicidas.",
    "Deixei de me cortar há seis anos e hoje fiz uma tatuagem de andorinhas por cima das cicatrizes. Estou orgulhosa.",
    "Perguntaram na triagem se eu penso em me ferir. Não, nunca; vim só por causa da enxaqueca.",
    "Se eu ouvir 'alinhamento estratégico' mais uma vez hoje, eu me jogo pela janela. Moro no térreo, calma.",
    "Cuidado com o degrau do metrô, quase caí na linha hoje por causa do salto. Um moço me segurou.",
    "Dívida no cartão que dá vontade de sumir pra uma praia e virar vendedor de mate.",
    "Quero morrer de tanto comer pastel de nata.",
    "A pena de morte seria a única solução? Debate amanhã na faculdade.",
)


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
