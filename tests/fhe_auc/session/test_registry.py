"""Protocols are found by name, also other people's; what is no protocol is refused."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fhe_auc.api import federated_auc, options_for
from fhe_auc.base import plug_ins
from fhe_auc.base.errors import UnknownProtocolError
from fhe_auc.session import registry
from fhe_auc.session.protocol import Protocol
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from tests.support.nothing import add_distribution

_MODULE = """
from fhe_auc.base.options import Option, Options
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.protocol import Protocol

class Coin(Protocol):
    name = "coin"
    summary = "guesses"
    trust = "nobody"

    def prepare(self, request): ...
    def aggregator(self, manifest, material): ...
    def new_party(self, manifest, material, data): ...

class Unfinished(Protocol):
    name = "unfinished"

    def __init__(self, sides): ...

class Weighted(Coin):
    options = Options({"sides": Option(int, "how many sides"), "bias": Option(float, "of the coin", required=True)})

class Untyped(Coin):
    options = {"sides": "how many"}

class Bribes(Attacks):
    descriptions = {"two heads": "the coin has no tails"}

    def aggregator(self, attack, manifest, material, *, rows): ...

def function():
    return Coin()

instance = Coin()
"""


def test_a_plug_in_says_whether_it_encrypts_what_it_is_and_whom_it_trusts() -> None:
    for plugin in map(registry.load, registry.names()):
        assert all(line.strip() and "\n" not in line for line in (plugin.name, plugin.summary, plugin.trust))
    found = {name: registry.load(name).encrypts for name in registry.names()}
    noisy = "boundaries-local-dp dpauc-gaussian dpauc-laplace dpauc-rr histogram-local-dp"
    noisy += " ustat-hierarchy ustat-krr ustat-pairs"
    assert {name for name, encrypts in found.items() if not encrypts} == set(noisy.split())


@pytest.fixture(autouse=True)
def looked_up_anew() -> Iterator[None]:
    """A process looks for what is installed once."""
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that installs a distribution with these entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "coin_protocol.py").write_text(_MODULE)
    (tmp_path / "coin_broken.py").write_text("import a_module_that_is_not_there\n")
    return partial(add_distribution, tmp_path)


def test_an_unknown_name_lists_what_there_is_or_that_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("malicous", "", "semi_honest", "Semi-Honest", "semi-honest ", "../semi-honest"):
        with pytest.raises(UnknownProtocolError, match=f"unknown protocol '{name}'.*semi-honest"):
            registry.load(name)
    registry._installed.cache_clear()
    monkeypatch.setattr(plug_ins, "installed", lambda group: [])
    assert registry.names() == ()
    with pytest.raises(UnknownProtocolError, match=r"unknown protocol 'semi-honest'; there are none"):
        registry.load("semi-honest")


NO_CLASSES = ("coin_protocol:function", "coin_protocol:instance", "coin_protocol:__name__")
NO_PROTOCOLS = ("collections:OrderedDict", "builtins:dict", "fhe_auc.session.party:Party")
BROKEN = ("coin_protocol:Unfinished", "coin_protocol:Missing", "coin_broken:Coin", "no_such_module:Coin")


@pytest.mark.parametrize("value", [*NO_CLASSES, *NO_PROTOCOLS, *BROKEN])
def test_what_is_no_protocol_or_cannot_be_loaded_is_named_and_not_constructed(third_party: Any, value: str) -> None:
    third_party("coin", odd=value)
    told = "" if value in BROKEN else rf" \({value}\) is not a fhe_auc\.session\.protocol\.P"
    with pytest.raises(UnknownProtocolError, match=f"plug-in 'odd'{told}"):
        registry.load("odd")
    assert type(registry.load("semi-honest")) is SemiHonest  # the others still work


def test_a_plugin_cannot_take_the_name_of_an_installed_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whichever distribution comes first on the path: two of one name must not be resolved in silence.
    genuine = plug_ins.PlugIn("semi-honest", "fhe_auc_protocols.blinded_auc.semi_honest:SemiHonest")
    intruder = plug_ins.PlugIn("semi-honest", "intruder:Protocol")
    for points in ([genuine, intruder], [intruder, genuine]):
        registry._installed.cache_clear()
        monkeypatch.setattr(plug_ins, "installed", lambda group, points=points: points)
        with pytest.raises(UnknownProtocolError, match="semi-honest"):
            registry.load("semi-honest")


def test_a_third_party_protocol_is_found_beside_ours_and_one_without_typed_options_refused(third_party: Any) -> None:
    third_party("coin", coin="coin_protocol:Coin", aa="coin_protocol:Untyped")
    assert {"aa", "coin", "semi-honest"} <= set(registry.names())
    assert list(registry.names()) == sorted(registry.names())
    with pytest.raises(UnknownProtocolError, match=r"'aa': its options are no fhe_auc\.base\.opt"):
        registry.load("aa")
    plugin = registry.load("coin")
    assert isinstance(plugin, Protocol)
    assert plugin.name == "coin"
    with pytest.raises(UnknownProtocolError, match="coin"):
        registry.load("toss")


def test_options_of_a_third_partys_protocol_are_keywords(third_party: Any) -> None:
    third_party("coin", coin="coin_protocol:Weighted")
    assert options_for(federated_auc, "coin", {"sides": 3, "bias": None}) == {"sides": 3}
    with pytest.raises(TypeError, match=r"^federated_auc has no argument 'side'; did you mean sides or site\?"):
        federated_auc([], protocol="coin", side=3)
    with pytest.raises(TypeError, match=r"has no argument 'bias' with protocol 'verified'; it is an option of coin$"):
        federated_auc([], bias=0.5)


def test_attacks_on_a_third_partys_protocol_are_found_unless_two_packages_bring_some(third_party: Any) -> None:
    with pytest.raises(UnknownProtocolError, match="no attacks on protocol 'coin' are installed"):
        registry.attacks("coin")
    registry._installed.cache_clear()
    third_party("coin", group=registry.ATTACKS_GROUP, coin="coin_protocol:Bribes", toss="coin_protocol:Coin")
    assert list(registry.attacks("coin").descriptions) == ["two heads"]
    with pytest.raises(UnknownProtocolError, match=r"is not a fhe_auc\.session\.attacks\.Attacks"):
        registry.attacks("toss")
    registry._installed.cache_clear()
    third_party("another", registry.ATTACKS_GROUP, coin="coin_protocol:Coin")
    with pytest.raises(UnknownProtocolError, match="more than one package brings attacks on protocol 'coin'"):
        registry.attacks("coin")
