from ullage.common.text import nearest


def test_offers_the_nearest_name() -> None:
    assert nearest("sysbench-cpus", ["iperf3", "sysbench-cpu"]) == "did you mean sysbench-cpu?"


def test_case_and_underscores_do_not_matter() -> None:
    assert nearest("Sysbench_CPU", ["iperf3", "sysbench-cpu"]) == "did you mean sysbench-cpu?"
    assert nearest("fsync-freq", ["fsync_freq", "files"]) == "did you mean fsync_freq?"


def test_lists_the_choices_when_nothing_is_near() -> None:
    assert nearest("zzz", ["oci", "native"]) == "choose one of native, oci"


def test_does_not_list_the_choices_twice() -> None:
    assert nearest("zzz", ["oci", "native"], listed=True) == "choose one of these"
    assert nearest("ocy", ["oci", "native"], listed=True) == "did you mean oci?"
    assert nearest("x", [], listed=True) == "nothing may stand here"


def test_no_choices() -> None:
    assert nearest("x", []) == "nothing may stand here"
