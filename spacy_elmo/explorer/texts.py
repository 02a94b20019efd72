"""What the forms of the page hold at first, by language."""

from typing import Dict, NamedTuple


class Examples(NamedTuple):
    """Texts of a language, around a word with two meanings.

    a (str), b (str): Sentences with the word in two meanings.
    odd (str): `a` with an unexpected word.
    word (str): It.
    """

    a: str
    b: str
    odd: str
    word: str


TABLE = """
en | He sat on the bank of the river. | The bank lent him money. | He sat on the cheese of the river. | bank
ar | في الجبل عين ماء باردة. | دخل الغبار في عين الطفل. | في الجبل جبنة ماء باردة. | عين
ca | Va seure en un banc del parc. | El banc li va deixar diners. | Va seure en un formatge del parc. | banc
cs | Král měl na hlavě zlatou korunu. | Lístek stál jednu korunu. | Král měl na hlavě zlatou polévku. | korunu
da | En varm ret med fisk stod på bordet. | Alle har ret til uddannelse. | En varm sky med fisk stod på bordet. | ret
de | Sie saß auf der Bank im Park. | Die Bank gab ihm einen Kredit. | Sie saß auf dem Käse im Park. | Bank
es | Se sentó en un banco del parque. | El banco le prestó dinero. | Se sentó en un queso del parque. | banco
fi | Vanha kuusi kasvoi metsässä. | Kello oli kuusi illalla. | Vanha juusto kasvoi metsässä. | kuusi
fr | Elle a mangé un avocat à midi. | Son avocat a parlé au juge. | Elle a mangé un nuage à midi. | avocat
hu | A nap felkelt a hegyek mögött. | Egy nap elment a városba. | A sajt felkelt a hegyek mögött. | nap
it | A pranzo hanno mangiato il riso. | Il suo riso era allegro. | A pranzo hanno mangiato il fumo. | riso
ja | 牛には角がある。 | 次の角を右に曲がる。 | 牛には雲がある。 | 角
nb | En varm rett med fisk sto på bordet. | Alle har rett til utdanning. | En varm sky med fisk sto på bordet. | rett
nl | Ze zat op de bank voor het raam. | De bank leende hem geld. | Ze zat op de kaas voor het raam. | bank
pl | Stary zamek stoi na wzgórzu. | Zamek w drzwiach jest zepsuty. | Stary ser stoi na wzgórzu. | zamek
pt | Ela sentou-se no banco do jardim. | O banco emprestou-lhe dinheiro. | Ela sentou-se no queijo do jardim. | banco
ru | Старый замок стоит на холме. | Замок на двери сломался. | Старый сыр стоит на холме. | замок
sv | Valen simmade långsamt i havet. | Valen hölls i september. | Osten simmade långsamt i havet. | valen
tr | Çocuğun yüz ifadesi değişti. | Kitap yüz lira tuttu. | Çocuğun peynir ifadesi değişti. | yüz
uk | Старий замок стоїть на пагорбі. | Замок на дверях зламався. | Старий сир стоїть на пагорбі. | замок
zh | 春天的花开了。 | 他花了很多钱。 | 春天的钱开了。 | 花
"""
EXAMPLES: Dict[str, Examples] = {
    lang: Examples(*fields) for lang, *fields in (line.split(" | ") for line in TABLE.strip().split("\n"))
}


def find_examples(lang: str) -> Examples:
    """lang (str): Language code, such as "pt" or "pt-br".
    RETURNS (Examples): Of the language, or English ones.
    """
    return EXAMPLES.get(lang.lower().replace("_", "-").partition("-")[0], EXAMPLES["en"])
