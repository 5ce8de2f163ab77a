"""Who is asking: bearer tokens, minted here and nowhere else. No authorization: a known user may do all."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from kubenexus.common.sandbox.errors import unauthorized


@dataclass(frozen=True, slots=True)
class User:
    """A name and the groups it belongs to."""

    name: str
    groups: tuple[str, ...]


class Tokens:
    """The users of one sandbox by their tokens."""

    def __init__(self) -> None:
        self._users: dict[str, User] = {}
        self.admin = self.mint("kubernetes-admin", "system:masters")

    def mint(self, name: str, *groups: str) -> str:
        """A new token for this user."""
        token = secrets.token_urlsafe(24)
        self._users[token] = User(name, (*groups, "system:authenticated"))
        return token

    def user(self, authorization: str) -> User:
        """The user of an Authorization header; 401 when there is none."""
        scheme, _, token = authorization.partition(" ")
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user
