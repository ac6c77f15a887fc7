"""Gold tables once more, in a form that others read: Delta, Iceberg, plain Parquet.

The lake stays what it is; these are whole copies, as Spark's own writers make them, so
the jars of the form have to be in the session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coterie.errors import SettingError
from coterie.pipeline.gold.look import empty, spark_schema
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.session.session import words_of
from coterie.pipeline.tables.all_tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def publish(
    spark: SparkSession, lake: Lake, names: Iterable[str], form: str, to: str
) -> None:
    """Write tables to folders of their names below `to`, in the place of what is there.

    `form` is what `DataFrameWriter.format` takes. Raises SettingError when Spark does
    not know it or cannot write there.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    target = Storage(to)
    for name in names:
        files = lake.version.of(name).files
        urls = [lake.storage.url(each.path) for each in files]
        schema = spark_schema(TABLES[name])
        frame = (
            spark.read.schema(schema).parquet(*urls)
            if urls
            else empty(spark, TABLES[name])
        )
        try:
            frame.write.format(form).mode("overwrite").save(target.url(name))
        except (PySparkException, Py4JError) as error:
            said = words_of(error)
            raise SettingError(
                f"{name} cannot be written to {target} as {form}: {said} (the jars of"
                " this form have to be there: --conf spark.jars.packages=...)"
            ) from None
