"""Student's t without scipy, against scipy."""

from __future__ import annotations

import pytest
from scipy.special import stdtrit

from calibrate_plugin.agreement.estimate import t_quantile


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 9, 10, 19, 49, 50, 199, 998, 999, 1000, 1001, 5_000, 1_000_000])
@pytest.mark.parametrize("p", [0.75, 0.9, 0.95, 0.975, 0.995, 0.9995])
def test_the_quantile_of_students_t_is_scipys(p: float, df: int) -> None:
    assert t_quantile(p, df) == pytest.approx(float(stdtrit(df, p)), rel=1e-10)
