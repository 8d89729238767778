import pytest

from moorage_runtime.values.budget import ByteBudget
from moorage_runtime.values.errors import ServerBusy


def test_requests_fit_until_the_limit_and_again_when_others_have_ended():
    budget = ByteBudget(100)
    budget.take(60)

    with pytest.raises(ServerBusy, match="hold 60 bytes, and this one has 41: the limit is 100"):
        budget.take(41)
    budget.take(40)
    budget.give_back(60)
    budget.take(60)


def test_a_request_that_is_alone_may_be_larger_than_the_limit():
    budget = ByteBudget(100)

    budget.take(1000)

    with pytest.raises(ServerBusy):
        budget.take(1)


def test_without_a_limit_everything_fits():
    budget = ByteBudget()
    budget.take(2**60)
    budget.take(2**60)


def test_a_request_that_grows_keeps_what_it_held_when_it_is_refused():
    budget = ByteBudget(100)
    budget.take(60)
    budget.take(30)

    with pytest.raises(ServerBusy):
        budget.resize(30, 41)
    budget.resize(30, 40)
    budget.resize(40, 0)
    budget.take(40)


def test_a_request_that_shrinks_is_never_refused():
    budget = ByteBudget(100)
    budget.take(1000)
    with pytest.raises(ServerBusy):
        budget.resize(0, 50)

    budget.resize(1000, 900)


def test_a_request_that_keeps_its_size_is_never_refused():
    budget = ByteBudget(100)
    budget.take(1000)

    budget.take(0)
    budget.resize(0, 0)
