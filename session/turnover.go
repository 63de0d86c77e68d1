package session

// Turnover counts what a node has applied since its process began, the entries included that it read from its own disk.
// What came with another node's snapshot is not counted.
type Turnover struct {
	// Opens, Moves, Closes, Expiries and Kills are of global sessions: opened, moved to another client or node, closed by
	// their clients, expired, and ended by operators.
	Opens, Moves, Closes, Expiries, Kills uint64
	// TreeWrites are writes of the tree, refused ones included.
	TreeWrites uint64
}
