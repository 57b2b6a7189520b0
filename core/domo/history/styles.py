"""How each method is drawn, everywhere the same."""

STYLES: dict[str, tuple[str, str]] = {
    "FedAvg": ("#555555", "-"),
    "FedAvgSM": ("#009E73", "-"),
    "FedAvgLM": ("#E69F00", "-"),
    "FedAvgLM-Z": ("#8C6D1F", "--"),
    "FedAvgSLM": ("#0072B2", "-"),
    "FedAvgSLM-Z": ("#56B4E9", "--"),
    "DOMO": ("#D55E00", "-"),
    "DOMO-S": ("#CC79A7", "--"),
}
"""Colour and dash of each line: Okabe and Ito's colours, and a dash for the second of a pair."""
OTHERS = (("#000000", ":"), ("#6A3D9A", ":"), ("#1B9E77", ":"), ("#A6761D", ":"))


def styles_of(names: list[str]) -> dict[str, tuple[str, str]]:
    """Colour and dash of each name: those of its method, or else of a row of others."""
    return {n: STYLES.get(n, OTHERS[i % len(OTHERS)]) for i, n in enumerate(names)}
