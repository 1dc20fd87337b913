"""`topology-webhook explain`: the complete reasons; for a gang each level's capacity, for a pod each node's answer.

It is `review` for people with nothing left out.
"""

from webhook.cli.command import Output, Snapshots
from webhook.cli.review import DECISION_SETTINGS, Files, review
from webhook.cli.setting_flags import with_setting_flags


def explain(filename: Files, cluster: Snapshots = None, **flags: str | None) -> None:
    """Show for every node why it fits a pod or not, and for a gang where it is placed or what is missing at each level.

    Files, settings and exit codes are those of review.
    """
    review(filename, cluster, Output.TABLE, all_nodes=True, **flags)


with_setting_flags(explain, DECISION_SETTINGS)
