"""The fixtures and options of the plugin, in runs of pytest on generated tests."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

MODULE = "coterie.testing.plugin"
COMMON = ("-p", "no:randomly", "-p", "no:cacheprovider", "-Werror")

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Return a function that runs pytest in this process on the text of a module."""

    def run_text(text: str, *arguments: str, ini: str = "") -> pytest.RunResult:
        pytester.makeini(INI + ini)
        pytester.makepyfile(textwrap.dedent(text))
        return pytester.runpytest_inprocess(*COMMON, *arguments)

    return run_text


@pytest.mark.slow
def test_the_import_of_the_plugin_does_not_import_the_server() -> None:
    code = (
        f"import sys, {MODULE}, coterie.testing\n"
        "print(*sorted(name for name in sys.modules if name.startswith('coterie')))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = ["coterie", "coterie.lazy_names", "coterie.testing", MODULE]
    assert done.stdout.split() == names


@pytest.mark.slow
def test_a_run_without_the_fixtures_does_not_import_the_server(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            assert "coterie.testing.plugin" in sys.modules
            assert not [n for n in sys.modules if n.startswith("coterie.broker")]
            assert not [n for n in sys.modules if n.startswith("coterie.client")]
        """
    )
    pytester.makeini(INI)
    done = pytester.runpytest_subprocess(*COMMON)
    done.assert_outcomes(passed=1)


def test_the_tests_of_a_session_share_a_server_with_their_own_names(run: Run) -> None:
    result = run(
        """
        import pytest

        servers, topics, groups = set(), set(), set()

        @pytest.mark.parametrize("value", ["a b", "ü/", "c" * 300])
        def test_it(kafka, kafka_topic, kafka_group, value):
            servers.add(kafka.bootstrap_servers)
            topics.add(kafka_topic)
            groups.add(kafka_group.group_id)
            assert kafka.produce(kafka_topic, [value])[0].offset == 0
            assert kafka_group.state == "Dead"

        def test_names():
            assert (len(servers), len(topics), len(groups)) == (1, 3, 3)
            assert all(name.startswith("test_it-") for name in topics | groups)
        """
    )
    result.assert_outcomes(passed=4)


def test_a_test_leaves_no_fault_request_or_stopped_server_behind(run: Run) -> None:
    result = run(
        """
        import pytest

        def test_1_faults(kafka):
            kafka.clock.freeze()
            kafka.faults.reply("Metadata", "LEADER_NOT_AVAILABLE")
            kafka.pause()

        def test_2_killed(kafka):
            assert not kafka.clock.is_frozen
            assert kafka.faults.active == ()
            kafka.topic("kept")
            kafka.kill()

        def test_3_closed(kafka):
            assert kafka.records("kept") == []
            kafka.close()

        def test_4_failed(kafka):
            kafka.faults.disk_full()
            assert kafka.topic("new") is None

        def test_5_runs(kafka):
            assert kafka.faults.active == ()
            assert len(kafka.requests) == 0
            kafka.topic()
        """
    )
    result.assert_outcomes(passed=4, failed=1)


def test_a_test_that_moved_the_clock_leaves_an_empty_server_of_today(run: Run) -> None:
    result = run(
        """
        import time

        def test_1(kafka):
            kafka.topic("orders")
            kafka.clock.advance(days=8)

        def test_2(kafka):
            assert abs(kafka.clock.now_ms / 1000 - time.time()) < 3600
            kafka.topic("orders")
            kafka.clock.freeze()

        def test_3(kafka):
            assert not kafka.clock.is_frozen
            assert kafka.records("orders") == []
        """
    )
    result.assert_outcomes(passed=3)


def test_a_cluster_has_the_parameters_of_its_marker(run: Run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.kafka(nodes=3, settings={"num.partitions": 5})
        def test_marked(kafka_cluster):
            assert len(kafka_cluster.bootstrap_servers.split(",")) == 3

        def test_unmarked(kafka_cluster):
            assert len(kafka_cluster.bootstrap_servers.split(",")) == 2

        def test_session(kafka):
            assert len(kafka.bootstrap_servers.split(",")) == 2
            assert kafka.server.assembly.broker.settings.num_partitions == 7

        @pytest.mark.kafka(act_as="3.9")
        def test_older(kafka_cluster, kafka_group):
            assert kafka_cluster.groups["billing"].state == "Dead"

        @pytest.mark.kafka(nodes=3)
        def test_without_effect(kafka):
            pass
        """,
        "--strict-markers",
        ini="kafka_nodes = 2\nkafka_settings =\n  num.partitions = 7\n",
    )
    result.assert_outcomes(passed=4, errors=1)
    result.stdout.fnmatch_lines(["*marker kafka is for the fixture kafka_cluster*"])


def test_invalid_options_are_usage_errors(run: Run) -> None:
    result = run("def test_it(): pass", ini="kafka_show_requests = always\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result = run("def test_it(): pass", ini="kafka_settings = num.partitions\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'num.partitions' is not NAME=VALUE"])


FAILING = """
    from confluent_kafka.admin import AdminClient

    def test_it(kafka, kafka_cluster):
        for server in (kafka, kafka_cluster):
            config = {"bootstrap.servers": server.bootstrap_servers}
            AdminClient(config).list_topics(timeout=30)
        raise ValueError
"""


@pytest.mark.slow
def test_a_failed_test_shows_its_requests_when_an_option_asks_for_them(
    run: Run,
) -> None:
    result = run(FAILING)
    result.stdout.no_fnmatch_line("*requests of kafka*")
    for arguments, ini in (
        (("--kafka-show-requests=failed",), ""),
        ((), "kafka_show_requests = failed\n"),
    ):
        result = run(FAILING, *arguments, ini=ini)
        result.assert_outcomes(failed=1)
        for name in ("kafka", "kafka_cluster"):
            result.stdout.fnmatch_lines([f"*requests of {name} -*", "*Metadata v*"])
    result = run(
        FAILING, "--kafka-show-requests=never", ini="kafka_show_requests=failed"
    )
    result.stdout.no_fnmatch_line("*requests of kafka*")


def test_coroutines_use_the_server_of_the_session_in_their_own_loops(
    run: Run,
) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.asyncio
        @pytest.mark.parametrize("at", [1, 2])
        async def test_it(async_kafka, kafka, kafka_topic, at):
            assert async_kafka.sync is kafka
            await async_kafka.produce(kafka_topic, ["a"])
            assert len(await async_kafka.records(kafka_topic)) == 1
        """
    )
    result.assert_outcomes(passed=2)


def test_coroutines_of_anyio_use_the_server_of_the_session(run: Run) -> None:
    pytest.importorskip("anyio")
    result = run(
        """
        import pytest

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_it(async_kafka, kafka_topic):
            await async_kafka.produce(kafka_topic, ["a"])
            assert len(await async_kafka.records(kafka_topic)) == 1
        """
    )
    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_each_worker_of_xdist_has_its_own_server_and_nothing_stays_behind(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeini(INI)
    pytester.makeconftest(
        """
        import threading

        def pytest_sessionfinish(session):
            session.config.pluginmanager.register(End())

        class End:
            def pytest_unconfigure(self):
                names = [thread.name for thread in threading.enumerate()]
                assert not [name for name in names if "coterie" in name]
        """
    )
    pytester.makepyfile(
        """
        import os
        import pathlib
        import pytest

        @pytest.mark.parametrize("at", range(8))
        def test_it(kafka, kafka_topic, at):
            worker = os.environ["PYTEST_XDIST_WORKER"]
            path = pathlib.Path(__file__).parent / f"{worker}.txt"
            with path.open("a") as file:
                file.write(kafka.bootstrap_servers + "\\n")
            if at == 3:
                raise ValueError
            kafka.produce(kafka_topic, ["a"])
        """
    )
    done = pytester.runpytest_subprocess("-n2", "-Werror", "-p", "randomly")
    done.assert_outcomes(passed=7, failed=1)
    files = sorted(pytester.path.glob("gw*.txt"))
    assert len(files) == 2
    addresses = [set(file.read_text().split()) for file in files]
    assert [len(each) for each in addresses] == [1, 1]
    assert not addresses[0] & addresses[1]
