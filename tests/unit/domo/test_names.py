import pytest

from domo.names import alike, all_alike, is_name, is_task, plain


@pytest.mark.parametrize("name", ["a", "Site-1.b_c", "0", "x" * 64])
def test_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "-a", ".", "a b", "a/b", "../a", "x" * 65, "a\n", "ä"])
def test_no_names(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    "task",
    [
        *("digits", "fashion-mnist-cnn", "imagefolder:10", "a:B", "my_tasks.scans:Tumours"),
        *("a.b:C.D", "my-tasks:Tumours", "_own:_Task", "x" * 200),
    ],
)
def test_tasks(task: str) -> None:
    assert is_task(task)


@pytest.mark.parametrize(
    "task",
    [
        *("", ":", "a:", ":B", "a:B:C", "a..b:C", ".a:B", "a.:B", "../p/x:Y", "a/b:C", "a\\b:C"),
        *("-a:B", "a b:C", "a:B\n", "a%2fb:C", "ä:B", "x" * 201),
    ],
)
def test_no_tasks(task: str) -> None:
    assert not is_task(task)


def test_a_plain_text_is_part_of_a_name() -> None:
    assert plain("1-domo-../../p/x.y\n") == "1-domo-..-..-p-x.y-"
    assert plain("Site-1.b_c") == "Site-1.b_c"


@pytest.mark.parametrize(
    ("name", "others", "found"),
    [
        ("sitea", ["site-b", "site-a"], ["site-a"]),
        ("Site_A", ["site-b", "site-a"], ["site-a"]),
        ("site-a.hospital.org", ["site-a", "site-b"], ["site-a"]),
        ("site-a", ["site-a.hospital.org"], ["site-a.hospital.org"]),
        ("stie-a", ["site-a", "clinic"], ["site-a"]),
        ("clinic", ["site-a", "site-b"], []),
        ("site-c", ["site-a", "site-b"], ["site-b", "site-a"]),
        ("---", ["...", "a"], []),
        ("a", [], []),
    ],
)
def test_names_that_may_be_meant_by_another(name: str, others: list[str], found: list[str]) -> None:
    assert sorted(alike(name, others)) == sorted(found)


def test_of_many_names_those_that_are_the_same_are_found_at_once() -> None:
    """The coordinator looks whenever its run waits; letter by letter 4 million pairs take 40 s."""
    wanted = [f"site-{i}" for i in range(2000)]
    found = all_alike([f"SITE_{i}.example.org" for i in range(2000)], wanted)
    assert found == {f"SITE_{i}.example.org": [f"site-{i}"] for i in range(2000)}
    assert not any(all_alike([f"sjte-{i}" for i in range(2000)], wanted).values())
