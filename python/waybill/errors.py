"""What goes wrong, with a stable code and coordinates."""

from __future__ import annotations


class Error(Exception):
    """A contract that an argument breaks.

    `code` is stable (`waybill explain CODE` tells of it), `where` names the coordinates of the
    fault, `expected` and `found` say what was wanted and what was there.
    """

    def __init__(
        self,
        message: str,
        code: str,
        where: dict[str, str] | None = None,
        expected: str = "",
        found: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.where = where or {}
        self.expected = expected
        self.found = found
