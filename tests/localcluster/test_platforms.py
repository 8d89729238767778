"""Platforms of images, and the handlers with which the kernel runs their programs."""

import pytest

from moorage_localcluster.platforms import architecture, is_usable, of_machine

HANDLER = """enabled
interpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P
flags: PF
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""


@pytest.mark.parametrize(
    ("machine", "name"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64")]
)
def test_an_architecture_has_the_name_that_images_use(machine, name):
    assert architecture(of_machine(machine)) == name


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (HANDLER, True),
        (HANDLER.replace("PF", "F"), True),
        (HANDLER.replace("PF", "POC"), False),
        (HANDLER.replace("flags: PF\n", ""), False),
        (HANDLER.replace("enabled", "disabled"), False),
        ("no handler", False),
        ("", False),
    ],
)
def test_a_handler_must_be_enabled_and_keep_its_interpreter_open(handler, expected):
    assert is_usable(handler) is expected
