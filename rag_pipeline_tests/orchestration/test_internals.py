"""Parts of Dagster that the project uses in its own way."""

import dagster as dg

from rag_pipeline.orchestration.internals import instance_of


def test_the_ticks_of_a_process_share_an_open_instance(tmp_path):
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        ticks = [dg.build_sensor_context(instance_ref=instance.get_ref()) for _ in range(2)]
        kept, again = map(instance_of, ticks)
        assert kept is again is not instance
        instance.report_runless_asset_event(dg.AssetMaterialization("site"))
        assert kept.get_latest_materialization_event(dg.AssetKey("site")) is not None
        for tick in ticks:
            tick.__exit__(None, None, None)
        assert kept.event_log_storage.get_maximum_record_id() == 1
        kept.dispose()
