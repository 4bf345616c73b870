"""An engine that does tasks in this process, which saves starting others and lets tests look inside."""

from elbert.experiments.jobs import Ended


class Here:
    """Does one task after the other, here."""

    def __init__(self, *_, **__):
        self.done = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, tasks):
        for task in tasks:
            self.done.append(task.name)
            yield None
            yield Ended(task.name, task())
