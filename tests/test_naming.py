"""Keys as names of files."""

from ullage.naming import slug


def test_slugs_are_file_names() -> None:
    assert slug("vm[nic=e1000,disk.format=raw]") == "vm-nic-e1000-disk.format-raw"
    assert slug("../../x") == "x"
