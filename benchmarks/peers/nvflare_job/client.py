"""A client that adds its constant to what it got and returns it at once."""

# Runs where the peer is installed, not domo.
# mypy: ignore-errors

import nvflare.client as flare
from plan import Plan


def main() -> None:
    """Answer the server until the job ends."""
    flare.init()
    silo = int(flare.get_site_name().rpartition("-")[2]) - 1
    constant = Plan.read().constants[silo]
    while flare.is_running():
        model = flare.receive()
        if model is None:
            break
        changed = {name: array + constant for name, array in model.params.items()}
        del model
        flare.send(flare.FLModel(params=changed, params_type=flare.ParamsType.FULL))


if __name__ == "__main__":
    main()
