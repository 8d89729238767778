"""Resource versions: which of two is later, and whether a collection was restored."""

import pytest

from moorage_operator.kube.versions import is_newer, is_rewound


@pytest.mark.parametrize(
    ("version", "than", "newer", "rewound"),
    [
        ("8", "7", True, False),
        ("7", "7", False, False),
        ("7", "8", False, True),
        ("10", "9", True, False),
        ("9", "10", False, True),
        ("a", "a", False, False),
        ("a", "b", True, False),
        ("b", "a", True, False),
        ("8", "", True, False),
        ("", "8", True, False),
        ("8", "b", True, False),
        ("b", "8", True, False),
        ("", "", False, False),
    ],
)
def test_numbers_are_compared_and_other_versions_only_differ(version, than, newer, rewound):
    assert is_newer(version, than) is newer
    assert is_rewound(version, than) is rewound
