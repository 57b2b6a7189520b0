from ipaddress import ip_address

from domo_server.people.tries import (
    MAX_ADDRESSES,
    MAX_WRONG,
    MAX_WRONG_OF_ALL,
    PER_S,
    Tries,
    source_of,
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_ten_in_a_minute_and_then_a_wait_that_ends() -> None:
    clock = Clock()
    tries = Tries(clock)
    for _ in range(MAX_WRONG):
        assert tries.wait_s("10.0.0.1") == 0
        tries.wrong("10.0.0.1")
        clock.now += 1
    assert tries.wait_s("10.0.0.1") == PER_S - MAX_WRONG
    assert tries.wait_s("10.0.0.2") == 0
    clock.now += PER_S - MAX_WRONG
    assert tries.wait_s("10.0.0.1") == 0  # the first one is a minute old: one more
    tries.wrong("10.0.0.1")
    assert tries.wait_s("10.0.0.1") == 1


def test_one_subscriber_is_one_address() -> None:
    tries = Tries(Clock())
    for i in range(MAX_WRONG):
        tries.wrong(f"2001:db8:0:1::{i + 1:x}")
    assert tries.wait_s("2001:db8:0:1:ffff::1") > 0
    assert tries.wait_s("2001:db8:0:2::1") == 0
    assert source_of("::ffff:10.0.0.1") == source_of("10.0.0.1") == "10.0.0.1"
    assert source_of("fe80::1%eth0") == "fe80::/64"
    assert len(source_of("x" * 9999)) == 64


def test_many_addresses_cost_bounded_memory_and_keep_nobody_out() -> None:
    clock = Clock()
    tries = Tries(clock)
    first = int(ip_address("10.0.0.0"))
    for i in range(MAX_ADDRESSES + 500):
        tries.wrong(str(ip_address(first + i)))
    assert len(tries._wrong) == MAX_ADDRESSES
    assert len(tries._all) == MAX_WRONG_OF_ALL
    assert tries.wait_s("192.0.2.1") == 0, "an address that was never wrong may try"
    assert tries.wait_s(str(ip_address(first + MAX_ADDRESSES))) > 0, "one that was wrong waits"
    clock.now += PER_S
    assert tries.wait_s(str(ip_address(first + MAX_ADDRESSES))) == 0


def test_those_that_are_being_looked_at_count_as_wrong_until_they_are_done() -> None:
    tries = Tries(Clock())
    assert all(tries.begin("10.0.0.1") for _ in range(MAX_WRONG))
    assert not tries.begin("10.0.0.1")
    assert tries.begin("10.0.0.2")
    assert tries.wait_s("10.0.0.1") == 0
    tries.end("10.0.0.1")
    assert tries.begin("10.0.0.1"), "it was right"
    tries.wrong("10.0.0.1")
    tries.end("10.0.0.1")
    assert not tries.begin("10.0.0.1"), "it was wrong"
    for _ in range(MAX_WRONG - 1):
        tries.end("10.0.0.1")
    assert "10.0.0.1" not in tries._under_way
