"""What can go wrong with an expression: when it is compiled, and when it is evaluated."""

from __future__ import annotations


class CelError(ValueError):
    """The expression cannot be compiled. The message is one sentence; `report` is what an API server would answer."""

    def __init__(self, why: str, text: str = "", at: int | None = None) -> None:
        self.why, self.text, self.at = why, text, at
        super().__init__(why if at is None else f"{why}, at line {self._line}, column {self._column + 1}")

    @property
    def report(self) -> str:
        """The error as the API server prints it, with the line of the expression and a mark below the place."""
        if self.at is None:
            return self.why
        shown = self.text.split("\n")[self._line - 1]
        where = f"ERROR: <input>:{self._line}:{self._column + 1}: {self.why}"
        return f"compilation failed: {where}\n | {shown}\n | {'.' * self._column}^"

    @property
    def _line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    @property
    def _column(self) -> int:
        return (self.at or 0) - (self.text.rfind("\n", 0, self.at) + 1)


class CelRuntimeError(Exception):
    """The expression has no value for this device. `&&`, `||` and `all` may still decide without it."""


class BudgetError(CelRuntimeError):
    """The evaluation was ended because it costs too much; nothing absorbs that."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")
