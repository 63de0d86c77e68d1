package session

// Turnover counts what a node has applied since its process began, including entries from its own disk. Entries in
// another node's snapshot do not count.
type Turnover struct {
	// Opens, Moves, Closes, Expiries and Kills are of global sessions: opened, moved to another client or node, closed by
	// their clients, expired, and ended by operators.
	Opens, Moves, Closes, Expiries, Kills uint64
	// TreeWrites are writes of the tree, refused ones included.
	TreeWrites uint64
}
