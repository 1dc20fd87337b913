"""Search for inputs that break an invariant, with a new seed each time: `python -m tests.fuzz`.

mutate.py      what is done to an object that is right
corpus.py      objects that are right, and a small cluster whose answers are known
reviews.py     AdmissionReviews through the real application
feeds.py       objects into the cluster's state, then decisions and rounds of the controller
cli.py         files into `review` and `explain`
properties.py  the hypothesis properties of the tree
run.py         the parts in turn, what each input costs, and how to repeat one that fails
"""
