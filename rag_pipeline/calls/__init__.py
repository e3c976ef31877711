"""Cache, pace and retry every paid call, and stop all calls when a provider is down.

A provider's client makes one attempt and classifies its failure (`http_errors`). `Endpoint.send`
respects the rate limits and repeats failed attempts. `run_bounded` makes many calls at once.
`CallCache` stores the answers. `Claims` makes runs that need the same answer pay for one call.
`Asking` combines the cache and the claims. One SQL database stores everything (`sql`,
`database`).
"""

from rag_pipeline.imports import postpone

postpone(f"{__name__}.sql")  # a search with packaged models needs no SQLAlchemy

from rag_pipeline.calls.asking import Asking as Asking
from rag_pipeline.calls.asking import Claims as Claims
from rag_pipeline.calls.cache import CallCache as CallCache
from rag_pipeline.calls.cache import CallCounts as CallCounts
from rag_pipeline.calls.cache import call_key as call_key
from rag_pipeline.calls.database import Database as Database
from rag_pipeline.calls.endpoint import LONGEST_TIMEOUT as LONGEST_TIMEOUT
from rag_pipeline.calls.endpoint import PROBE as PROBE
from rag_pipeline.calls.endpoint import TRIES_OF_A_PROBE as TRIES_OF_A_PROBE
from rag_pipeline.calls.endpoint import Endpoint as Endpoint
from rag_pipeline.calls.endpoint import Received as Received
from rag_pipeline.calls.endpoint import Sending as Sending
from rag_pipeline.calls.endpoint import asked_again as asked_again
from rag_pipeline.calls.endpoint import open_endpoint as open_endpoint
from rag_pipeline.calls.endpoint import sent_as as sent_as
from rag_pipeline.calls.http_errors import failure_of_status as failure_of_status
from rag_pipeline.calls.http_errors import redacted as redacted
from rag_pipeline.calls.http_errors import unreachable as unreachable
from rag_pipeline.calls.pool import run_bounded as run_bounded
from rag_pipeline.calls.pool import run_calls as run_calls
