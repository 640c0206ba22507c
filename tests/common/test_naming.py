"""Keys as names of files, and of instances."""

from ullage.common.text import instance_name, slug


def test_slugs_are_file_names() -> None:
    assert slug("vm[nic=e1000,disk.format=raw]") == "vm-nic-e1000-disk.format-raw"
    assert slug("../../x") == "x"


def test_names_of_instances_are_host_names() -> None:
    assert instance_name("vm[nic=e1000]") == "vm-nic-e1000"
    assert instance_name("My_VM.2") == "my-vm-2"
    assert instance_name("a" * 23 + "-b") == "a" * 23
