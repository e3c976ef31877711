"""The cron expressions of a corpus file are those that Dagster takes."""

import pytest
from dagster._utils.schedules import is_valid_cron_string

from rag_pipeline.config import load_config
from rag_pipeline.errors import ConfigError
from rag_pipeline_tests.testing.corpora import write_corpus


@pytest.mark.parametrize(
    "schedule",
    "0 3 * * *|every day|@daily|@midnight|@reboot|0 25 * * *|60 * * * *|*/0 * * * *|*/15 * * * *|"
    "0 0 * * sat-sun|0 0 * * 7|0 0 * * 8|0 0 L * *|0 0 0 * *|0 0 * * 1#2|0 0 * * mon#1|0 0 * * 1#6|"
    "0 0 * * L5|0 0 * Jan-MAR *|0 0 * 13 *|* * * * * *|0 0 ? * *|H * * * *| 0  3 * * * |"
    "1-59/5,7 * * * *|0 0 * * 1,2,|0 22-2 * * *|0 0 * * L|0 0 15W * *|05 07 01 01 *||".split("|"),
)
def test_a_corpus_file_takes_the_schedules_that_dagster_takes(tmp_path, schedule):
    file = write_corpus(tmp_path, schedule=schedule)
    if is_valid_cron_string(schedule):
        assert load_config(file).schedule == schedule
    else:
        with pytest.raises(ConfigError, match=r"schedule: .*: write a cron expression"):
            load_config(file)
