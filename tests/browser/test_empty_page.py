"""The page before any silo has joined: what it tells people to type is true where they type it."""

from pathlib import Path

from tests.support.chrome import chrome, require
from tests.support.played.made_up import Federation
from tests.support.played.serving import serving

require()


def test_the_command_for_silos_names_no_address_that_they_cannot_reach(tmp_path: Path) -> None:
    federation = Federation()
    federation.silo_list = []
    with serving(federation) as (url, served), chrome(url, tmp_path) as page:
        page.driver.get(url)

        def says(address: str, where: str, command: str) -> None:
            federation.grpc_address = address
            served.change()
            page.until(
                lambda: page.text("#join-command") == f"domo-client --server {command}", address
            )
            assert where in page.text("#no-silos")

        says("127.0.0.1:50051", "Silos of this machine can join, and no others", "127.0.0.1:50051")
        assert "[server.tls]" in page.text("#join-note")
        says("[::1]:50051", "no others", "[::1]:50051")
        says("10.0.0.5:50051", "On each machine that holds data", "10.0.0.5:50051")
        says("0.0.0.0:50051", "On each machine that holds data", "HOST:50051")
        assert page.faults() == []
