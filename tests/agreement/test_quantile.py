"""Student's t without scipy, against scipy."""

from __future__ import annotations

import pytest
from scipy.special import stdtr, stdtrit

from calibrate_plugin.agreement.estimate import t_probability, t_quantile

DEGREES = [1, 2, 3, 4, 5, 9, 10, 19, 49, 50, 199, 998, 999, 1000, 1001, 5_000, 1_000_000]


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("p", [0.75, 0.9, 0.95, 0.975, 0.995, 0.9995])
def test_the_quantile_of_students_t_is_scipys(p: float, df: int) -> None:
    assert t_quantile(p, df) == pytest.approx(float(stdtrit(df, p)), rel=1e-10)


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("t", [-300.0, -8.0, -3.342, -1.942, -0.124, -1e-9, 0.0, 0.5, 2.0, 6.0, 300.0])
def test_the_probability_of_students_t_is_scipys(t: float, df: int) -> None:
    assert t_probability(t, df) == pytest.approx(float(stdtr(df, t)), rel=1e-9, abs=1e-14)
