"""The application's server in a thread of the test's process."""

import threading

import uvicorn

from rag_pipeline.serving.connections import listening


class Running(uvicorn.Server):
    def __init__(self, app, settings):
        self.port = settings.port
        super().__init__(listening(app, settings))
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        while not self.started and self.thread.is_alive():
            self.thread.join(0.01)
        return self

    def __exit__(self, *error):
        self.should_exit = True
        self.thread.join()
