"""Search for inputs that break an invariant, with a new seed each time: `python -m tests.fuzz`.

mutate.py      changes of a valid object
corpus.py      valid objects, and a small cluster with known answers
reviews.py     AdmissionReviews through the real application
feeds.py       objects into the cluster cache, then decisions and cycles of the controller
cli.py         files into `review` and `explain`
properties.py  the hypothesis properties of this repository
run.py         the parts in turn, the cost of each input, and how to repeat a failure
"""
