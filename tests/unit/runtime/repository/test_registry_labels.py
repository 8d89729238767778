"""GRPS labels find a model by "name-version" or "name", for any names."""

from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.repository.registry import Registry, Version

names = st.sampled_from(("a", "a-1", "a-1-2", "b", "2"))
versions = st.sampled_from(("1", "2", "1-2"))
repositories = st.dictionaries(names, st.sets(versions, min_size=1), max_size=4)


def fill(registry, repository):
    for name, its_versions in repository.items():
        model = registry.model(name)
        for version in its_versions:
            model.versions[version] = Version(name, version)
        registry.changed(model)


def expected(registry, label):
    """The result of checking one version after the other."""
    for status in registry.statuses():
        if label == f"{status.name}-{status.version}":
            return status.name, status.version
    return (label, "") if label in registry.names else None


@given(repositories)
def test_a_label_is_compared_as_a_whole_and_versions_take_precedence(repository):
    registry = Registry()
    fill(registry, repository)
    labels = [f"{n}-{v}" for n in repository for v in ("1", "2", "1-2", "7")]

    for label in (*repository, *labels, "", "-", "unknown"):
        assert registry.labelled(label) == expected(registry, label)


@given(repositories, repositories)
def test_labels_follow_the_models(before, after):
    registry = Registry()
    fill(registry, before)
    assert registry.labelled("unknown") is None

    for name in before:
        registry.remove(name)
    fill(registry, after)

    for name in (*before, *after):
        assert registry.labelled(name) == expected(registry, name)
