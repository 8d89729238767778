"""What counts as growth."""

import os
import random

import pytest

from soak.processes import sample
from soak.slopes import Sample, Slope, regression, slopes


def samples(growth_per_second: float, *, noise: float = 0.0, warm_up: float = 0.0) -> list[Sample]:
    """An hour of samples whose memory grows from 100 MiB; descriptors and threads stay."""
    source = random.Random(1)
    taken = []
    for at in range(0, 3600, 10):
        rss = 100 + growth_per_second * at + source.uniform(-noise, noise)
        rss += min(at / 900, 1) * warm_up
        taken.append(Sample(float(at), rss, rss, 40, 8))
    return taken


def slope_of(figure: str, taken: list[Sample]) -> Slope:
    return next(each for each in slopes(taken) if each.figure == figure)


def test_a_straight_line_has_its_slope_and_no_error():
    slope, error = regression([0, 1, 2, 3], [5, 7, 9, 11])

    assert slope == pytest.approx(2)
    assert error == pytest.approx(0)


def test_a_constant_figure_is_flat():
    assert all(slope.is_flat and slope.per_period == 0 for slope in slopes(samples(0)))


def test_noise_alone_is_flat():
    assert slope_of("rss", samples(0, noise=3)).is_flat


def test_growth_during_the_warm_up_alone_is_flat():
    assert slope_of("rss", samples(0, warm_up=50)).is_flat


def test_a_leak_below_the_noise_is_found():
    leak = slope_of("rss", samples(2 / 600, noise=3))

    assert leak.per_period == pytest.approx(2, abs=4 * leak.error)
    assert not leak.is_flat


def test_one_leaked_descriptor_every_ten_minutes_is_found():
    taken = [
        Sample(each.at, each.rss, each.pss, 40 + each.at // 600, each.threads)
        for each in samples(0)
    ]

    assert not slope_of("descriptors", taken).is_flat
    assert slope_of("threads", taken).is_flat


def test_a_run_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="samples after the warm-up: 1"):
        slopes(samples(0)[:2])


def test_a_process_is_sampled_with_its_children():
    taken = sample(os.getpid(), 1.0)

    assert taken.rss >= taken.pss > 1
    assert min(taken.descriptors, taken.threads) >= 1


def test_a_process_that_has_ended_is_named():
    with pytest.raises(ProcessLookupError, match="process 4194305 has ended"):
        sample(4194305, 0.0)
