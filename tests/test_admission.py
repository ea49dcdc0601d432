"""What a call is given: judged once, by a plan, and never by what another call was given."""

from __future__ import annotations

import gc
import pickle
import weakref
from datetime import timedelta

import pytest

from statemachine.admission import Admission
from statemachine.errors import InvalidArgument
from statemachine.kinds import Duration, Integer, Json, Kind, Plain, Prose, Text, Token
from statemachine.vocabulary import Param


def admission(kind: Kind, *, optional: bool = False) -> Admission:
    """Return the admission of one argument."""
    return Admission((Param("given", kind, optional=optional),))


def plain(judge: Admission, value: object) -> Plain:
    """Return the plain form of the argument."""
    return judge({"given": value})["given"]


def test_a_value_that_was_changed_is_judged_again() -> None:
    """The same list, longer than it was, is stored as it is now."""
    judge, value = admission(Json(100)), ["first"]
    assert plain(judge, value) == '["first"]'

    value.append("second")
    assert plain(judge, value) == '["first","second"]'

    value.append("x" * 100)
    with pytest.raises(InvalidArgument, match="at most 100 bytes"):
        judge({"given": value})


@pytest.mark.parametrize(("good", "bad"), [(1, True), (0, False), (1, 1.0)])
def test_what_equals_the_last_value_is_not_it(good: int, bad: object) -> None:
    """True equals 1, and is no integer; neither before an integer was given nor after."""
    judge = admission(Integer())
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="an integer"):
            judge({"given": bad})
        assert plain(judge, good) == good


def test_the_last_value_has_its_own_plain_form() -> None:
    """Two values in turn have two plain forms; one that was refused leaves nothing behind."""
    judge = admission(Duration())
    short, long, none = timedelta(seconds=1), timedelta(days=1), timedelta()
    seen = []
    for value in (short, short, long, short, long, long):
        with pytest.raises(InvalidArgument, match="1 ms to 100 years"):
            judge({"given": none})
        seen.append(plain(judge, value))

    assert seen == [1_000, 1_000, 86_400_000, 1_000, 86_400_000, 86_400_000]


def test_a_secret_is_not_kept() -> None:
    """A token is judged and forgotten: nothing that is kept has it, nor its hash."""
    judge, token = admission(Token()), b"\x07" * 32
    hashed = plain(judge, token)
    assert isinstance(hashed, str)

    kept = pickle.dumps(judge)
    assert token not in kept
    assert hashed.encode() not in kept
    assert b"remembered" in pickle.dumps(_after(admission(Text()), "remembered"))


@pytest.mark.parametrize("kind", [Text(2_000_000, 2_000_000), Prose(), Json(2_000_000)])
def test_what_is_large_is_not_kept(kind: Kind) -> None:
    """No call holds on to the megabytes that an earlier one was given."""
    assert len(pickle.dumps(_after(admission(kind), "x" * 1_000_000))) < 10_000


def test_a_kind_of_text_with_more_to_it_is_not_kept() -> None:
    """A subclass of text may hold anything, and is let go of."""

    class Loaded(str):
        __slots__ = ("__weakref__",)

    loaded = Loaded("a")
    gone = weakref.ref(loaded)
    judge = _after(admission(Text()), loaded)
    del loaded
    gc.collect()

    assert gone() is None
    assert plain(judge, "a") == "a"


def _after(judge: Admission, value: object) -> Admission:
    judge({"given": value})
    return judge


@pytest.mark.parametrize("before", [None, "a"])
def test_none_is_left_out_or_judged(before: str | None) -> None:
    """None is what is left out where that may be; elsewhere it is a value, and a bad one."""
    wanted, optional = admission(Text()), admission(Text(), optional=True)
    if before is not None:
        assert plain(wanted, before) == plain(optional, before) == "a"

    assert optional({}) == optional({"given": None}) == {"given": None}
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="given"):
            wanted({})
        with pytest.raises(InvalidArgument, match="text of 1 to 512 characters"):
            wanted({"given": None})


def test_what_nobody_asked_for_is_named() -> None:
    """An argument that is no parameter is refused with those that are."""
    with pytest.raises(InvalidArgument, match="other") as caught:
        admission(Text())({"given": "a", "other": "b"})

    assert "one of the parameters given" in str(caught.value)


def test_what_is_known_counts() -> None:
    """What a call knows by itself is neither judged nor replaced by what it is given."""
    judge = admission(Text())

    assert judge({"given": "a"}, {"known": 1}) == {"known": 1, "given": "a"}
    assert judge({}, {"given": "known"}) == {"given": "known"}
    assert judge({"given": "a"}, {"given": "known"}) == {"given": "known"}


def test_admissions_are_equal_by_their_parameters() -> None:
    """What was given to one of them makes no difference."""
    assert _after(admission(Text()), "a") == admission(Text()) != admission(Duration())
    assert hash(_after(admission(Text()), "a")) == hash(admission(Text()))
