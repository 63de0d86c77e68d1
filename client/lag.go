package client

// lagRounds is how many rounds in which every node that answered was LAGGING have the index that was seen doubted.
const lagRounds = 2

// endLagRound judges a round that came to nothing.
func (l *loop) endLagRound() {
	g := &l.router.Lag
	if g.Rounds++; !g.Behind || g.Other {
		g.Rounds = 0
	}
	g.Behind, g.Other = false, false
	if index := l.seen.demand(); g.Rounds >= lagRounds && l.distrusted != index {
		l.distrusted = index
		l.logger.Warn("every node is behind what this client was told: was the cluster restored from a backup, or is "+
			"a server of another one? "+
			"Sessions are resumed all the same, reads are refused", "index", index)
	}
}

// demand returns what a resume that is sent now may not be older than.
func (l *loop) demand() uint64 {
	if index := l.seen.demand(); index != l.distrusted {
		return index
	}
	return 0
}
