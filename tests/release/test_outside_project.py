"""A project outside the source tree tests its service with the installed wheel.

The project has ten files, and a service that uses three clients. Its tests run with
pytest-xdist and pytest-randomly, as such projects do.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.release import test_wheel
from tests.release.test_wheel import run

pytestmark = pytest.mark.slow

sdist, wheel, installed = test_wheel.sdist, test_wheel.wheel, test_wheel.installed

FILES = {
    "pyproject.toml": """
        [tool.pytest.ini_options]
        testpaths = ["tests"]
        pythonpath = ["src"]
        addopts = ["--strict-markers"]
        filterwarnings = [
            "error",
            "ignore:(read|open)_text is deprecated:DeprecationWarning",
        ]
        asyncio_mode = "auto"
        asyncio_default_fixture_loop_scope = "function"
        kafka_settings = ["num.partitions=2"]
        kafka_show_requests = "failed"
        """,
    "src/shop/__init__.py": "",
    "src/shop/orders.py": '''
        """Orders, by confluent-kafka."""

        from confluent_kafka import Producer


        def place(servers, topic, orders):
            producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
            for order in orders:
                producer.produce(topic, order, key=order)
            assert producer.flush(30) == 0
        ''',
    "src/shop/stock.py": '''
        """Stock, by aiokafka."""

        from aiokafka import AIOKafkaConsumer


        async def reserve(servers, topic, group, count):
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            try:
                reserved = [(await consumer.getone()).value for _ in range(count)]
                await consumer.commit()
            finally:
                await consumer.stop()
            return reserved
        ''',
    "src/shop/mail.py": '''
        """Mails, by kafka-python."""

        from kafka import KafkaConsumer


        def send(servers, topic, group, count):
            consumer = KafkaConsumer(
                topic,
                bootstrap_servers=servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            try:
                sent = [next(consumer).value for _ in range(count)]
                consumer.commit()
            finally:
                consumer.close()
            return sent
        ''',
    "tests/conftest.py": '''
        import pytest


        @pytest.fixture
        def orders(kafka, kafka_topic):
            """Fill a topic with two orders, and return its name."""
            kafka.produce(kafka_topic, ["tea", "cake"])
            return kafka_topic
        ''',
    "tests/test_orders.py": """
        from shop import orders


        def test_orders_are_stored_by_key(kafka, kafka_topic):
            orders.place(kafka.bootstrap_servers, kafka_topic, ["tea", "cake"])
            stored = kafka.records(kafka_topic)
            assert [(each.key, each.value) for each in stored] == [
                (b"tea", b"tea"), (b"cake", b"cake")
            ]


        def test_a_broker_that_refuses_once_gets_the_order_again(kafka, kafka_topic):
            error = "NOT_LEADER_OR_FOLLOWER"
            with kafka.faults.reply("Produce", error, times=1) as fault:
                orders.place(kafka.bootstrap_servers, kafka_topic, ["tea"])
            assert len(fault.hits) == 1
            assert len(kafka.records(kafka_topic)) == 1
        """,
    "tests/test_stock.py": """
        from shop import stock


        async def test_reserved_orders_are_committed(async_kafka, orders, kafka_group):
            servers, group = async_kafka.bootstrap_servers, kafka_group.group_id
            assert await stock.reserve(servers, orders, group, 2) == [b"tea", b"cake"]
            await async_kafka.groups[group].wait_for(state="Empty", lag=0)
        """,
    "tests/test_mail.py": """
        from shop import mail


        def test_mails_follow_the_orders(kafka, orders, kafka_group):
            servers, group = kafka.bootstrap_servers, kafka_group.group_id
            assert mail.send(servers, orders, group, 2) == [b"tea", b"cake"]
            kafka_group.assert_lag(0)
            kafka_group.seek({orders: "earliest"})
            assert mail.send(servers, orders, group, 1) == [b"tea"]
        """,
    "tests/test_cluster.py": """
        import sys

        import pytest
        from shop import orders


        @pytest.mark.kafka(nodes=3, act_as="3.9")
        def test_orders_survive_a_restart_of_three_nodes(kafka_cluster):
            kafka_cluster.topic("orders", partitions=3)
            servers = kafka_cluster.bootstrap_servers
            orders.place(servers, "orders", ["tea", "cake", "soup"])
            kafka_cluster.kill()
            kafka_cluster.restart()
            assert len(kafka_cluster.records("orders")) == 3


        def test_pytest_does_not_rewrite_the_server(kafka):
            loader = sys.modules["coterie.broker.server.server"].__loader__
            assert type(loader).__name__ == "SourceFileLoader"
        """,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the project's files; return its directory."""
    home = tmp_path_factory.mktemp("shop")
    for name, text in FILES.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
    return home


def test_the_tests_of_a_project_with_three_clients_pass(
    installed: Path, project: Path
) -> None:
    assert len(FILES) == 10
    pytest_ = (installed / "bin/python", "-m", "pytest")
    output = run(*pytest_, "-n", "2", "-p", "no:cacheprovider", cwd=project)
    assert "6 passed" in output


def test_a_failed_test_of_the_project_shows_the_requests(
    installed: Path, project: Path
) -> None:
    test = "def test_it(kafka, orders):\n    raise SystemExit('no tea')\n"
    (project / "tests/test_failing.py").write_text(test)
    code = (
        "import pytest, sys\n"
        "code = pytest.main(['tests/test_failing.py', '-p', 'no:cacheprovider'])\n"
        "sys.exit(code != pytest.ExitCode.TESTS_FAILED)\n"
    )
    output = run(installed / "bin/python", "-c", code, cwd=project)
    (project / "tests/test_failing.py").unlink()
    assert "requests of kafka" in output
