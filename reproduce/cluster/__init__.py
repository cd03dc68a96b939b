from netarium_papers import Paper

PAPER = Paper("cluster", "", "", ())
