"""What the status keeps of a model's InferenceRuntime."""

import pytest

from moorage_operator.values.runtimes import (
    RuntimeUse,
    read_runtime_use,
    write_content,
    write_runtime_use,
)


@pytest.mark.parametrize("is_following", [False, True])
def test_the_runtime_of_a_status_is_read_as_it_was_written(is_following: bool) -> None:
    use = RuntimeUse("triton", 3, "v1:0", "{}", is_following)

    assert read_runtime_use({"runtime": write_runtime_use(use)}) == use


def test_a_runtime_without_generation_and_hash_belongs_to_no_spec() -> None:
    found = read_runtime_use({"runtime": {"name": "triton", "content": "{}"}})

    assert found == RuntimeUse("triton", generation=0, spec_hash="", content="{}")


def test_a_content_is_written_in_one_way() -> None:
    content = {"protocol": "None", "paths": {"ready": "/bereit/ö", "live": "/"}}

    assert write_content(content) == (
        '{"paths":{"live":"/","ready":"/bereit/ö"},"protocol":"None"}'
    )
