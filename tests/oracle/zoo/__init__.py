"""The zoo: modules of every kind that users bring, by name."""

from tests.oracle.zoo import attention, habits, images, layers, parameters, programs, sequences, third_party

CASES = {
    case.name: case
    for part in (layers, sequences, attention, parameters, habits, programs, third_party, images)
    for case in part.CASES
}
"""Every case, by its name."""
