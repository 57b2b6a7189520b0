"""A person, and the roles that one may have."""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["viewer", "auditor", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may: viewers see numbers, auditors also take models, admins
change things."""
THE_ADMIN = "the admin"
"""The name of whoever can read the file admin-token: the operator of the coordinator's machine.
No token can be given this name, as names of tokens have no blank."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who asks.

    Attributes:
        name: As others read it: of a token, an e-mail address, or `THE_ADMIN`.
        role: What this person may do.
    """

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether this person may do what needs a role."""
        return ROLES.index(self.role) >= ROLES.index(role)


ANYBODY = Person("anybody", "viewer")
"""Who shows no credential where reading is open."""
