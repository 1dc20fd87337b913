"""`topology-webhook explain`: why, in full: of a group what each level holds, of a pod what each node says.

It is `review` for people with nothing left out.
"""

from webhook.cli.review import DECISION_SETTINGS, Files, Output, Snapshots, review
from webhook.cli.setting_flags import with_setting_flags


def explain(filename: Files, cluster: Snapshots = None, **flags: str | None) -> None:
    """Say of every node why it fits a pod or not, and of a group where it goes or what is missing at each level.

    Judges as review does, and ends as it does.
    """
    review(filename, cluster, Output.TABLE, all_nodes=True, **flags)


with_setting_flags(explain, DECISION_SETTINGS)
