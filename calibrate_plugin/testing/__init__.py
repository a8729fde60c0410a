"""The connector contract: a pytest suite that any connector must pass, ours or a third party's.

Write a ``Driver`` that plays your platform (a real server, or a faithful stand-in), and run the suite against it::

    import pytest
    from calibrate_plugin.testing import ConnectorContract

    class TestMyConnector(ConnectorContract):
        @pytest.fixture
        def driver(self, tmp_path):
            with MyDriver(tmp_path) as driver:
                yield driver

Every check goes through a real store, the way a study does: what it holds after a sync must be what the platform holds,
whatever happened on the way. What a platform cannot do at all the driver names in ``cannot``, with the reason; the checks
that need it are then reported as skipped for that reason.
"""

from calibrate_plugin.testing.contract import ConnectorContract
from calibrate_plugin.testing.driver import Driver, Held

__all__ = ["ConnectorContract", "Driver", "Held"]
