"""Checks that records have the field by which they are compared: else nothing is found, as if all were well."""

from prepcli.errors import UsageError


def note_on_missing(
    field: str, num_missing: int, num_records: int, whose: str, remedy: str, *, refuses: bool = True
) -> list[str]:
    """A note for the report on records without the field by which they are compared; empty if all have it.

    Args:
        field: the name of the field.
        num_missing: the number of records without a value of the field.
        num_records: the number of all records.
        whose: the name of their input, for messages.
        remedy: what to do, for a message.
        refuses: whether more than half without the field is an error; else it is a note, too.

    Raises:
        UsageError: more than half of the records lack the field, and `refuses` is true.
    """
    if not num_missing:
        return []
    sentence = f"{whose}: {num_missing:,} of {num_records:,} records have no {field}"
    if refuses and 2 * num_missing > num_records:
        raise UsageError(f"{sentence}, so they cannot be compared by it; {remedy}")
    return [f"{sentence}, and are not compared by it"]
